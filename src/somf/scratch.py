"""Arrays that may be larger than memory: zeros in a scratch file that is mapped."""

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from somf.typing import Array

SCRATCH_BYTES = 2**28
"""Arrays larger than this live in a scratch file that is mapped into memory."""


def scratch_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return zeros, in memory if they are few, else mapped from a temporary file.

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
        _reserve(file.fileno(), size)
        array = np.memmap(file, dtype=dtype, shape=shape)
    if hasattr(mmap, "MADV_RANDOM"):
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined] # neighbours of a sample are not wanted with it
    return array


def _reserve(file: int, size: int) -> None:
    """Make sure that a disk has room; if it turned out later, the process would be killed."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: {size:,} bytes are needed in "
            f"{tempfile.gettempdir()!r}. Set TMPDIR to a folder with more room",
        ) from error
