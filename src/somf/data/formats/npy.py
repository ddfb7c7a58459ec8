"""Files of NumPy and SciPy: `.npy`, raw binary, and CSR in `.npz`."""

import math
import os
import zipfile
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.checks import is_real
from somf.data.formats.checks import check_claim, check_memory, guarded
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


def read_csr(path: str) -> sp.csr_array:
    """Read a CSR matrix that `scipy.sparse.save_npz` has written.

    Parameters
    ----------
    path : str

    Returns
    -------
    X : csr_array of shape (n, p)
    """
    with guarded(path, "a sparse matrix of scipy.sparse.save_npz"):
        _check_members(path)
        X = sp.load_npz(path)
        check_claim(path, X.shape[1] * X.dtype.itemsize, os.path.getsize(path))  # a row of it
        if X.format != "csr":
            raise DamagedFileError(f"{path!r} must hold a CSR matrix, got {X.format.upper()}.")
        X = sp.csr_array(X)
        X.check_format(full_check=True)  # SciPy does not check indices when it reads rows
    return X


def _check_members(path: str) -> None:
    """Compare the sizes that the arrays of an archive declare with what is stored."""
    with zipfile.ZipFile(path) as archive:
        total = sum(member.file_size for member in archive.infolist())
        check_memory(path, total, "If it is fine, save it with compressed=False.")
        for member in archive.infolist():
            check_claim(path, member.file_size, member.compress_size)
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                read = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }[version]
                shape, _, dtype = read(file)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} promises more data than there is")
