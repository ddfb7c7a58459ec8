"""The buffers of chunks in which rows are shuffled: one for dense rows, one for sparse ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.order import chunks_of
from somf.data.source import Source, View
from somf.scratch import scratch_zeros
from somf.typing import Array, Ints, Rows

MOST_MEMORY = 2**31
"""Bytes of a buffer in memory. Only chunks of more than 256 MB need a larger one."""


class ChunkBuffer:
    """Reads each chunk once, and keeps it until its last row has been used.

    Memory is allocated once, for as many chunks as are in use at a time, and used again and again.

    Parameters
    ----------
    source : Source
        Dense, with chunks.
    batches : sequence of ndarray of int
        The rows of all minibatches, in the order in which they will be taken.
    n_ahead : int
        How many more batches are taken before a batch has been used.
    memory : ndarray, optional
        The rows of an earlier buffer, which are used again if there are enough: to touch new memory
        for the first time takes longer than to read a file into it.
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
        first_use, self.last_use = _times_of_use(source.chunk_starts, batches)
        self.last_use[self.last_use >= 0] += n_ahead
        self.chunk_rows = int(np.diff(self.edges).max())
        n_rows = _most_at_once(first_use, self.last_use) * self.chunk_rows
        if memory is None or len(memory) < n_rows:
            memory = _memory((n_rows, source.shape[1]), source.dtype)
        self.rows = memory
        self.free = list(range(0, n_rows, self.chunk_rows))
        self.slots = np.full(len(self.edges) - 1, -1)  # the first row of each chunk in the buffer
        self.in_use: set[int] = set()
        self.n_taken = 0

    def take(self, ids: Ints) -> tuple[Array, Ints]:
        """Return a view of the rows of the next batch, like `Source.view`.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray of shape (m, p)
            These rows stay as they are until `n_ahead` more batches have been taken.
        positions : ndarray of shape (b,)
        """
        owners = chunks_of(ids, self.edges[:-1])
        needed = np.unique(owners)
        for chunk in needed[self.slots[needed] < 0].tolist():
            slot = self.slots[chunk] = self.free.pop()
            start, stop = int(self.edges[chunk]), int(self.edges[chunk + 1])
            self.source.read(start, stop, self.rows[slot : slot + stop - start])
        positions = self.slots[owners] + ids - self.edges[owners]
        self.in_use.update(needed.tolist())
        done = [chunk for chunk in self.in_use if self.last_use[chunk] <= self.n_taken]
        self.in_use.difference_update(done)
        self.free.extend(self.slots[done].tolist())
        self.slots[done] = -1
        self.n_taken += 1
        return self.rows, positions


class SparseChunkBuffer:
    """Does what `ChunkBuffer` does for rows in CSR form, whose chunks differ in size.

    Parameters
    ----------
    source : Source
        Sparse, with chunks.
    batches : sequence of ndarray of int
        The rows of all minibatches, in the order in which they will be taken.
    """

    def __init__(self, source: Source, batches: Sequence[Ints]) -> None:
        assert source.chunk_starts is not None
        self.source = source
        self.edges = np.append(source.chunk_starts, source.shape[0])
        _, self.last_use = _times_of_use(source.chunk_starts, batches)
        self.chunks: dict[int, Rows] = {}
        self.n_taken = 0

    def take(self, ids: Ints) -> View:
        """Return the rows of the next batch, like `Source.view`.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : csr_array of shape (b, p)
        positions : ndarray of shape (b,)
        """
        owners = chunks_of(ids, self.edges[:-1])
        order = np.argsort(owners, kind="stable")
        found = []
        for chunk, members in _groups(owners[order], order):
            if chunk not in self.chunks:
                X, at = self.source.view(np.arange(self.edges[chunk], self.edges[chunk + 1]))
                self.chunks[chunk] = X[at]
            found.append(self.chunks[chunk][ids[members] - self.edges[chunk]])
        for chunk in [c for c in self.chunks if self.last_use[c] <= self.n_taken]:
            del self.chunks[chunk]
        self.n_taken += 1
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        if not found:
            return sp.csr_array((0, self.source.shape[1]), dtype=self.source.dtype), positions
        X = found[0] if len(found) == 1 else sp.csr_array(sp.vstack(found, format="csr"))
        return X, positions


def _groups(owners: Ints, positions: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield every owner of sorted ones, and the positions that are its own."""
    for group in np.split(np.arange(len(owners)), np.flatnonzero(np.diff(owners)) + 1):
        if len(group):
            yield int(owners[group[0]]), positions[group]


def _times_of_use(chunk_starts: Ints, batches: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return the first and the last batch that uses each chunk; -1 for a chunk that none uses."""
    owners = chunks_of(np.concatenate(batches), chunk_starts)
    times = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    last_use = np.full(len(chunk_starts), -1)
    last_use[owners] = times  # NumPy keeps the last value of a repeated index
    first_use = last_use.copy()
    first_use[owners[::-1]] = times[::-1]
    return first_use, last_use


def _memory(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Return memory for a buffer, in a scratch file if it is very large."""
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    return np.empty(shape, dtype) if n_bytes <= MOST_MEMORY else scratch_zeros(shape, dtype)


def _most_at_once(first_use: Ints, last_use: Ints) -> int:
    """Return the largest number of chunks in use at a time; a chunk with use -1 is never used."""
    used = last_use >= 0
    entering = np.bincount(first_use[used])
    leaving = np.bincount(last_use[used] + 1, minlength=len(entering))[: len(entering)]
    return int(np.cumsum(entering - leaving).max())
