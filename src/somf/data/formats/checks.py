"""Files that others have made: errors name the file, and a claim of size is not believed."""

from collections.abc import Iterator
from contextlib import contextmanager

from somf.errors import (
    DamagedFileError,
    FileRequestError,
    NoDatasetError,
    NotAMatrixError,
    SeveralDatasetsError,
    SomfError,
)

MAX_EXPANSION = 2**12
"""Bytes that a byte of a compressed file may stand for; Deflate reaches 1032."""


@contextmanager
def guarded(path: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader stumbles over into an error that names the file."""
    try:
        yield
    except (SomfError, ImportError, MemoryError, PermissionError):
        raise
    except Exception as error:
        raise DamagedFileError(
            f"{path!r} is not {kind}, or is damaged: {str(error).rstrip('.')}."
        ) from error


def check_claim(path: str, claimed: int, stored: int) -> None:
    """Raise an error if a header promises more bytes than the file can possibly hold."""
    if claimed > MAX_EXPANSION * stored:
        raise DamagedFileError(
            f"{path!r} is damaged: its header promises {claimed:,} bytes of data, "
            f"and {stored:,} are stored."
        )


def check_is_matrix(path: str, shape: tuple[int, ...]) -> None:
    """Raise an error unless what is in a file has two dimensions."""
    if len(shape) != 2:
        image = " If it is an image: ImagePatches(path, patch_size)." if len(shape) == 3 else ""
        raise NotAMatrixError(
            f"{path!r} must hold a matrix of samples × features, got {len(shape)}D array of shape "
            f"{tuple(shape)}.{image}"
        )


def choose(path: str, names: list[str], name: str | None) -> str:
    """Return the name of what to open in a file, the only one that qualifies if none is given."""
    if name is not None:
        return name
    if not names:
        raise NoDatasetError(path)
    if len(names) > 1:
        raise SeveralDatasetsError(path, names)
    return names[0]


def not_in_file(path: str, name: str | None, names: list[str]) -> FileRequestError:
    """Return the error that a file has no dataset of some name."""
    return FileRequestError(path, "dataset", f"be one of {names} in {path!r}", name)
