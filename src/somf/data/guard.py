"""Files that others have made: errors name the file, and a claim of size is not believed."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from somf.tensorfile import DamagedFileError

MAX_EXPANSION = 2**12
"""Bytes that a byte of a compressed file may stand for; Deflate reaches 1032."""


class RequestError(ValueError):
    """The file may be fine; what is asked of it is not."""


class SeveralDatasetsError(RequestError):
    """A file holds several datasets, and none of them is named."""

    def __init__(self, path: str, names: list[str]) -> None:
        self.names = sorted(names)
        held = f"several: {', '.join(self.names)}"
        super().__init__(f"dataset must name what to read in {path!r}, which holds {held}.")


@contextmanager
def guarded(path: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader stumbles over into an error that names the file."""
    try:
        yield
    except (ImportError, MemoryError, PermissionError, DamagedFileError, RequestError):
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
        raise DamagedFileError(
            f"{path!r} must hold a matrix of samples × features, got {len(shape)}D array of shape "
            f"{tuple(shape)}.{image}"
        )


def choose(path: str, names: list[str], name: str | None) -> str:
    """Return the name of what to open in a file, the only one that qualifies if none is given."""
    if name is not None:
        return name
    if not names:
        raise RequestError(f"dataset must name what to read in {path!r}, which holds none.")
    if len(names) > 1:
        raise SeveralDatasetsError(path, names)
    return names[0]


def optional(module: str, extra: str) -> Any:
    """Import a library that is not always there, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Reading such files needs {module.partition('.')[0]}: pip install 'somf[{extra}]'."
        ) from error
