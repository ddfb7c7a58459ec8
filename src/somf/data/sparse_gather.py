"""From the rows of a CSR matrix to a CSC minibatch, in one compiled pass over their entries."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from somf.data.gather import numba_can_read
from somf.kernels.cpu.jit import jit
from somf.typing import Array, Ints

NO_COLUMNS = np.empty(0, np.int64)
"""Where features go if they keep their order."""

OUTSIDE = -1
"""What functions return instead of a number of entries if an index lies outside the matrix."""


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
        Rows of X, which may lie outside.
    column : ndarray of shape (p,), optional
        To which column each feature goes; None keeps their order.
    dtype : numpy.dtype
        Of the minibatch.

    Returns
    -------
    gathered : Gathered or None
        None if X is no valid CSR matrix, or does not have these rows.
    """
    indptr, indices, data, p = _native(X.indptr), _native(X.indices), X.data, X.shape[1]
    if (
        len(indptr) != X.shape[0] + 1
        or indptr.dtype.kind not in "iu"
        or indices.dtype.kind not in "iu"
    ):
        return None
    if not numba_can_read(X.dtype):
        if not ((positions >= 0) & (positions < X.shape[0])).all():
            return None
        begins, ends = (indptr[at].astype(np.int64) for at in (positions, positions + 1))
        most = min(len(data), len(indices))
        if (begins < 0).any() or (begins > ends).any() or (ends > most).any():
            return None
        pieces = [np.arange(a, b) for a, b in zip(begins, ends, strict=True)]
        chosen = np.concatenate([np.arange(0), *pieces])
        data, indices = data[chosen].astype(dtype), indices[chosen]
        indptr = np.concatenate([[0], np.cumsum(ends - begins)])
        positions = np.arange(len(positions))
    column = NO_COLUMNS if column is None else column
    # How many entries each column has, shifted by one, and after `_place` where they begin.
    starts = np.zeros(p + 1, np.int32 if indices.dtype.itemsize == 4 else np.int64)
    n_entries = _count(indptr, indices, positions, column, len(data), starts)
    if n_entries == OUTSIDE:
        return None
    pairs = np.empty(2 * n_entries, dtype)
    as_integers = pairs.view(f"i{dtype.itemsize}")
    n_kept = _place(indptr, indices, data, positions, column, starts, as_integers, pairs)
    if n_kept == OUTSIDE:
        return None
    rows: Ints = np.empty_like(starts, shape=n_kept)
    entries: Array = np.empty(n_kept, dtype)
    total, least = _separate(as_integers, pairs, rows, entries)
    batch = assembled(entries, rows, starts, (len(positions), p))
    return Gathered(batch, float(total), float(least))


def assembled(data: Array, indices: Ints, indptr: Ints, shape: tuple[int, int]) -> sp.csc_array:
    """Return a CSC matrix of arrays that are known to be right.

    For small minibatches, the checks of the constructor would take longest of all.
    """
    matrix = object.__new__(sp.csc_array)
    vars(matrix).update(vars(_blank(shape, data.dtype)))  # `copy.copy` does the same, more slowly
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


@lru_cache(maxsize=8)
def _blank(shape: tuple[int, int], dtype: np.dtype[Any]) -> sp.csc_array:
    """Return a matrix without entries."""
    return sp.csc_array(shape, dtype=dtype)


def _native(array: Ints) -> Ints:
    """Return integers in the byte order of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


# Indices are unsigned below: before every other one, Numba looks whether it counts from the end.


@jit
def _count(
    indptr: Ints, indices: Ints, positions: Ints, column: Ints, n_entries: int, starts: Ints
) -> int:
    """Count the entries of every column into `starts`, shifted by one; return their number."""
    p, total, is_permuted = np.uint64(len(starts) - 1), 0, len(column) > 0
    for position in positions:
        if not 0 <= position < len(indptr) - 1:
            return OUTSIDE
        begin, end = indptr[position], indptr[position + 1]
        if not 0 <= begin <= end <= min(n_entries, len(indices)):
            return OUTSIDE
        features = indices[begin:end]
        for e in range(len(features)):
            feature = np.uint64(features[e])  # a negative one becomes a large one
            if feature >= p:
                return OUTSIDE
            j = np.uint64(column[feature]) if is_permuted else feature
            starts[j + np.uint64(1)] += 1
        total += len(features)
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
) -> int:
    """Put every entry into its column; return how many are left.

    Rows come one after the other. So an entry is repeated if the last one of its column is in the
    same row. That is not looked up where indices grow along a row, as they usually do. Another
    thread or process may have changed indices since they were counted.

    Parameters
    ----------
    indptr, indices, data, positions, column
        See `gather_sparse`.
    starts : ndarray of shape (p + 1,), overwritten
        How many entries each column has, shifted by one; then where the column begins.
    rows, entries : ndarray of shape (2 n,), overwritten
        The same memory as integers, of which every other one is a row, and as numbers, of which
        those after them are entries. One cache line holds both, which are scattered.
    """
    for n in range(1, len(starts)):
        starts[n] += starts[n - 1]
    ends, n_repeated, is_permuted = starts[:-1].copy(), 0, len(column) > 0
    p, one, n_words = np.uint64(len(ends)), np.uint64(1), np.uint64(len(rows))
    for i in range(len(positions)):
        if not 0 <= positions[i] < len(indptr) - 1:
            return OUTSIDE
        begin, stop = indptr[positions[i]], indptr[positions[i] + 1]
        if not 0 <= begin <= stop <= min(len(data), len(indices)):
            return OUTSIDE
        features, values, next_new = indices[begin:stop], data[begin:stop], np.uint64(0)
        for e in range(len(features)):
            feature, value = np.uint64(features[e]), entries.dtype.type(values[e])
            if feature >= p:
                return OUTSIDE
            j = np.uint64(column[feature]) if is_permuted else feature
            at = np.uint64(ends[j]) * np.uint64(2)
            if feature >= next_new:
                next_new = feature + one
            elif ends[j] > starts[j] and rows[at - np.uint64(2)] == i:
                entries[at - one] += value
                n_repeated += 1
                continue
            if at >= n_words:
                return OUTSIDE
            rows[at], entries[at + one] = i, value
            ends[j] += 1
    for n in range(len(ends)):
        if ends[n] > starts[n + 1]:
            return OUTSIDE
    if n_repeated:
        _close_gaps(starts, ends, rows)
    return len(rows) // 2 - n_repeated


@jit
def _close_gaps(starts: Ints, ends: Ints, pairs: Ints) -> None:
    """Move columns together that have fewer entries than they have room for."""
    n_kept = 0
    for j in range(len(ends)):
        begin, starts[j] = starts[j], n_kept
        for e in range(begin, ends[j]):
            pairs[2 * n_kept], pairs[2 * n_kept + 1] = pairs[2 * e], pairs[2 * e + 1]
            n_kept += 1
    starts[len(ends)] = n_kept


@jit
def _separate(
    rows_of_pairs: Ints, entries_of_pairs: Array, rows: Ints, entries: Array
) -> tuple[float, float]:
    """Separate rows and entries; return the sum of entries, and the smallest of them and zero."""
    total, least = entries.dtype.type(0), entries.dtype.type(0)
    for e in range(len(entries)):
        rows[e], entry = rows_of_pairs[2 * e], entries_of_pairs[2 * e + 1]
        entries[e] = entry
        total += entry
        least = min(least, entry)
    return total, least
