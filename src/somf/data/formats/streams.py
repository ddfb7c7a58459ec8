"""Reading files from beginning to end: through gzip, within a bound, into an array."""

import gzip
import io
import os
from typing import IO, BinaryIO

import numpy as np

from somf.data.formats.checks import MAX_EXPANSION_IN_MEMORY, SMALL
from somf.data.formats.kinds import is_gzip
from somf.errors import DamagedFileError
from somf.typing import Array

PIECE_BYTES = 2**24
"""Bytes that are read at once."""


def most_inflated(path: str) -> int:
    """Return how many bytes a compressed file that declares no size may expand to."""
    return max(SMALL, MAX_EXPANSION_IN_MEMORY * os.path.getsize(path))


def open_bounded(path: str, most: int) -> BinaryIO:
    """Open a file for reading, through gzip if it is compressed.

    Parameters
    ----------
    path : str
    most : int
        Bytes that a compressed file may expand to.

    Returns
    -------
    file : binary file
        Reading it raises DamagedFileError where a compressed file goes on after `most` bytes.
    """
    if not is_gzip(path):
        return open(path, "rb")
    return io.BufferedReader(_Inflated(path, most))


def read_into(file: IO[bytes], out: Array) -> None:
    """Fill an array with the next bytes of a file.

    Parameters
    ----------
    file : binary file
    out : ndarray
        C-contiguous.

    Raises
    ------
    ValueError
        If the file ends before the array is full.
    """
    target, done = out.reshape(-1).view(np.uint8), 0
    while done < len(target):
        piece = np.frombuffer(file.read(min(PIECE_BYTES, len(target) - done)), np.uint8)
        if len(piece) == 0:
            raise ValueError(f"it ends {len(target) - done:,} bytes before its last number")
        target[done : done + len(piece)] = piece
        done += len(piece)


class _Inflated(io.RawIOBase):
    def __init__(self, path: str, most: int) -> None:
        super().__init__()
        self._path, self._most, self._left = path, most, most
        self._file = gzip.open(path, "rb")  # noqa: SIM115 (closed with this file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "io.Buffer") -> int:  # type: ignore[name-defined] # Python 3.12
        n_read = self._file.readinto(buffer)
        self._left -= n_read
        if self._left < 0:
            raise DamagedFileError(
                f"{self._path!r} is damaged: it expands to more than {self._most:,} bytes. If it "
                "is fine, decompress it first."
            )
        return n_read

    def close(self) -> None:
        self._file.close()
        super().close()
