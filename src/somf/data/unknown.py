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


def columns_where(chosen: Array, value: bool) -> tuple[Ints, Ints]:
    """Return the entries of a matrix of bool that have a value, column by column.

    Parameters
    ----------
    chosen : ndarray of bool of shape (b, p)
    value : bool

    Returns
    -------
    indptr : ndarray of shape (p + 1,)
    rows : ndarray of int32
        Those of column j are from ``indptr[j]`` to ``indptr[j + 1]``.
    """
    indptr = np.zeros(chosen.shape[1] + 1, dtype=np.int32)
    _count(chosen, value, indptr)
    rows = np.empty(indptr[-1], dtype=np.int32)
    _fill(chosen, value, indptr[:-1].copy(), rows)
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
    indptr, samples = columns_where(unknown, False)
    values = np.empty(len(samples), dtype=rows.dtype)
    _pick(rows, indptr, samples, values)
    return indptr, samples, values


@jit
def _pick(rows: Array, indptr: Ints, samples: Ints, values: Array) -> None:
    for j in range(len(indptr) - 1):
        for entry in range(indptr[j], indptr[j + 1]):
            values[entry] = rows[samples[entry], j]


@jit
def _clear(rows: Array, unknown: Array) -> None:
    zero = rows.dtype.type(0)
    for i in range(len(rows)):
        row, where = rows[i], unknown[i]
        for j in range(len(row)):
            where[j] = row[j] != row[j]
            row[j] = zero if where[j] else row[j]


@jit
def _count(chosen: Array, value: bool, indptr: Ints) -> None:
    counts = indptr[1:]
    for i in range(len(chosen)):
        row = chosen[i]
        for j in range(len(row)):
            counts[j] += row[j] == value
    for j in range(1, len(indptr)):
        indptr[j] += indptr[j - 1]


@jit
def _fill(chosen: Array, value: bool, places: Ints, rows: Ints) -> None:
    for i in range(len(chosen)):
        row = chosen[i]
        for j in range(len(row)):
            if row[j] == value:
                rows[places[j]] = i
                places[j] += 1
