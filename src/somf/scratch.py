"""Arrays that may be larger than memory: zeros in a memory-mapped scratch file."""

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from somf.typing import Array

SCRATCH_BYTES = 2**28
"""Arrays of more bytes than this are in a scratch file that is mapped into memory."""


def scratch_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return zeros, in memory up to `SCRATCH_BYTES`, else mapped from a temporary file.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype

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
    if hasattr(mmap, "MADV_RANDOM"):
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
        raise OSError(
            error.errno,
            f"{error.strerror}: {size:,} bytes are needed in "
            f"{tempfile.gettempdir()!r}. Set TMPDIR to a folder with more room",
        ) from error
