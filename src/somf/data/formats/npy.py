"""Arrays in files: `.npy`, and nothing but numbers."""

import math
import os
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.checks import guarded
from somf.errors import DamagedFileError, FileRequestError
from somf.typing import Array


def map_npy(path: str) -> Array:
    """Map a `.npy` file into memory, read-only.

    Parameters
    ----------
    path : str

    Returns
    -------
    array : memmap
    """
    with guarded(path, "a .npy file"):
        # NumPy refuses to map objects, and more than the file holds.
        array: Array = np.lib.format.open_memmap(path, mode="r")
        if array.dtype.names is not None:
            raise DamagedFileError(
                f"{path!r} must hold numbers, got records of {', '.join(array.dtype.names)}. Make "
                "a matrix of them: numpy.lib.recfunctions.structured_to_unstructured."
            )
    return array


def map_raw(path: str, shape: tuple[int, int], dtype: Any) -> Array:
    """Map a file of nothing but numbers into memory, read-only.

    Parameters
    ----------
    path : str
    shape : tuple of (int, int)
        As it is stored, the last axis varying fastest.
    dtype : numpy.dtype or what makes one

    Returns
    -------
    array : memmap
    """
    dtype = np.dtype(dtype)
    if not is_real(dtype):
        rule = f"be a type of real numbers for {path!r}"
        raise FileRequestError(path, "dtype", rule, dtype, got=str(dtype))
    if not _is_shape_of_a_matrix(shape):
        raise FileRequestError(path, "shape", f"be two positive integers for {path!r}", shape)
    expected, size = math.prod(int(n) for n in shape) * dtype.itemsize, os.path.getsize(path)
    if expected != size:
        raise FileRequestError(
            path,
            "shape and dtype",
            f"fit the file {path!r} of {size:,} bytes",
            (shape, dtype),
            got=f"{tuple(shape)} of {dtype}, {expected:,} bytes",
        )
    return np.memmap(path, dtype=dtype, mode="r", shape=tuple(shape))


def _is_shape_of_a_matrix(shape: Any) -> bool:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        return False
    return all(isinstance(n, int | np.integer) and n >= 1 for n in shape)
