"""Matrices in files of MATLAB: up to version 7 through SciPy, version 7.3 is HDF5."""

import os
import zlib
from typing import Any

import scipy.sparse as sp

from somf.data.formats.checks import (
    MAX_EXPANSION_IN_MEMORY,
    SMALL,
    check_dimensions,
    choose,
    guarded,
    not_in_file,
)
from somf.data.formats.hdf5 import hdf5_source
from somf.data.formats.sparse_arrays import AS_ARRAYS
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.sparse import CsrSource
from somf.errors import DamagedFileError, NotAMatrixError

NUMERIC = (
    "single",
    "double",
    "logical",
    "sparse",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
"""Classes of MATLAB that are real numbers; cells, structs and objects are never read."""

NESTED = ("struct", "cell", "object", "table", "opaque")
"""Classes of MATLAB that hold other variables."""

HEADER_BYTES = 128
"""Bytes before the first variable of a file of version 5."""

COMPRESSED = 15
"""The type of a variable that is compressed by zlib."""


def matlab_source(path: str, name: str | None, transposed: bool) -> Source:
    """Read a matrix of a file of version 4 to 7, dense or sparse, into memory.

    Parameters
    ----------
    path : str
    name : str, optional
        Name of the variable; may be left out if there is only one matrix of numbers.
    transposed : bool
        Whether it is of shape (p, n).
    """
    from scipy.io import loadmat, whosmat

    with guarded(path, "a MATLAB file"):
        _check_expansion(path)
        variables = whosmat(path)
        shapes = {at: shape for at, shape, kind in variables if kind in NUMERIC}
        matrices = [at for at, shape in shapes.items() if len(shape) == 2 and max(shape) > 1]
        others = {at: kind for at, _, kind in variables if kind in NESTED}
        if others and not shapes:
            at, kind = next(iter(others.items()))
            raise NotAMatrixError(
                f"{at!r} in {path!r} is a {kind}, which cannot be read. Save its matrix on its "
                f"own: in MATLAB, X = {at}{'{1}' if kind == 'cell' else '.field'}; "
                "save('X.mat', 'X')."
            )
        chosen = choose(path, matrices, name, shapes=shapes)
        if chosen not in shapes:
            raise not_in_file(path, name, matrices)
        check_dimensions(path, shapes[chosen], name=name)
        X = loadmat(path, variable_names=[chosen], **AS_ARRAYS)[chosen]
        if not sp.issparse(X):
            return ArraySource(X.T if transposed else X)
        X.check_format(full_check=True)  # SciPy trusts the indices of the file
        return CsrSource(sp.csr_array(X.T if transposed else X))


def _check_expansion(path: str) -> None:
    """Raise DamagedFileError if a compressed variable expands too far; SciPy would not notice."""
    size = os.path.getsize(path)
    left = most = max(SMALL, MAX_EXPANSION_IN_MEMORY * size)
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES)
        if head[126:128] not in (b"IM", b"MI"):
            return  # version 4 does not compress
        order = "little" if head[126:128] == b"IM" else "big"
        while len(tag := file.read(8)) == 8:
            kind = int.from_bytes(tag[:4], order)  # type: ignore[arg-type]
            n_bytes = int.from_bytes(tag[4:], order)  # type: ignore[arg-type]
            end = file.tell() + n_bytes
            if kind == COMPRESSED:
                left -= _inflated_bytes(file, min(n_bytes, size), left)
            if left < 0:
                raise DamagedFileError(
                    f"{path!r} is damaged: it expands to more than {most:,} bytes, and {size:,} "
                    "are stored. If it is fine, convert it to .npy, which is mapped into memory."
                )
            file.seek(end)


def _inflated_bytes(file: Any, n_stored: int, most: int) -> int:
    """Return how many bytes a compressed variable has, or more than `most` if it has more."""
    inflate, total = zlib.decompressobj(), 0
    waiting = b""
    while total <= most and not inflate.eof:
        if not waiting:
            waiting = file.read(min(n_stored, 2**20))
            n_stored -= len(waiting)
            if not waiting:
                break
        total += len(inflate.decompress(waiting, 2**22))
        waiting = inflate.unconsumed_tail
    return total


def matlab_73_source(
    path: str, name: str | None, transposed: bool, allow_external: bool = False
) -> Source:
    """Open a matrix of a file of version 7.3, which stores the transposed of dense matrices.

    Parameters
    ----------
    path, name, transposed, allow_external
        See `hdf5_source`.
    """
    return hdf5_source(path, name, transposed, allow_external, is_of_matlab=True)
