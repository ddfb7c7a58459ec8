"""Random order that respects how rows are stored, and the buffer that it needs."""

from collections.abc import Sequence

import numpy as np

from somf.data.source import Source
from somf.randomness import generator
from somf.typing import Array, Ints

BUFFER_BYTES = 2**28
"""Chunks are shuffled among each other in a buffer of this size …"""

LEAST_BUFFERED = 4
"""… or of so many chunks, if they are larger than that."""


def epoch_order(
    ids: Ints, seed: int, epoch: int, chunk_starts: Ints | None = None, n_buffered: int = 1
) -> Ints:
    """Return samples in the random order in which an epoch visits them.

    Without chunks any order is as likely as any other. With chunks, these are shuffled, and pass
    one after the other through a buffer that holds `n_buffered` of them; a row leaves at a random
    moment of its chunk's stay. So each chunk has to be read only once.

    Parameters
    ----------
    ids : ndarray of shape (n,)
    seed, epoch : int
    chunk_starts : ndarray of int, optional
        The first row of every chunk.
    n_buffered : int

    Returns
    -------
    order : ndarray of shape (n,)
    """
    random = generator(seed, "order", epoch)
    if chunk_starts is None:
        return random.permutation(ids)
    n_chunks = len(chunk_starts)
    # Chunk number j to enter stays from time j − W + 1 to j + 1, and nobody stays outside of the
    # epoch, which lasts from 0 to m − W + 1: W chunks are there from the beginning to the end.
    turn = random.permutation(n_chunks)[_chunks_of(ids, chunk_starts)]
    enters = np.maximum(turn - n_buffered + 1, 0)
    leaves = np.minimum(turn + 1, max(n_chunks - n_buffered + 1, 1))
    return ids[np.argsort(enters + (leaves - enters) * random.random(len(ids)))]


def buffered_chunks(source: Source) -> int:
    """Return how many chunks of a source are shuffled among each other."""
    if source.chunk_starts is None:
        return 1
    ends = np.append(source.chunk_starts[1:], source.shape[0])
    largest = int((ends - source.chunk_starts).max())
    chunk_bytes = largest * source.entries_per_row * source.dtype.itemsize
    return max(LEAST_BUFFERED, int(BUFFER_BYTES / chunk_bytes))


def runs(chunk_starts: Ints, n: int, longest: int) -> Ints:
    """Return where runs of rows start that are similar in length, since a buffer is made for all.

    Parameters
    ----------
    chunk_starts : ndarray of int
    n : int
        Number of rows.
    longest : int
        A run is as many chunks as fit into so many rows, or a part of a chunk that does not fit.

    Returns
    -------
    starts : ndarray of int
    """
    edges = np.append(chunk_starts, n)
    if (np.diff(edges)[:-1] == longest).all() and edges[-1] - edges[-2] <= longest:
        return chunk_starts
    starts, here = [], 0
    while here < n:
        starts.append(here)
        end = int(edges[np.searchsorted(edges, here + longest, side="right") - 1])
        here = end if end > here else here + longest
    return np.array(starts)


class ChunkBuffer:
    """Reads each chunk once, and keeps it until nothing of it will be wanted any more.

    Memory is taken once, and used again and again: a place for as many chunks as are needed at a
    time.

    Parameters
    ----------
    source : Source
        With chunks, and dense.
    batches : sequence of ndarray of int
        All rows that are going to be asked for, in this order.
    n_ahead : int
        How many batches are taken before the first of them has been used.
    memory : ndarray, optional
        The rows of a buffer that is no longer used, which are taken over where there are enough:
        to touch memory for the first time takes longer than to read a file into it.
    """

    def __init__(
        self,
        source: Source,
        batches: Sequence[Ints],
        n_ahead: int,
        memory: Array | None = None,
    ) -> None:
        assert source.chunk_starts is not None
        self.source = source
        self.edges = np.append(source.chunk_starts, source.shape[0])
        owners = _chunks_of(np.concatenate(batches), source.chunk_starts)
        times = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
        self.last_use = np.full(len(self.edges) - 1, -1)
        self.last_use[owners] = times  # of equal indices, the last one counts
        first_use = self.last_use.copy()
        first_use[owners[::-1]] = times[::-1]
        self.last_use[self.last_use >= 0] += n_ahead
        self.chunk_rows = int(np.diff(self.edges).max())
        n_rows = _most_at_once(first_use, self.last_use) * self.chunk_rows
        if memory is None or len(memory) < n_rows:
            memory = np.empty((n_rows, source.shape[1]), dtype=source.dtype)
        self.rows = memory
        self.free = list(range(0, n_rows, self.chunk_rows))
        self.places = np.full(len(self.edges) - 1, -1)
        self.in_use: set[int] = set()
        self.n_taken = 0

    def take(self, ids: Ints) -> tuple[Array, Ints]:
        """Return an array, and where in it the rows of the next batch are.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray of shape (m, p)
            These rows stay what they are until `n_ahead` more batches have been taken.
        picked : ndarray of shape (b,)
        """
        owners = _chunks_of(ids, self.edges[:-1])
        needed = np.unique(owners)
        for chunk in needed[self.places[needed] < 0].tolist():
            place = self.places[chunk] = self.free.pop()
            start, stop = int(self.edges[chunk]), int(self.edges[chunk + 1])
            self.source.read(start, stop, self.rows[place : place + stop - start])
        picked = self.places[owners] + ids - self.edges[owners]
        self.in_use.update(needed.tolist())
        done = [chunk for chunk in self.in_use if self.last_use[chunk] <= self.n_taken]
        self.in_use.difference_update(done)
        self.free.extend(self.places[done].tolist())
        self.places[done] = -1
        self.n_taken += 1
        return self.rows, picked


def _most_at_once(first_use: Ints, last_use: Ints) -> int:
    """Return how many chunks are in use at a time, at most; -1 is never."""
    used = last_use >= 0
    entering = np.bincount(first_use[used])
    leaving = np.bincount(last_use[used] + 1, minlength=len(entering))[: len(entering)]
    return int(np.cumsum(entering - leaving).max())


def _chunks_of(ids: Ints, chunk_starts: Ints) -> Ints:
    return np.searchsorted(chunk_starts, ids, side="right") - 1
