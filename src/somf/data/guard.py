"""Files that others have made: errors name the file, and a claim of size is not believed."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from somf.tensorfile import DamagedFileError

MAX_EXPANSION = 2**12
"""Bytes that a byte of a compressed file may stand for; Deflate reaches 1032."""


@contextmanager
def guarded(path: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader stumbles over into an error that names the file."""
    try:
        yield
    except (ImportError, MemoryError, PermissionError, DamagedFileError):
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


def optional(module: str, extra: str) -> Any:
    """Import a library that is not always there, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Reading such files needs {module.partition('.')[0]}: pip install 'somf[{extra}]'."
        ) from error
