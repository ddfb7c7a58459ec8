"""From rows as they are stored to a minibatch, by all worker threads."""

from collections import deque
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from somf.data.checks import check_view
from somf.data.source import PieceReader
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array, Ints

PIECES_PER_THREAD = 4
"""Pieces of a minibatch for every thread that reads."""

PIECE_BYTES = 2**20
"""Bytes of a piece for every thread, if threads read a piece together.

Where a source copies rows, such as patches, the copies are still in the cache of a core when their
columns are permuted: a minibatch of patches takes little more than half of the time.
"""


class Gathering:
    """Rows that are gathered piece by piece, by all worker threads together.

    Parameters
    ----------
    read : callable
        Given a slice of the rows, it returns an array and the positions of these rows in it.
    shape : tuple of (int, int)
        Of all rows.
    permutation : ndarray of shape (p,), optional
    dtype : numpy.dtype

    Attributes
    ----------
    rows : ndarray of shape (b, p)
        With permuted columns.
    total : float
        The sum of all entries; not finite if an entry is not finite, or if entries are huge.
    """

    def __init__(
        self,
        read: PieceReader,
        shape: tuple[int, int],
        permutation: Ints | None,
        dtype: np.dtype[Any],
    ) -> None:
        self.rows, self.total = np.empty(shape, dtype=dtype), 0.0
        self._read, self._permutation = read, permutation
        threads = threads_for(4.0 * self.rows.size)
        size = threads.count * PIECE_BYTES // max(1, shape[1] * dtype.itemsize)
        self._n_threads, self._left = threads.count, _pieces(shape[0], size)

    def advance(self) -> bool:
        """Gather a piece; return False if there was none left."""
        if not self._left:
            return False
        piece = self._left[0]
        rows, n_threads = self.rows[piece], self._n_threads
        self.total += _gather_piece(self._read, piece, self._permutation, rows, n_threads)
        self._left.popleft()  # not before: a signal may have interrupted
        return True


def gather(
    read: PieceReader,
    shape: tuple[int, int],
    permutation: Ints | None,
    dtype: np.dtype[Any],
    by_readers: bool,
) -> tuple[Array, float]:
    """Return rows with permuted columns in another type, and the sum of all entries.

    Parameters
    ----------
    read, shape, permutation, dtype
        See `Gathering`.
    by_readers : bool
        Whether to read in several Python threads, a few rows each. A thread gathers what it has
        read at once: rows that had to be copied are still in the cache of its core.
    """
    threads = threads_for(4.0 * shape[0] * shape[1])
    if not by_readers or threads.count == 1:
        gathering = Gathering(read, shape, permutation, dtype)
        while gathering.advance():
            pass
        return gathering.rows, gathering.total
    rows = np.empty(shape, dtype=dtype)
    pieces = _pieces(shape[0], -(-shape[0] // (threads.count * PIECES_PER_THREAD)))

    def gather_piece(piece: slice) -> float:
        return _gather_piece(read, piece, permutation, rows[piece], 1)

    return rows, sum(threads.readers.map(gather_piece, pieces))


def _pieces(count: int, size: int) -> deque[slice]:
    """Return slices of at most `size` rows, one at least, of `count` rows."""
    starts = range(0, count, max(1, size))
    return deque(slice(start, min(start + starts.step, count)) for start in starts)


def _gather_piece(
    read: PieceReader, piece: slice, permutation: Ints | None, rows: Array, n_threads: int
) -> float:
    """Read a piece into `rows`, which is overwritten; return the sum of its entries."""
    X, positions = read(piece)
    check_view(X, positions, (rows.shape[0], rows.shape[1]))
    if not numba_can_read(X.dtype):
        X, positions = X[positions].astype(rows.dtype), np.arange(len(positions))
    X, positions = _flattened(X, positions)
    totals = np.empty(len(rows), dtype=rows.dtype)
    if permutation is None:
        _copy(n_threads, X, positions, rows, totals)
    else:
        _permute(n_threads, X, positions, permutation, rows, totals)
    return float(totals.sum())


def numba_can_read(dtype: np.dtype[Any]) -> bool:
    """Return whether Numba can read a type: native byte order, and no half precision."""
    return dtype.isnative and (dtype.kind in "iub" or dtype.itemsize in (4, 8))


def _flattened(X: Array, positions: Ints) -> tuple[Array, Ints]:
    """Return an array as one line of entries, and where in it rows begin, if that is possible.

    Rows must follow one another without a gap, or overlap by all but one entry. Numba knows then
    that a row is contiguous, and copies overlapping ones four times as fast.
    """
    if X.flags.c_contiguous:
        return X.reshape(-1), positions.astype(np.int64, copy=False) * X.shape[1]
    if X.strides == (X.itemsize, X.itemsize):
        return as_strided(X, (sum(X.shape) - 1,), (X.itemsize,), writeable=False), positions
    return X, positions


@inner
def _row(X: Array, position: int, length: int) -> Array:
    return X[position : position + length] if X.ndim == 1 else X[position]


@region
def _copy(launcher: int, X: Array, positions: Ints, rows: Array, totals: Array) -> None:
    """Do what `_permute` does with columns in order, in less than half of the time."""
    in_parallel(_copy_row, launcher, len(positions), X, positions, rows, totals)


@inner
def _copy_row(i: int, X: Array, positions: Ints, rows: Array, totals: Array) -> None:
    row, out = _row(X, positions[i], rows.shape[1]), rows[i]
    total = out.dtype.type(0)
    for column in range(len(row)):
        entry = out.dtype.type(row[column])
        out[column] = entry
        total += entry
    totals[i] = total


@region
def _permute(
    launcher: int, X: Array, positions: Ints, permutation: Ints, rows: Array, totals: Array
) -> None:
    """Copy rows with permuted columns, and sum up each of them."""
    in_parallel(_permute_row, launcher, len(positions), X, positions, permutation, rows, totals)


@inner
def _permute_row(
    i: int, X: Array, positions: Ints, permutation: Ints, rows: Array, totals: Array
) -> None:
    row, out = _row(X, positions[i], rows.shape[1]), rows[i]
    total = out.dtype.type(0)
    for column in range(len(permutation)):
        entry = out.dtype.type(row[permutation[column]])
        out[column] = entry
        total += entry
    totals[i] = total
