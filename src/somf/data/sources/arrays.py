"""Arrays and memory maps."""

import mmap

import numpy as np

from somf.data.checks import check_not_masked
from somf.data.order import LARGEST_CHUNK
from somf.data.readahead.memory_map import CAN_PREFETCH, Mapping, is_mapped
from somf.data.source import Source
from somf.typing import Array, Ints

BYTES_PER_PAGE_FAULT = 2**16
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
        self.reads_in_parallel = self.is_in_memory or CAN_PREFETCH
        if not self.is_in_memory:
            self._mapping = Mapping(X)
            self.files = self._mapping.files
            if abs(X.strides[0]) < abs(X.strides[1]):
                self.chunk_starts = np.arange(0, X.shape[0], _samples_per_page(X))

    def rows(self, ids: Ints) -> Array:
        """Return samples as a new array."""
        X, positions = self.view(ids)
        rows = np.asarray(X[positions])
        self._check_file()
        return rows

    def view(self, ids: Ints) -> tuple[Array, Ints]:
        """Return the whole array, of which nothing is copied."""
        self._check_file()
        return np.asarray(self.X), ids

    def prefetch(self, ids: Ints) -> None:
        """Let the system read pages, if the array is mapped and samples are contiguous."""
        if not self.is_in_memory and self.chunk_starts is None:
            self._mapping.prefetch(ids * self.X.strides[0], self.shape[1] * self.X.strides[1])

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array, a few features at a time.

        Only maps of features × samples are read like this: all samples of a page are written while
        the page is in the cache.
        """
        for first in range(0, self.shape[1], FEATURES_AT_ONCE):
            columns = slice(first, first + FEATURES_AT_ONCE)
            if not self.is_in_memory:
                self._mapping.use(FEATURES_AT_ONCE * BYTES_PER_PAGE_FAULT)
            self._check_file()
            out[:, columns] = self.X[start:stop, columns]
        self._check_file()

    def _check_file(self) -> None:
        """Raise DamagedFileError if the file of a memory map was cut short."""
        if not self.is_in_memory:
            self._mapping.check_file()


def _samples_per_page(X: Array) -> int:
    """Return how many samples of a map of features × samples are best read together.

    A sample is spread over p pages, each of which it shares with its neighbours.
    """
    size = int(X.dtype.itemsize)
    return max(1, min(mmap.PAGESIZE // size, LARGEST_CHUNK // (int(X.shape[1]) * size)))
