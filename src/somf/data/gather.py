"""From rows as they are stored to rows as they are needed, samples shared out among threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import pool_for
from somf.typing import Array, Ints


def gather(
    fetched: Callable[[slice], tuple[Array, Ints]],
    shape: tuple[int, int],
    permutation: Ints | None,
    dtype: np.dtype[Any],
) -> tuple[Array, float]:
    """Return rows, their columns permuted, in another type, and the sum of all entries.

    Parameters
    ----------
    fetched : callable
        Given a slice of the rows, it returns an array and where in it they are.
    shape : tuple of (int, int)
        Of all rows.
    permutation : ndarray of shape (p,), optional
    dtype : numpy.dtype

    Returns
    -------
    rows : ndarray of shape (b, p)
    total : float
        Not finite if one of the entries is not, or if they are huge. Its rounding depends on who
        took which rows.
    """
    rows = np.empty(shape, dtype=dtype)
    pool = pool_for(4 * rows.size)
    chunks = pool.dynamic_chunks(shape[0])

    def work(_worker: int) -> float:
        total = 0.0
        for s in chunks:
            X, ids = fetched(s)
            _check(X, ids, (s.stop - s.start, shape[1]))
            if not is_known(X.dtype):
                X, ids = X[ids].astype(dtype), np.arange(len(ids))
            X, ids = _in_line(X, ids)
            if permutation is None:
                total += _copy(X, ids, rows[s])
            else:
                total += _gather(X, ids, permutation, rows[s])
        return total

    return rows, sum(pool.run(work))


def _check(X: Any, ids: Ints, shape: tuple[int, int]) -> None:
    """Raise unless an array has what was asked for: compiled functions do not look."""
    if not isinstance(X, np.ndarray):
        raise TypeError(
            f"rows of a source must be an array unless its is_sparse is True, got {type(X)}."
        )
    is_inside = not len(ids) or (ids.min() >= 0 and ids.max() < len(X))
    if (len(ids), *X.shape[1:]) != shape or not is_inside:
        raise ValueError(
            f"rows of a source must be of shape {shape} for {shape[0]} samples, got {X.shape}."
        )


def is_known(dtype: np.dtype[Any]) -> bool:
    """Return whether Numba can read a type: not in another byte order, not of half precision."""
    return dtype.isnative and (dtype.kind in "iub" or dtype.itemsize in (4, 8))


def _in_line(X: Array, ids: Ints) -> tuple[Array, Ints]:
    """Return the entries of rows that lie one after the other, or overlap, and where rows begin.

    Numba knows then that a row is contiguous, and copies overlapping ones four times as fast.
    """
    if X.flags.c_contiguous:
        return X.reshape(-1), ids * X.shape[1]
    if X.strides == (X.itemsize, X.itemsize):
        return as_strided(X, (sum(X.shape) - 1,), (X.itemsize,), writeable=False), ids
    return X, ids


@jit
def _row(X: Array, place: int, length: int) -> Array:
    return X[place : place + length] if X.ndim == 1 else X[place]


@jit
def _copy(X: Array, ids: Ints, rows: Array) -> float:
    """Do what `_gather` does with columns in order, in less than half of the time."""
    total = 0.0
    for i in range(len(ids)):
        row = _row(X, ids[i], rows.shape[1])
        row_total = rows.dtype.type(0)
        for column in range(len(row)):
            entry = rows.dtype.type(row[column])
            rows[i, column] = entry
            row_total += entry
        total += row_total
    return total


@jit
def _gather(X: Array, ids: Ints, permutation: Ints, rows: Array) -> float:
    total = 0.0
    for i in range(len(ids)):
        row = _row(X, ids[i], rows.shape[1])
        row_total = rows.dtype.type(0)
        for column in range(len(permutation)):
            entry = rows.dtype.type(row[permutation[column]])
            rows[i, column] = entry
            row_total += entry
        total += row_total
    return total
