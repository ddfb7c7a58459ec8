"""From rows of a source to minibatches: order, type, order of features, and a look for NaN."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.buffer import ChunkBuffer
from somf.data.order import buffered_chunks, epoch_order
from somf.data.readahead.background import read_ahead
from somf.data.readahead.page_cache import read_through_page_cache
from somf.data.source import Fetched, Source
from somf.errors import NotFiniteError
from somf.typing import Array, Ints, Matrix

CHUNK_ENTRIES = 2**23
"""Entries of X that are held at once by a pass in order (64 MB in float64)."""

AHEAD_BYTES = 2**26
"""What is read ahead: as many minibatches as fit into this …"""

LEAST_AHEAD, MOST_AHEAD = 2, 16
"""… but not less or more than these."""


class Loader:
    """Reads minibatches in the form in which the solver wants them.

    Parameters
    ----------
    source : Source
    dtype : numpy.dtype
        float32 or float64.
    permutation : ndarray of shape (p,), optional
        The feature that goes to each column; None keeps their order.
    non_negative : bool
        Whether to warn, once, if there are negative entries.
    name : str
        What the user calls the data.
    """

    def __init__(
        self,
        source: Source,
        dtype: np.dtype[Any],
        permutation: Ints | None = None,
        non_negative: bool = False,
        name: str = "X",
    ) -> None:
        self.source, self.dtype, self.permutation = source, dtype, permutation
        self.non_negative, self.name = non_negative, name
        self._memory: Array | None = None  # of chunks, kept from one epoch to the next
        if permutation is not None:
            self._column = np.empty_like(permutation)
            self._column[permutation] = np.arange(len(permutation))
            if len(permutation) < 2**31:
                self.permutation = permutation.astype(np.int32)  # it is read for every sample

    def order(self, ids: Ints, seed: int, epoch: int) -> Ints:
        """Return samples in the order of an epoch, which suits the storage of the source."""
        chunk_starts = self.source.chunk_starts
        return epoch_order(ids, seed, epoch, chunk_starts, buffered_chunks(self.source))

    def load(self, ids: Ints) -> Matrix:
        """Return samples as a C-contiguous or CSC minibatch.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray or csc_array of shape (b, p)

        Raises
        ------
        ValueError
            If one of the samples has an entry that is not finite.
        """
        with _no_end_of_iteration(self.source):
            if self.source.chunk_starts is None:
                self.source.prefetch(ids)  # of chunks nobody is going to want the other rows
            return self._prepare(self.source.fetch(ids), ids)

    @contextmanager
    def stream(self, batches: Sequence[Ints]) -> Iterator[Iterator[Matrix]]:
        """Give an iterator over minibatches, which are read ahead.

        Where everything is in memory there is nothing to wait for. Where the system reads what it
        is asked for, it is asked in good time. Else the waiting is for a thread of its own, which
        computes as little as possible: all threads are busy with the current minibatch.

        Parameters
        ----------
        batches : sequence of ndarray of int
            The samples of every minibatch.

        Yields
        ------
        minibatches : iterator of ndarray or csc_array
            An error in the background comes up in the place of its minibatch.
        """
        if self.source.is_in_memory:
            yield map(self.load, batches)
            return
        n_ahead = self._n_ahead(batches)
        if self.source.is_read_by_system and not self._keeps_chunks:
            fetched = read_through_page_cache(self.source, batches, n_ahead)
            yield (self._prepare(f, ids) for f, ids in zip(fetched, batches, strict=True))
            return
        with self._in_background(batches, n_ahead) as fetched:
            yield (self._prepare(f, ids) for f, ids in zip(fetched, batches, strict=True))

    @contextmanager
    def _in_background(self, batches: Sequence[Ints], n_ahead: int) -> Iterator[Iterator[Fetched]]:
        with (
            self._planned(batches, n_ahead) as fetch,
            read_ahead(partial(self._ask_and_fetch, fetch), batches, n_ahead) as fetched,
        ):
            yield fetched

    def _ask_and_fetch(self, fetch: Callable[[Ints], Fetched], ids: Ints) -> Fetched:
        """Ask for a whole minibatch before waiting for its first sample."""
        if not self._keeps_chunks:
            self.source.prefetch(ids)
        return fetch(ids)

    @contextmanager
    def _planned(
        self, batches: Sequence[Ints], n_ahead: int
    ) -> Iterator[Callable[[Ints], Fetched]]:
        """Give `Source.fetch` for these minibatches, to be called once for each, in order."""
        memory, self._memory = self._memory, None  # for one stream at a time
        buffer = ChunkBuffer(self.source, batches, n_ahead, memory) if self._keeps_chunks else None

        def fetch(ids: Ints) -> Fetched:
            with _no_end_of_iteration(self.source):
                if buffer is None:
                    return self.source.fetch(ids)
                rows, places = buffer.take(ids)
                return lambda part: (rows, places[part])

        yield fetch
        # Not after an error, when a thread may still be reading into it.
        self._memory = None if buffer is None else buffer.rows

    def _n_ahead(self, batches: Sequence[Ints]) -> int:
        """Return how many minibatches to read in advance."""
        size = max(map(len, batches)) * self.source.entries_per_row * self.dtype.itemsize
        return min(max(LEAST_AHEAD, int(AHEAD_BYTES / size)), MOST_AHEAD)

    @property
    def _keeps_chunks(self) -> bool:
        """Whether chunks are kept in memory until their last row is used."""
        is_read_by_rows = self.source.supports_partial_chunks and self.source.has_large_rows
        return self.source.chunk_starts is not None and not is_read_by_rows

    def _prepare(self, fetched: Fetched, ids: Ints) -> Matrix:
        """Make a minibatch of samples."""
        if not self.source.is_sparse:
            return self._dense(fetched, ids)
        X, picked = fetched(slice(0, len(ids)))
        return self._sparse(X[picked], ids)

    def _dense(self, fetched: Fetched, ids: Ints) -> Array:
        """Pick rows, permute columns, convert and look for NaN, all in one pass."""
        from somf.data.gather import gather  # Numba is slow to import

        shape = (len(ids), self.source.shape[1])
        rows, total = gather(fetched, shape, self.permutation, self.dtype)
        if self.non_negative or not np.isfinite(total):
            self._check(rows, rows, ids)
        return rows

    def _sparse(self, rows: sp.csr_array, ids: Ints) -> sp.csc_array:
        """Add up repeated entries, permute columns and convert."""
        sparse = sp.csr_array(rows, dtype=self.dtype)
        sparse.sum_duplicates()
        self._check(sparse, sparse.data, ids)
        if self.permutation is not None:
            columns = self._column[sparse.indices].astype(sparse.indices.dtype)
            sparse = sp.csr_array((sparse.data, columns, sparse.indptr), shape=sparse.shape)
        return sparse.tocsc()

    def _check(self, X: Any, entries: Array, ids: Ints) -> None:
        check_finite(X, entries, ids, self.name)
        if self.non_negative:
            self._warn_if_negative(bool(entries.min(initial=0) < 0))

    def _warn_if_negative(self, is_negative: bool) -> None:
        if self.non_negative and is_negative:
            self.non_negative = False
            warnings.warn(
                "X has negative entries, which a product of non-negative factors cannot reproduce.",
                UserWarning,
                stacklevel=4,
            )

    def chunks(self, ids: Ints, entries_per_row: float = 1) -> Iterator[tuple[Ints, Matrix]]:
        """Yield the given samples in order, a bounded number at a time.

        Parameters
        ----------
        ids : ndarray of int
        entries_per_row : float
            Entries that the caller is going to hold for every row.

        Yields
        ------
        positions : ndarray of int
            Where in `ids` the samples of this chunk are.
        X : ndarray or csc_array
        """
        size = max(1, int(CHUNK_ENTRIES / max(self.source.entries_per_row, entries_per_row)))
        positions = [
            np.arange(start, min(start + size, len(ids))) for start in range(0, len(ids), size)
        ]
        with self.stream([ids[p] for p in positions]) as chunks:
            yield from zip(positions, chunks, strict=True)


@contextmanager
def _no_end_of_iteration(source: Source) -> Iterator[None]:
    """Let a StopIteration of a source be an error: in an iterator it would end the samples."""
    try:
        yield
    except StopIteration:
        message = f"{type(source).__name__} raised StopIteration."
        raise RuntimeError(message)  # noqa: B904 (with "from" contextlib lets StopIteration through)


def check_finite(X: Any, entries: Array, ids: Ints, name: str) -> None:
    """Raise NotFiniteError, naming the row, if one of the entries of X is not finite."""
    # One pass over the entries in the good case: a sum is finite unless one of them is not (or it
    # overflows, hence the second look).
    with np.errstate(over="ignore", invalid="ignore"):
        total = entries.sum()
    if np.isfinite(total) or np.isfinite(entries).all():
        return
    if isinstance(X, np.ndarray):
        row, bad = np.argwhere(~np.isfinite(X))[0][0], X[~np.isfinite(X)][0]
    else:
        entry = np.flatnonzero(~np.isfinite(entries))[0]
        row, bad = np.searchsorted(X.indptr, entry, side="right") - 1, entries[entry]
    what = "NaN" if np.isnan(bad) else "infinity"
    raise NotFiniteError(
        f"{name} must be finite, got {what} in row {ids[row]} as {entries.dtype}. "
        "Remove or impute such entries first.",
        name,
        int(ids[row]),
    )


def loader_for(
    device: str,
    source: Source,
    dtype: np.dtype[Any],
    permutation: Ints | None = None,
    non_negative: bool = False,
    name: str = "X",
) -> Loader:
    """Return the loader that brings minibatches to a device; see `Loader` for the parameters."""
    if device == "cuda":
        from somf.data.cuda.loader import DeviceLoader  # torch is optional

        return DeviceLoader(source, dtype, permutation, non_negative, name)
    return Loader(source, dtype, permutation, non_negative, name)
