"""From the rows of a CSR matrix to a CSC minibatch, in one compiled pass over their entries."""

from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from somf.data.gather import numba_can_read
from somf.kernels.cpu.jit import jit
from somf.typing import Array, Ints

OUTSIDE = -1
"""What `_place` returns instead of a number of entries if an index lies outside the matrix."""


class Gathered(NamedTuple):
    """A minibatch, and what its checks need.

    Attributes
    ----------
    X : csc_array of shape (b, p)
        Its indices are sorted, without repetition.
    total : float
        The sum of all entries: not finite if one of them is not, or if they are huge.
    least : float
        The smallest entry; at most zero.
    """

    X: sp.csc_array
    total: float
    least: float


def gather_sparse(
    X: sp.csr_array, positions: Ints, column: Ints | None, dtype: np.dtype[Any]
) -> Gathered | None:
    """Pick rows, permute columns, convert, add up repeated entries, and sort by columns.

    Parameters
    ----------
    X : csr_array of shape (m, p)
        Its indices may lie outside.
    positions : ndarray of shape (b,)
        Rows of X.
    column : ndarray of shape (p,), optional
        To which column each feature goes; None keeps their order.
    dtype : numpy.dtype
        Of the minibatch.

    Returns
    -------
    gathered : Gathered or None
        None if X is no valid CSR matrix.
    """
    numbers, p = (X.indptr, X.indices), X.shape[1]
    if len(X.indptr) != X.shape[0] + 1 or any(array.dtype.kind not in "iu" for array in numbers):
        return None
    indptr, indices = (_native(array) for array in numbers)
    data = X.data
    if not numba_can_read(X.dtype):
        begins, ends = indptr[positions], indptr[positions + 1]
        if (begins < 0).any() or (begins > ends).any() or (ends > len(data)).any():
            return None
        chosen = np.concatenate([np.arange(a, b) for a, b in zip(begins, ends, strict=True)])
        data, indices = data[chosen].astype(dtype), indices[chosen]
        indptr = np.concatenate([[0], np.cumsum(ends - begins)])
        positions = np.arange(len(positions))
    column = np.empty(0, np.int64) if column is None else column
    # Where the entries of each column begin, and after `_place` where they end.
    starts = np.zeros(p + 1, np.int32 if indices.dtype.itemsize == 4 else np.int64)
    n_entries = _count(indptr, indices, positions, column, len(data), starts)
    if n_entries == OUTSIDE:
        return None
    rows: Ints = np.empty_like(starts, shape=n_entries)
    entries: Array = np.empty(n_entries, dtype)
    n_kept, total, least = _place(indptr, indices, data, positions, column, starts, rows, entries)
    if n_kept == OUTSIDE:
        return None
    batch = assembled(entries[:n_kept], rows[:n_kept], starts, (len(positions), p))
    return Gathered(batch, float(total), float(least))


def assembled(data: Array, indices: Ints, indptr: Ints, shape: tuple[int, int]) -> sp.csc_array:
    """Return a CSC matrix of arrays that are known to be right.

    For small minibatches, the checks of the constructor would take longest of all.
    """
    matrix = copy(_blank(shape, data.dtype))
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


@lru_cache(maxsize=8)
def _blank(shape: tuple[int, int], dtype: np.dtype[Any]) -> sp.csc_array:
    """Return a matrix without entries."""
    return sp.csc_array(shape, dtype=dtype)


def _native(array: Ints) -> Ints:
    """Return integers in the byte order of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@jit
def _count(
    indptr: Ints, indices: Ints, positions: Ints, column: Ints, n_entries: int, starts: Ints
) -> int:
    """Count the entries of every column into `starts`, shifted by one; return their number."""
    p, total = len(starts) - 1, 0
    for position in positions:
        begin, end = indptr[position], indptr[position + 1]
        if not 0 <= begin <= end <= min(n_entries, len(indices)):
            return OUTSIDE
        for e in range(begin, end):
            feature = indices[e]
            if not 0 <= feature < p:
                return OUTSIDE
            starts[(column[feature] if len(column) else feature) + 1] += 1
        total += end - begin
    return total


@jit
def _place(
    indptr: Ints,
    indices: Ints,
    data: Array,
    positions: Ints,
    column: Ints,
    starts: Ints,
    rows: Ints,
    entries: Array,
) -> tuple[int, float, float]:
    """Put every entry into its column; return how many are left, their sum and the smallest.

    Rows come one after the other. So an entry is repeated if the last one of its column is in the
    same row. Another thread or process may have changed indices since they were counted.
    """
    for j in range(1, len(starts)):
        starts[j] += starts[j - 1]
    ends = starts[:-1].copy()
    total, least, n_repeated = entries.dtype.type(0), entries.dtype.type(0), 0
    for i in range(len(positions)):
        begin, stop = indptr[positions[i]], indptr[positions[i] + 1]
        if not 0 <= begin <= stop <= min(len(data), len(indices)):
            return OUTSIDE, total, least
        for e in range(begin, stop):
            feature = indices[e]
            if not 0 <= feature < len(ends):
                return OUTSIDE, total, least
            j = column[feature] if len(column) else feature
            entry, end = entries.dtype.type(data[e]), ends[j]
            total += entry
            if end > starts[j] and rows[end - 1] == i:
                entries[end - 1] += entry
                n_repeated += 1
            elif end < starts[j + 1]:
                rows[end], entries[end] = i, entry
                ends[j] = end + 1
            else:
                return OUTSIDE, total, least
    if n_repeated:
        _close_gaps(starts, ends, rows, entries)
    n_kept = len(entries) - n_repeated
    for e in range(n_kept):
        least = min(least, entries[e])
    return n_kept, total, least


@jit
def _close_gaps(starts: Ints, ends: Ints, rows: Ints, entries: Array) -> None:
    """Move columns together that have fewer entries than they have room for."""
    n_kept = 0
    for j in range(len(ends)):
        begin, starts[j] = starts[j], n_kept
        for e in range(begin, ends[j]):
            rows[n_kept], entries[n_kept] = rows[e], entries[e]
            n_kept += 1
    starts[len(ends)] = n_kept
