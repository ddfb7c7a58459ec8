"""Chunks of whole rows, not compressed: read without the library of their format."""

import os
from abc import abstractmethod
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np

from somf.data.order import buffered_chunks
from somf.data.sources.sliced import SlicedSource
from somf.typing import Array, Ints


class PlainChunks(SlicedSource):
    """An array whose rows are each stored in one piece, as they are in memory.

    The libraries hold the GIL while they read (h5py), or take milliseconds of a core per minibatch
    (Zarr), which made a fit take 1.3 to 1.6 times as long as one from memory.

    Parameters
    ----------
    X : object of shape (n, p)
        With `chunks` of whole rows.
    path : str
        The file it comes from, to be named in errors.
    """

    supports_partial_chunks = True
    reads_in_parallel = hasattr(os, "posix_fadvise")

    def __init__(self, X: Any, path: str) -> None:
        super().__init__(X, path=path)
        self._rows_per_chunk = int(X.chunks[0])
        self._row_bytes = self.shape[1] * self.dtype.itemsize
        self._chunk_bytes = self._rows_per_chunk * self._row_bytes
        starts = () if self.chunk_starts is None else self.chunk_starts
        self._edges = np.array([*starts, self.shape[0]])  # a large chunk is in several parts
        self._prefetched: dict[int, None] = {}  # a set that keeps its order
        self._most_prefetched = 2 * buffered_chunks(self)
        self._lock = Lock()

    def prefetch(self, ids: Ints) -> None:
        """Let the system read the whole chunks that hold samples, each chunk once in an epoch."""
        if not self.reads_in_parallel:
            return
        for number in np.unique(np.searchsorted(self._edges, ids, side="right") - 1).tolist():
            if self._is_new(number):
                start, stop = self._edges[number : number + 2].tolist()
                chunk, skipped = divmod(start, self._rows_per_chunk)
                with suppress(Exception):  # reading the rows will raise it again, with the file
                    self._prefetch_bytes(
                        chunk, skipped * self._row_bytes, (stop - start) * self._row_bytes
                    )

    def _is_new(self, chunk: int) -> bool:
        """Return whether a chunk has not been prefetched lately, and remember that it is now.

        An epoch has used all rows of a chunk before it prefetches twice as many other chunks as the
        buffer holds (see `epoch_order`). So only that many have to be remembered.
        """
        with self._lock:
            if chunk in self._prefetched:
                return False
            self._prefetched[chunk] = None
            if len(self._prefetched) > self._most_prefetched:
                del self._prefetched[next(iter(self._prefetched))]
            return True

    def rows(self, ids: Ints) -> Array:
        """Return samples as a new array."""
        rows = np.empty((len(ids), self.shape[1]), dtype=self.dtype)
        for i, row in enumerate(ids.tolist()):
            self.read(row, row + 1, rows[i : i + 1])
        return rows

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array."""
        chunk, skipped = divmod(start, self._rows_per_chunk)
        is_inside = skipped + stop - start <= self._rows_per_chunk
        with self._naming_the_file(start, stop):
            is_read = is_inside and self._read_bytes(
                chunk, skipped * self._row_bytes, out.data.cast("B")
            )
        if not is_read:
            super().read(start, stop, out)

    @abstractmethod
    def _prefetch_bytes(self, chunk: int, offset: int, length: int) -> None:
        """Let the system begin to read some bytes of a chunk, without waiting for them."""

    @abstractmethod
    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        """Fill a buffer with the bytes of a chunk from an offset on; return whether it was done.

        A chunk that was never written has no bytes, and is left to the library.
        """


def has_chunks_of_rows(X: Any) -> bool:
    """Return whether chunks are whole rows, and the system can read files at an offset.

    Parameters
    ----------
    X : object of shape (n, p)
    """
    return hasattr(os, "preadv") and X.chunks is not None and bool(X.chunks[1] == X.shape[1])
