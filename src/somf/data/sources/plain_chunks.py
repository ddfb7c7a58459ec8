"""Chunks of whole rows, stored as they are in memory: read without the library of their format."""

import os
from abc import abstractmethod
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np

from somf.data.order import buffered_chunks
from somf.data.readahead.memory_map import Place
from somf.data.source import Fetched
from somf.data.sources.sliced import SlicedSource
from somf.typing import Array, Ints


class PlainChunks(SlicedSource):
    """An array of which every row lies in a file in one piece.

    The libraries keep the interpreter from everybody else (h5py), or take milliseconds of a core
    per minibatch (Zarr), which made a fit take 1.3 to 1.6 times as long as one from memory.

    Parameters
    ----------
    X : object of shape (n, p)
        With `chunks` of whole rows.
    path : str
        The file it comes from, to be named in errors.
    """

    supports_partial_chunks = True
    is_read_by_system = hasattr(os, "posix_fadvise")

    def __init__(self, X: Any, path: str) -> None:
        super().__init__(X, path=path)
        self._rows_per_chunk = int(X.chunks[0])
        self._row_bytes = self.shape[1] * self.dtype.itemsize
        self._chunk_bytes = self._rows_per_chunk * self._row_bytes
        starts = () if self.chunk_starts is None else self.chunk_starts
        self._edges = np.array([*starts, self.shape[0]])  # a large chunk is in several parts
        self._announced: dict[int, None] = {}
        self._most_announced = 2 * buffered_chunks(self)
        self._lock = Lock()

    def prefetch(self, ids: Ints) -> None:
        """Ask the system to read the chunks in which samples are, whole."""
        if not self.is_read_by_system:
            return
        for number in np.unique(np.searchsorted(self._edges, ids, side="right") - 1).tolist():
            if self._is_news(number):
                start, stop = self._edges[number : number + 2].tolist()
                chunk, skipped = divmod(start, self._rows_per_chunk)
                with suppress(Exception):  # whoever reads the rows will name the file
                    self._prefetch_bytes(
                        chunk, skipped * self._row_bytes, (stop - start) * self._row_bytes
                    )

    def fetch(self, ids: Ints) -> Fetched:
        """Leave rows to be read when they are needed, if the system can read ahead."""
        if not self.is_read_by_system:
            return super().fetch(ids)
        return lambda part: (self.rows(ids[part]), np.arange(len(ids[part])))

    def locate(self, ids: Ints) -> list[Place] | None:
        """Return where in the files of chunks samples are, if these have been written."""
        places = []
        for row in ids.tolist():
            chunk, skipped = divmod(row, self._rows_per_chunk)
            place = self._locate_chunk(chunk)
            if place is None:
                return None
            places.append(place._replace(offset=place.offset + skipped * self._row_bytes))
        return places

    def _is_news(self, chunk: int) -> bool:
        """Return whether a chunk has not been asked for lately, and take note of it.

        By its order, an epoch is done with a chunk before twice as many others as are shuffled
        among each other have been asked for.
        """
        with self._lock:
            if chunk in self._announced:
                return False
            self._announced[chunk] = None
            if len(self._announced) > self._most_announced:
                del self._announced[next(iter(self._announced))]
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
    def _locate_chunk(self, chunk: int) -> Place | None:
        """Return where a chunk is, unless it was never written."""

    @abstractmethod
    def _prefetch_bytes(self, chunk: int, offset: int, length: int) -> None:
        """Let the system begin to read some bytes of a chunk, without waiting for them."""

    @abstractmethod
    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        """Fill a buffer from an offset of a chunk on, unless the chunk was never written."""


def has_chunks_of_rows(X: Any) -> bool:
    """Return whether every chunk holds all features of its rows (and the system reads at offsets).

    Parameters
    ----------
    X : object of shape (n, p)
    """
    return hasattr(os, "preadv") and X.chunks is not None and bool(X.chunks[1] == X.shape[1])
