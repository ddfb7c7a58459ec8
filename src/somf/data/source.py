"""The contract of a source: a matrix of which rows can be read."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from somf.data.readahead.memory_map import Place
from somf.typing import Array, Ints, Rows

LARGEST_CHUNK = 2**26
"""Bytes that are read at once from a memory map whose samples are not contiguous."""

LARGE_ROW = 2**14
"""Bytes from which on a row is worth a call of the system to read it."""


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
    supports_partial_chunks : bool
        Whether some rows of a chunk can be read without reading all of it.
    is_in_memory : bool
        Whether rows can be had without waiting for a disk; if so, nobody reads ahead.
    is_sparse : bool
        Whether rows are in CSR form.
    is_read_by_system : bool
        Whether the system reads what `prefetch` asks for while others compute; if not, somebody
        has to wait for the disk in `fetch`.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunk_starts: Ints | None = None
    supports_partial_chunks: bool = False
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

    def prefetch(self, ids: Ints) -> None:  # noqa: B027 (there may be nobody to ask)
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
