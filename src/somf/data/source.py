"""The contract of a source, and the sources that NumPy and SciPy hold."""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from somf.data.mapping import CAN_ASK, Mapping, Place, is_mapped
from somf.typing import Array, Ints, Rows

MAPPED_AROUND = 2**16
"""Bytes that Linux maps around a page that is touched."""

LARGEST_CHUNK = 2**26
"""Bytes that are read at once from a memory map whose samples are not contiguous."""

LARGE_ROW = 2**14
"""Bytes from which on a row is worth a call of the system to read it."""

FEATURES_AT_ONCE = 128
"""Columns of features × samples that are transposed at once: four times as fast as all of them."""


Fetched: TypeAlias = Callable[[slice], tuple[Rows, Ints]]
"""Gives some of the samples that were fetched; see `Source.fetch`."""


class Source(ABC):
    """A matrix of n samples × p features of which rows can be had, and only rows.

    Rows may be asked for from a thread other than the one that made the source.

    Attributes
    ----------
    shape : tuple of (int, int)
    dtype : numpy.dtype
    chunk_starts : ndarray of int or None
        The first row of every chunk of rows that are stored, and had best be read, together; None
        where any rows are as cheap as any others. Only for dense sources.
    parts_are_cheap : bool
        Whether some rows of a chunk can be read without reading all of it.
    is_in_memory : bool
        Whether rows can be had without waiting for a disk; if so, nobody reads ahead.
    is_sparse : bool
        Whether rows are in CSR form.
    is_read_by_system : bool
        Whether the system reads what `will_need` asks for while others compute; if not, somebody
        has to wait for the disk in `fetch`.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunk_starts: Ints | None = None
    parts_are_cheap: bool = False
    is_in_memory: bool = False
    is_sparse: bool = False
    is_read_by_system: bool = False

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        return float(self.shape[1])

    @property
    def has_large_rows(self) -> bool:
        """Whether rows are worth to be read one by one."""
        return self.shape[1] * self.dtype.itemsize >= LARGE_ROW

    @abstractmethod
    def rows(self, ids: Ints) -> Rows:
        """Return samples, in the order of `ids`, as a new array of any real type.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray or csr_array of shape (b, p)
        """

    def will_need(self, ids: Ints) -> None:  # noqa: B027 (there may be nobody to ask)
        """Ask the system to begin to read samples, without waiting for them.

        What is wrong with them is left to whoever reads them.

        Parameters
        ----------
        ids : ndarray of shape (b,)
        """

    def locate(self, ids: Ints) -> list[Place] | None:  # noqa: ARG002 (not known here)
        """Return in which files samples are, and where, for somebody else to read them.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        places : list of Place or None
            One for every sample, whose p numbers are there as they are in memory; None if that is
            not so for all of them.
        """
        return None

    def fetch(self, ids: Ints) -> Fetched:
        """Do the waiting for a disk now; return a function that does the computing.

        A loader calls this in the background, some minibatches ahead, unless the source is read by
        the system; and the function when the samples are needed, from all threads at the same time,
        for a few samples each: what has to be copied twice is still in the cache the second time.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        fetched : callable
            Given a slice of `ids`, it returns a matrix of p features, and where in it these samples
            are.
        """
        rows, places = self.rows(ids), np.arange(len(ids))
        return lambda part: (rows, places[part])

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array; worth its own method where `rows` makes a copy.

        Parameters
        ----------
        start, stop : int
        out : ndarray of shape (stop - start, p)
            Of the type of the source.
        """
        out[...] = self.rows(np.arange(start, stop))


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

    def will_need(self, ids: Ints) -> None:
        """Ask the system to read, if the array is mapped and samples are contiguous."""
        if not self.is_in_memory and self.chunk_starts is None:
            self._mapping.will_need(ids * self.X.strides[0], self.shape[1] * self.X.strides[1])

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


class CsrSource(Source):
    """A sparse matrix in compressed rows.

    Parameters
    ----------
    X : csr_array of shape (n, p)
    """

    is_in_memory = True
    is_sparse = True

    def __init__(self, X: sp.csr_array) -> None:
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average, and not less than a thousand."""
        return max(1000.0, float(self.X.nnz) / self.shape[0])

    def rows(self, ids: Ints) -> sp.csr_array:
        """Return samples as a new CSR array."""
        return self.X[ids]


def check_two_dimensions(n_dimensions: int) -> None:
    """Raise ValueError unless something is a matrix."""
    if n_dimensions != 2:
        raise ValueError(
            f"Expected 2D array, got {n_dimensions}D array instead. Reshape your data: "
            "X.reshape(1, -1) is a single sample, X.reshape(-1, 1) a single feature."
        )


def check_not_masked(X: Any, first: int = 0) -> None:
    """Raise ValueError, naming the row, if entries of X are masked; its rows count from `first`."""
    if np.ma.is_masked(X):
        row = first + int(np.ma.getmaskarray(X).any(axis=1).argmax())
        raise ValueError(
            f"X must have no masked entries, got one in row {row}. Fill or leave out such rows."
        )


def check_numeric(dtype: np.dtype[Any]) -> None:
    """Raise ValueError unless something consists of real numbers."""
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X must be real, got {dtype}.")
    if dtype.kind not in "fiub":
        raise ValueError(f"X must be numeric, got {dtype}.")


def check_not_empty(shape: tuple[int, int]) -> None:
    """Raise ValueError unless there are samples and features."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )
