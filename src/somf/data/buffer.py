"""The buffer of chunks in which rows are shuffled."""

from collections.abc import Sequence

import numpy as np

from somf.data.order import chunks_of
from somf.data.source import Source
from somf.typing import Array, Ints


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
        owners = chunks_of(np.concatenate(batches), source.chunk_starts)
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
        owners = chunks_of(ids, self.edges[:-1])
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
