"""Where entries of a minibatch are NaN, found in one pass for all that has to be known of them."""

import numpy as np

from somf.kernels.cpu.jit import jit
from somf.typing import Array, Ints


def split_unknown(rows: Array) -> Array:
    """Set entries that are NaN to zero; return where they were, (b, p) of bool.

    Parameters
    ----------
    rows : ndarray of shape (b, p), overwritten
    """
    unknown = np.empty(rows.shape, dtype=np.bool_)
    _clear(rows, unknown)
    return unknown


def columns_where(chosen: Array) -> tuple[Ints, Ints]:
    """Return where a matrix of bool is true, column by column.

    Parameters
    ----------
    chosen : ndarray of bool of shape (b, p)

    Returns
    -------
    indptr : ndarray of shape (p + 1,)
    rows : ndarray of int32
        Those of column j are from ``indptr[j]`` to ``indptr[j + 1]``.
    """
    indptr, rows, _ = _columns(chosen, np.empty((len(chosen), 0), dtype=np.float32))
    return indptr, rows


def known_columns(unknown: Array, rows: Array) -> tuple[Ints, Ints, Array]:
    """Return the entries that are known, column by column.

    Parameters
    ----------
    unknown : ndarray of bool of shape (b, p)
    rows : ndarray of shape (b, p)

    Returns
    -------
    indptr, rows : ndarray of int32
        See `columns_where`.
    values : ndarray
    """
    return _columns(~unknown, rows)


def _columns(chosen: Array, X: Array) -> tuple[Ints, Ints, Array]:
    """Return chosen entries column by column, with those of X, if it has any."""
    indptr = np.zeros(chosen.shape[1] + 1, dtype=np.int32)
    _count(chosen, indptr)
    rows = np.empty(indptr[-1], dtype=np.int32)
    values = np.empty(indptr[-1] if X.size else 0, dtype=X.dtype)
    _fill(chosen, X, indptr[:-1].copy(), rows, values)
    return indptr, rows, values


@jit
def _clear(rows: Array, unknown: Array) -> None:
    zero = rows.dtype.type(0)
    for i in range(len(rows)):
        row, where = rows[i], unknown[i]
        for j in range(len(row)):
            where[j] = row[j] != row[j]
            row[j] = zero if where[j] else row[j]


@jit
def _count(chosen: Array, indptr: Ints) -> None:
    counts = indptr[1:]
    for i in range(len(chosen)):
        row = chosen[i]
        for j in range(len(row)):
            counts[j] += row[j]
    for j in range(1, len(indptr)):
        indptr[j] += indptr[j - 1]


@jit
def _fill(chosen: Array, X: Array, places: Ints, rows: Ints, values: Array) -> None:
    columns = np.empty(chosen.shape[1] + 1, dtype=np.int32)
    for i in range(len(chosen)):
        row, n_columns = chosen[i], 0
        for j in range(len(row)):  # without a branch, which no processor could predict
            columns[n_columns] = j
            n_columns += row[j]
        for n in range(n_columns):
            j = columns[n]
            rows[places[j]] = i
            if len(values) > 0:
                values[places[j]] = X[i, j]
            places[j] += 1
