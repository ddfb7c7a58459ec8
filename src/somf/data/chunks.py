"""Random order that respects how rows are stored, and the buffer that it needs."""

import numpy as np
import scipy.sparse as sp

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


class ChunkBuffer:
    """Reads each chunk once, and keeps it until the last row that will be wanted has been taken.

    Parameters
    ----------
    source : Source
        With chunks.
    ids : ndarray of int
        All rows that are going to be asked for, in this order.
    """

    def __init__(self, source: Source, ids: Ints) -> None:
        assert source.chunk_starts is not None
        self.source, self.starts = source, source.chunk_starts
        self.n_taken = 0
        self.last_use = np.zeros(len(self.starts), dtype=np.int64)
        self.last_use[_chunks_of(ids, self.starts)] = np.arange(len(ids))  # the last one counts
        self.kept: dict[int, Array | sp.csr_array] = {}

    def take(self, ids: Ints) -> tuple[Array | sp.csr_array, Ints]:
        """Return an array, and where in it the next rows are.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray or csr_array of shape (b, p)
        picked : ndarray of shape (b,)
        """
        owners = _chunks_of(ids, self.starts)
        order = np.argsort(owners, kind="stable")
        picked = np.empty_like(order)
        picked[order] = np.arange(len(order))
        found = []
        for chunk in np.unique(owners).tolist():
            found.append(self._chunk(chunk)[ids[owners == chunk] - self.starts[chunk]])
        self.n_taken += len(ids)
        for chunk in [c for c in self.kept if self.last_use[c] < self.n_taken]:
            del self.kept[chunk]
        if isinstance(found[0], np.ndarray):
            return np.concatenate(found), picked
        return sp.csr_array(sp.vstack(found, format="csr")), picked

    def _chunk(self, chunk: int) -> Array | sp.csr_array:
        if chunk not in self.kept:
            is_last = chunk + 1 == len(self.starts)
            stop = self.source.shape[0] if is_last else self.starts[chunk + 1]
            self.kept[chunk] = self.source.rows(np.arange(self.starts[chunk], stop))
        return self.kept[chunk]


def _chunks_of(ids: Ints, chunk_starts: Ints) -> Ints:
    return np.searchsorted(chunk_starts, ids, side="right") - 1
