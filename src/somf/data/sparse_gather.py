"""From the rows of a CSR matrix to a CSC minibatch, in one compiled pass over their entries."""

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
    if not numba_can_read(X.dtype):
        X = X[positions].astype(dtype)
        positions = np.arange(len(positions))
    p = X.shape[1]
    column = np.empty(0, np.int64) if column is None else column
    # Where the entries of each column begin, and after `_place` where they end.
    starts = np.zeros(p + 1, np.int32 if X.indices.dtype.itemsize == 4 else np.int64)
    n_entries = _count(X.indptr, X.indices, positions, column, len(X.data), starts)
    if n_entries == OUTSIDE:
        return None
    rows: Ints = np.empty_like(starts, shape=n_entries)
    entries: Array = np.empty(n_entries, dtype)
    n_kept, total, least = _place(
        X.indptr, X.indices, X.data, positions, column, starts, rows, entries
    )
    batch = sp.csc_array((entries[:n_kept], rows[:n_kept], starts), shape=(len(positions), p))
    return Gathered(batch, float(total), float(least))


@jit
def _count(
    indptr: Ints, indices: Ints, positions: Ints, column: Ints, n_entries: int, starts: Ints
) -> int:
    """Count the entries of every column into `starts`, shifted by one; return how many there are.

    An index outside the matrix is an error: `_place` does not look again.
    """
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
    same row.
    """
    for j in range(1, len(starts)):
        starts[j] += starts[j - 1]
    ends = starts[:-1].copy()
    total, least, n_repeated = entries.dtype.type(0), entries.dtype.type(0), 0
    for i in range(len(positions)):
        for e in range(indptr[positions[i]], indptr[positions[i] + 1]):
            j = column[indices[e]] if len(column) else indices[e]
            entry, end = entries.dtype.type(data[e]), ends[j]
            total += entry
            if end > starts[j] and rows[end - 1] == i:
                entries[end - 1] += entry
                n_repeated += 1
            else:
                rows[end], entries[end] = i, entry
                ends[j] = end + 1
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
