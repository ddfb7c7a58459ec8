"""From rows as they are stored to a minibatch, by all worker threads."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from somf.data.checks import check_view
from somf.data.source import PieceReader
from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import pool_for
from somf.typing import Array, Ints


def gather(
    read: PieceReader,
    shape: tuple[int, int],
    permutation: Ints | None,
    dtype: np.dtype[Any],
) -> tuple[Array, float]:
    """Return rows with permuted columns in another type, and the sum of all entries.

    A thread reads a few rows and gathers them at once: if they had to be copied, they are still in
    the cache of its core.

    Parameters
    ----------
    read : callable
        Given a slice of the rows, it returns an array and the positions of these rows in it.
    shape : tuple of (int, int)
        Of all rows.
    permutation : ndarray of shape (p,), optional
    dtype : numpy.dtype

    Returns
    -------
    rows : ndarray of shape (b, p)
    total : float
        Not finite if an entry is not finite, or if entries are huge. Its rounding depends on which
        thread gathered which rows.
    """
    rows = np.empty(shape, dtype=dtype)
    pool = pool_for(4 * rows.size)
    pieces = pool.dynamic_chunks(shape[0])

    def work(_worker: int) -> float:
        total = 0.0
        for piece in pieces:
            X, positions = read(piece)
            check_view(X, positions, (piece.stop - piece.start, shape[1]))
            if not numba_can_read(X.dtype):
                X, positions = X[positions].astype(dtype), np.arange(len(positions))
            X, positions = _flattened(X, positions)
            if permutation is None:
                total += _copy(X, positions, rows[piece])
            else:
                total += _gather(X, positions, permutation, rows[piece])
        return total

    return rows, sum(pool.run(work))


def numba_can_read(dtype: np.dtype[Any]) -> bool:
    """Return whether Numba can read a type: native byte order, and no half precision."""
    return dtype.isnative and (dtype.kind in "iub" or dtype.itemsize in (4, 8))


def _flattened(X: Array, positions: Ints) -> tuple[Array, Ints]:
    """Return an array as one line of entries, and where in it rows begin, if that is possible.

    Rows must follow one another without a gap, or overlap by all but one entry. Numba knows then
    that a row is contiguous, and copies overlapping ones four times as fast.
    """
    if X.flags.c_contiguous:
        return X.reshape(-1), positions * X.shape[1]
    if X.strides == (X.itemsize, X.itemsize):
        return as_strided(X, (sum(X.shape) - 1,), (X.itemsize,), writeable=False), positions
    return X, positions


@jit
def _row(X: Array, position: int, length: int) -> Array:
    return X[position : position + length] if X.ndim == 1 else X[position]


@jit
def _copy(X: Array, positions: Ints, rows: Array) -> float:
    """Do what `_gather` does with columns in order, in less than half of the time."""
    total = 0.0
    for i in range(len(positions)):
        row = _row(X, positions[i], rows.shape[1])
        row_total = rows.dtype.type(0)
        for column in range(len(row)):
            entry = rows.dtype.type(row[column])
            rows[i, column] = entry
            row_total += entry
        total += row_total
    return total


@jit
def _gather(X: Array, positions: Ints, permutation: Ints, rows: Array) -> float:
    total = 0.0
    for i in range(len(positions)):
        row = _row(X, positions[i], rows.shape[1])
        row_total = rows.dtype.type(0)
        for column in range(len(permutation)):
            entry = rows.dtype.type(row[permutation[column]])
            rows[i, column] = entry
            row_total += entry
        total += row_total
    return total
