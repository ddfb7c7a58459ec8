"""Arrays that may be larger than memory: zeros in a memory-mapped scratch file."""

import math
import mmap
import os
import tempfile
from typing import IO, Any

import numpy as np

from somf.typing import Array

SCRATCH_BYTES = 2**28
"""Arrays of more bytes than this are in a scratch file that is mapped into memory."""


def scratch_zeros(shape: tuple[int, ...], dtype: np.dtype[Any], in_order: bool = False) -> Array:
    """Return zeros, in memory up to `SCRATCH_BYTES`, else mapped from a temporary file.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    in_order : bool
        Whether rows are read one after the other, so that the next ones may be read ahead.

    Returns
    -------
    array : ndarray or memmap
    """
    size = math.prod(shape) * dtype.itemsize
    if size <= SCRATCH_BYTES:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        _reserve_scratch(file.fileno(), size)
        array = np.memmap(file, dtype=dtype, shape=shape)
    if hasattr(mmap, "MADV_RANDOM") and not in_order:
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined] # samples come in random order
    return array


def reserve(file: int, size: int) -> None:
    """Reserve disk space now: a write to a mapped file on a full disk kills the process.

    Parameters
    ----------
    file : int
        The descriptor of the file.
    size : int
        Bytes.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)


def _reserve_scratch(file: int, size: int) -> None:
    try:
        reserve(file, size)
    except OSError as error:
        raise _no_room(error, size) from error


def _no_room(error: OSError, size: int) -> OSError:
    return OSError(
        error.errno,
        f"{error.strerror}: {size:,} bytes are needed in "
        f"{tempfile.gettempdir()!r}. Set TMPDIR to a folder with more room",
    )


class ScratchRows:
    """Rows that are appended one block after the other, as many as will come.

    They are in memory up to `SCRATCH_BYTES`, and then in a temporary file.

    Parameters
    ----------
    n_columns : int
    dtype : numpy.dtype
    """

    def __init__(self, n_columns: int, dtype: np.dtype[Any]) -> None:
        self.n_columns, self.dtype = n_columns, dtype
        self.n_rows = 0
        self._blocks: list[Array] = []
        self._file: IO[bytes] | None = None

    @property
    def n_bytes(self) -> int:
        """How many bytes all rows take."""
        return self.n_rows * self.n_columns * self.dtype.itemsize

    def append(self, rows: Array) -> None:
        """Add rows after the last ones.

        Parameters
        ----------
        rows : ndarray of shape (b, n_columns)
        """
        self._blocks.append(np.ascontiguousarray(rows, self.dtype))
        self.n_rows += len(rows)
        if self.n_bytes > SCRATCH_BYTES:
            self._write()

    def finish(self) -> Array:
        """Return all rows.

        Returns
        -------
        array : ndarray or memmap of shape (n_rows, n_columns)
        """
        shape = (self.n_rows, self.n_columns)
        if self._file is None:
            return np.concatenate([np.empty((0, self.n_columns), self.dtype), *self._blocks])
        with self._file as file:
            file.flush()
            return np.memmap(file, dtype=self.dtype, mode="r", shape=shape)

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed when it is mapped)
        try:
            for block in self._blocks:
                self._file.write(block.data.cast("B") if block.size else b"")
        except OSError as error:
            raise _no_room(error, self.n_bytes) from error
        self._blocks.clear()
