"""Rows of features divided among threads."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from somf.typing import Ints, Slices

MAX_PIECE_ROWS = 4096
"""Rows that a thread reads and writes at once, few enough to stay in the cache of its core."""


class Shares(NamedTuple):
    """The rows of every thread, as pieces.

    Attributes
    ----------
    pieces : ndarray of shape (n, 4)
        First row, row after the last, how many rows come before the piece, and in which of the
        given slices it is.
    edges : ndarray of shape (n_threads + 1,)
        The pieces of thread t are those from ``edges[t]`` to ``edges[t + 1]``.
    """

    pieces: Ints
    edges: Ints


def count_rows(rows: Slices) -> int:
    """Return how many rows there are."""
    if len(rows) == 1:  # most often, and at a fifth of the cost
        return int(rows[0].stop - rows[0].start)
    return sum(s.stop - s.start for s in rows)


def shares(rows: Slices, n_threads: int, most: int = MAX_PIECE_ROWS) -> Shares:
    """Divide rows evenly among threads, in pieces of `most` rows at most.

    The same rows and the same number of threads give the same pieces.
    """
    if len(rows) == 1:
        return _shares(n_threads, most, rows[0].start, rows[0].stop)
    return _shares(n_threads, most, *(edge for s in rows for edge in (s.start, s.stop)))


@lru_cache(maxsize=512)
def _shares(n_threads: int, most: int, *row_edges: int) -> Shares:
    rows = list(zip(row_edges[::2], row_edges[1::2], strict=True))
    total = sum(stop - start for start, stop in rows)
    pieces, edges = [], [0]
    for thread in range(n_threads):
        first, last = total * thread // n_threads, total * (thread + 1) // n_threads
        before = 0
        for run, (start, stop) in enumerate(rows):
            a = start + max(first - before, 0)
            b = start + min(last - before, stop - start)
            for at in range(a, b, most):
                pieces.append((at, min(at + most, b), before + at - start, run))
            before += stop - start
        edges.append(len(pieces))
    table = np.array(pieces, dtype=np.int64).reshape(-1, 4)
    return Shares(table, np.array(edges, dtype=np.int64))
