"""Arrays and memory maps."""

import mmap

import numpy as np

from somf.data.checks import check_not_masked
from somf.data.readahead.memory_map import CAN_ASK, Mapping, Place, is_mapped
from somf.data.source import LARGEST_CHUNK, Fetched, Source
from somf.typing import Array, Ints

MAPPED_AROUND = 2**16
"""Bytes that Linux maps around a page that is touched."""

FEATURES_AT_ONCE = 128
"""Columns of features × samples that are transposed at once: four times as fast as all of them."""


class ArraySource(Source):
    """An array or a memory map.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    """

    def __init__(self, X: Array) -> None:
        if isinstance(X, np.ma.MaskedArray):
            check_not_masked(X)
            X = X.data
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype
        self.is_in_memory = not is_mapped(X)
        if not self.is_in_memory:
            self._mapping = Mapping(X)
            self.is_read_by_system = CAN_ASK
            if abs(X.strides[0]) < abs(X.strides[1]):
                self.chunk_starts = np.arange(0, X.shape[0], _neighbours(X))

    def rows(self, ids: Ints) -> Array:
        """Return samples as a new array."""
        return np.asarray(self.X[ids])

    def prefetch(self, ids: Ints) -> None:
        """Ask the system to read, if the array is mapped and samples are contiguous."""
        if not self.is_in_memory and self.chunk_starts is None:
            self._mapping.prefetch(ids * self.X.strides[0], self.shape[1] * self.X.strides[1])

    def locate(self, ids: Ints) -> list[Place] | None:
        """Return where in the file of a map samples are, if they are contiguous."""
        if self.is_in_memory or self.X.strides[1] != self.dtype.itemsize:
            return None
        first = self._mapping.place
        if first is None:
            return None
        stride = self.X.strides[0]
        return [first._replace(offset=first.offset + row * stride) for row in ids.tolist()]

    def fetch(self, ids: Ints) -> Fetched:
        """Leave rows where they are."""
        if not self.is_in_memory:
            self._mapping.check_file()
        return lambda part: (np.asarray(self.X), ids[part])

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array, a few features at a time.

        Where it is called, rows are not contiguous, and pages that were just touched are at hand.
        """
        for first in range(0, self.shape[1], FEATURES_AT_ONCE):
            columns = slice(first, first + FEATURES_AT_ONCE)
            if not self.is_in_memory:
                self._mapping.use(FEATURES_AT_ONCE * MAPPED_AROUND)
            out[:, columns] = self.X[start:stop, columns]


def _neighbours(X: Array) -> int:
    """Return how many samples of a map of features × samples are best read together.

    A sample is spread over p pages, each of which it shares with its neighbours.
    """
    size = int(X.dtype.itemsize)
    return max(1, min(mmap.PAGESIZE // size, LARGEST_CHUNK // (int(X.shape[1]) * size)))
