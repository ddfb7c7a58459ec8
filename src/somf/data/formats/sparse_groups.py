"""Sparse matrices in groups of HDF5 and Zarr: three arrays, and what describes them.

AnnData writes such groups, as do 10x Genomics (HDF5) and MATLAB 7.3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.checks import check_chunks, check_claim, guarded
from somf.data.formats.sparse_conversion import BLOCK_ENTRIES, Entries, converted_to_rows
from somf.data.source import Source
from somf.data.sources.compressed_rows import CompressedRows, check_pointers
from somf.data.sources.sliced import dtype_of
from somf.errors import DamagedFileError
from somf.typing import Ints


@dataclass(frozen=True)
class SparseLayout:
    """How a group stores a sparse matrix.

    Attributes
    ----------
    by_rows : bool
        Whether rows are compressed (CSR), and not columns (CSC).
    shape : tuple of (int, int)
        Of the matrix as it is stored.
    names : tuple of (str, str, str)
        The arrays: data, indices, indptr.
    is_of_10x : bool
        Whether it is one of 10x Genomics, of features × cells, with names beside it.
    """

    by_rows: bool
    shape: tuple[int, int]
    names: tuple[str, str, str] = ("data", "indices", "indptr")
    is_of_10x: bool = False


def sparse_layout(group: Any, get: Callable[[str], Any]) -> SparseLayout | None:
    """Return how a group stores a sparse matrix, or None if it does not.

    Parameters
    ----------
    group : h5py.Group or zarr.Group
    get : callable
        Returns what a name in the group stands for, or None; it follows no link out of the file.

    Raises
    ------
    ValueError
        If the group declares a sparse matrix, but not its shape.
    """
    attributes = group.attrs
    if "MATLAB_sparse" in attributes:
        pointers = get("jc")
        if pointers is None:
            raise ValueError("a sparse matrix of MATLAB must have 'jc'")
        n_rows, n_columns = int(attributes["MATLAB_sparse"]), int(pointers.shape[0]) - 1
        return SparseLayout(False, (n_rows, n_columns), ("data", "ir", "jc"))
    encoding = _text(attributes.get("encoding-type", attributes.get("h5sparse_format", "")))
    if encoding in ("csr_matrix", "csc_matrix", "csr", "csc"):
        shape = attributes.get("shape", attributes.get("h5sparse_shape"))
        return SparseLayout(encoding.startswith("csr"), _shape(shape))
    if not encoding and {"barcodes", "data", "indices", "indptr", "shape"} <= set(group.keys()):
        stored = get("shape")  # of 10x: features × cells, of which the cells are compressed
        shape = _shape(stored[:] if stored.shape == (2,) else None)
        return SparseLayout(False, shape, is_of_10x=True)
    return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _shape(value: Any) -> tuple[int, int]:
    numbers = np.asarray([] if value is None else value)
    if numbers.shape != (2,) or numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise ValueError("the shape of a sparse matrix must be two integers")
    return int(numbers[0]), int(numbers[1])


@dataclass(frozen=True)
class StoredEntries:
    """The arrays of a sparse matrix, with rows or columns compressed.

    Attributes
    ----------
    data, indices, indptr : h5py.Dataset or zarr.Array
    n_bytes : int
        How many bytes are stored for them.
    confirm : callable
        Given the first and the last entry, it raises an error if entries between them are gone.
    """

    data: Any
    indices: Any
    indptr: Any
    n_bytes: int
    confirm: Callable[[int, int], None]


def sparse_source(
    stored: StoredEntries, layout: SparseLayout, transposed: bool, path: str
) -> Source:
    """Return a source of a sparse matrix: read in runs of rows, or converted if it has columns.

    Parameters
    ----------
    stored : StoredEntries
    layout : SparseLayout
    transposed : bool
        Whether the matrix is of shape (p, n).
    path : str
    """
    indptr = _checked_pointers(stored, layout, path)
    n, p = layout.shape[::-1] if transposed else layout.shape
    check_claim(path, p * dtype_of(stored.data).itemsize, stored.n_bytes)
    if layout.by_rows != transposed:
        return StoredRows(stored, indptr, p, path)
    blocks = partial(_entries_by_column, stored, indptr, path)
    return converted_to_rows(blocks, (n, p), dtype_of(stored.data), path)


def _checked_pointers(stored: StoredEntries, layout: SparseLayout, path: str) -> Ints:
    """Return `indptr`, after checks of everything that is known without reading entries."""
    for array, what in zip((stored.data, stored.indices, stored.indptr), layout.names, strict=True):
        if len(array.shape) != 1:
            raise DamagedFileError(
                f"{path!r} is damaged: {what!r} of a sparse matrix must have one dimension, got "
                f"shape {tuple(array.shape)}."
            )
        check_claim(path, array.nbytes, stored.n_bytes)
        check_chunks(path, array, stored.n_bytes)
    is_integer = all(dtype_of(a).kind in "iu" for a in (stored.indices, stored.indptr))
    n_pointers = layout.shape[0 if layout.by_rows else 1] + 1
    if not is_integer or not is_real(dtype_of(stored.data)):
        raise DamagedFileError(f"{path!r} is damaged: a sparse matrix must consist of numbers.")
    if int(stored.indptr.shape[0]) != n_pointers:
        raise DamagedFileError(
            f"{path!r} is damaged: a sparse matrix of shape {layout.shape} must have "
            f"{n_pointers:,} pointers, got {int(stored.indptr.shape[0]):,}."
        )
    indptr = np.asarray(stored.indptr[:]).astype(np.int64)
    check_pointers(stored.data, stored.indices, indptr, path)
    return indptr


class StoredRows(CompressedRows):
    """Compressed rows whose files must still exist after they were read.

    Parameters
    ----------
    stored : StoredEntries
    indptr : ndarray of shape (n + 1,)
    n_columns : int
    path : str
    """

    def __init__(self, stored: StoredEntries, indptr: Ints, n_columns: int, path: str) -> None:
        super().__init__(stored.data, stored.indices, indptr, n_columns, path)
        self._stored = stored

    def _confirm(self, first: int, last: int) -> None:
        self._stored.confirm(first, last)


def _entries_by_column(stored: StoredEntries, indptr: Ints, path: str) -> Iterator[Entries]:
    """Yield the entries of compressed columns, many at a time."""
    n_entries = int(indptr[-1])
    for first in range(0, n_entries, BLOCK_ENTRIES):
        last = min(first + BLOCK_ENTRIES, n_entries)
        with guarded(path, "a sparse matrix"):
            rows = np.asarray(stored.indices[first:last]).astype(np.int64)
            values = np.asarray(stored.data[first:last])
        stored.confirm(first, last)
        owner = int(np.searchsorted(indptr, first, side="right")) - 1
        end = int(np.searchsorted(indptr, last, side="left"))
        edges = np.clip(indptr[owner : end + 1], first, last)
        yield Entries(rows, np.repeat(np.arange(owner, end), edges[1:] - edges[:-1]), values)
