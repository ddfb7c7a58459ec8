"""Error messages in the terms of the command line: names of options and of files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from somf.data import ImagePatches, Source
from somf.errors import (
    DataError,
    MissingDeviceError,
    MissingLibraryError,
    NotFiniteError,
    OutOfMemoryError,
)

NO_DATA_HINT = (
    "If NaN or infinity stands for no data, add --no-data nan or --no-data inf to the command."
)
"""What to do about an image with pixels that are not finite."""


def message_of(error: BaseException) -> str:
    """Return the message of an error, with its notes."""
    return with_notes(_text_of(error), error)


def with_notes(text: str, error: BaseException) -> str:
    """Return a text followed by the notes of an error."""
    return " ".join([text, *getattr(error, "__notes__", [])])


def _text_of(error: BaseException) -> str:
    if isinstance(error, MissingDeviceError):
        return f"--device {error.device} needs {error.need} Use --device cpu to compute without it."
    if isinstance(error, MissingLibraryError) and error.extra == "cuda":
        return str(MissingLibraryError("--device cuda", error.library, error.extra))
    if isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
        return f"There is not enough memory. {error}".rstrip()
    return str(error) or type(error).__name__


@contextmanager
def naming_files(
    paths: Sequence[str], source: Source | None, validation: float | str | None = None
) -> Iterator[None]:
    """Add the names of the files to errors about samples.

    Samples are read long after their files were opened, so these errors know only the row.

    Parameters
    ----------
    paths : sequence of str
    source : Source or None
        The samples in these files.
    validation : float, str or None
        The file with the validation set, or the fraction of the samples that is one.
    """
    try:
        yield
    except DataError as error:
        if isinstance(error, NotFiniteError) and isinstance(source, ImagePatches):
            error.add_note(NO_DATA_HINT)
        is_validation_file = error.name == "validation" and isinstance(validation, str)
        files = str(validation) if is_validation_file else ", ".join(paths)
        raise DataError(with_notes(f"{files}: {error}", error), error.name, error.row) from error
