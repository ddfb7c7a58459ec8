"""The contract of a source: a matrix of which rows can be read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from somf.data.channels import Channels
from somf.data.checks import check_rows
from somf.typing import Array, Ints, Rows

View: TypeAlias = tuple[Rows, Ints]
"""An array of p features, and the positions of some samples among its rows."""

PieceReader: TypeAlias = Callable[[slice], View]
"""Reads a piece of one minibatch; worker threads call it at the same time, for a piece each."""


class Source(ABC):
    """A matrix of n samples × p features of which rows can be read.

    A subclass must set `shape` and `dtype` and define `rows`. All else has a default. Rows may be
    read in another thread than the one that made the source.

    Attributes
    ----------
    shape : tuple of (int, int)
    dtype : numpy.dtype
    chunk_starts : ndarray of int or None
        The first row of every chunk of rows that are stored together and best read together. None
        if all rows can be read at the same cost.
    supports_partial_chunks : bool
        Whether some rows of a chunk can be read without reading all of it.
    is_in_memory : bool
        Whether rows can be read without waiting for a disk. If so, nothing is read ahead.
    is_sparse : bool
        Whether rows are in CSR form.
    reads_in_parallel : bool
        Whether all worker threads may call `prefetch` and `view` at the same time, each for its
        piece of a minibatch, when the minibatch is needed. The system reads ahead after `prefetch`.
        If False, a background thread reads whole minibatches ahead.
    files : tuple of str
        The files that hold the samples, where they are known.
    feature_names : sequence of str, optional
        The names of the p features, in order, if what holds the samples has names for them.
    channels : Channels, optional
        What the features of a spectrum are, or the channels of a pixel where samples are patches:
        wavelengths with their unit, or names.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunk_starts: Ints | None = None
    supports_partial_chunks: bool = False
    is_in_memory: bool = False
    is_sparse: bool = False
    reads_in_parallel: bool = False
    files: tuple[str, ...] = ()
    feature_names: Sequence[str] | None = None
    channels: Channels | None = None

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        return float(self.shape[1])

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored; the others are zero."""
        return 1.0

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

    def view(self, ids: Ints) -> View:
        """Return an array that holds samples, without a copy if they are in memory or mapped.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray or csr_array of shape (m, p)
            It must not be written to.
        positions : ndarray of shape (b,)
            The row of `X` that is each sample.
        """
        return self._checked_rows(ids), np.arange(len(ids))

    def prefetch(self, ids: Ints) -> None:  # noqa: B027 (a source need not have it)
        """Let the system begin to read samples into its page cache, without waiting for them.

        This is a hint and raises no error. A sample that cannot be read is an error when it is
        read.

        Parameters
        ----------
        ids : ndarray of shape (b,)
        """

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array; worth overriding where `rows` makes a copy.

        Parameters
        ----------
        start, stop : int
        out : ndarray of shape (stop - start, p)
            Of the type of the source.
        """
        out[...] = self._checked_rows(np.arange(start, stop))

    def _checked_rows(self, ids: Ints) -> Rows:
        """Return `rows`, after a check that they are what the contract says."""
        rows = self.rows(ids)
        check_rows(rows, (len(ids), self.shape[1]), self.is_sparse)
        return rows


class DerivedSource(Source):
    """A source whose rows are made of those of another one, and store as many entries.

    Attributes
    ----------
    source : Source
        The other one.
    """

    source: Source

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        return self.source.entries_per_row

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored."""
        return self.source.stored_share
