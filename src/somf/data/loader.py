"""From a source to minibatches: source → order → readahead → gather → minibatch."""

import math
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ContextDecorator, closing, contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from somf.data.buffer import ChunkBuffer, SparseChunkBuffer
from somf.data.checks import check_compressed, check_finite, check_kind, check_view
from somf.data.order import buffered_chunks, chunks_within, epoch_order
from somf.data.readahead.background import read_ahead
from somf.data.readahead.page_cache import read_through_page_cache
from somf.data.source import PieceReader, Source, View
from somf.data.sources.arrays import ArraySource
from somf.errors import NotFiniteError
from somf.typing import Array, Ints, Matrix

if TYPE_CHECKING:
    from somf.data.gather import Gathering

CHUNK_ENTRIES = 2**23
"""Entries of X that a pass in order holds at once (64 MB in float64)."""

READAHEAD_BYTES = 2**26
"""Bytes of minibatches that are read ahead."""

LEAST_AHEAD = 2
"""Minibatches that are read ahead at least, even if they are larger than `READAHEAD_BYTES`."""

MOST_AHEAD = 16
"""Minibatches that are read ahead at most."""

SLAB_BYTES = 2**18
"""Bytes of small minibatches that are loaded by one call: few enough for the cache of a core."""

LARGE_ROW = 2**14
"""Bytes of a row from which on reading it alone is worth a system call."""


class Loader:
    """Reads minibatches in the form that the solver needs.

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

    slices_dense = True
    """Whether dense minibatches are arrays, of which a slice is a minibatch, too."""

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
        self._buffer_memory: Array | None = None  # kept from one epoch to the next
        self._next_ids: Ints | None = None  # of the minibatch that `advance` may begin to load
        self._coming: tuple[Ints, Gathering] | None = None  # that minibatch
        if permutation is not None:
            self._column = np.empty_like(permutation)
            self._column[permutation] = np.arange(len(permutation))
            if len(permutation) < 2**31:
                self.permutation = permutation.astype(np.int32)  # it is read for every sample

    def order(
        self, ids: Ints, seed: int, epoch: int, rank: int = 0, rows: slice | None = None
    ) -> Ints:
        """Return samples in the random order of an epoch, which suits the storage of the source.

        Parameters
        ----------
        ids : ndarray of shape (n,)
        seed, epoch : int
        rank : int
            Other ranks have other random numbers.
        rows : slice, optional
            The rows of a rank, among which the samples are; by default all.
        """
        chunk_starts = self.source.chunk_starts
        if chunk_starts is not None and rows is not None:
            chunk_starts = chunks_within(chunk_starts, rows)
        stream = (rank,) if rank else ()
        return epoch_order(ids, seed, epoch, chunk_starts, buffered_chunks(self.source), stream)

    def nothing(self) -> Matrix:
        """Return a minibatch without samples, for a rank that has none of them."""
        shape = (0, self.source.shape[1])
        return (
            sp.csc_array(shape, dtype=self.dtype)
            if self.source.is_sparse
            else np.empty(shape, self.dtype)
        )

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
        NotFiniteError
            If a sample has an entry that is NaN or infinite.
        """
        with _StopIterationAsError(self.source):
            # With chunks, the rest of each chunk would be prefetched unnecessarily.
            if self.source.chunk_starts is None:
                self.source.prefetch(ids)
            by_readers = self.source.reads_in_parallel and not self.source.is_in_memory
            return self._prepare(ids, self._reader(ids), by_readers)

    def _reader(self, ids: Ints) -> PieceReader:
        """Return the function that reads pieces of a minibatch, all of which may be read now."""
        if self.source.reads_in_parallel:
            return lambda piece: self.source.view(ids[piece])
        return reader_of(self.source.view(ids))

    def advance(self) -> bool:
        """Load a piece of the next minibatch of the stream, if it is large, dense and in memory.

        Several ranks do this while they wait for messages. An error is raised in the place of the
        minibatch, which is loaded from its beginning again. A source that is not read in parallel
        reads all of the minibatch with the first piece.

        Returns
        -------
        has_advanced : bool
            False if nothing is left to load before that minibatch is asked for.
        """
        try:
            if self._next_ids is not None:
                ids, self._next_ids = self._next_ids, None
                self._coming = ids, self._gathering(ids)
            return self._coming is not None and self._coming[1].advance()
        except Exception:
            self._coming = None
            return False

    @contextmanager
    def stream(self, batches: Sequence[Ints]) -> Iterator[Iterator[Matrix]]:
        """Give an iterator over minibatches, which are read ahead.

        Data in memory needs no reading ahead. Otherwise the system reads ahead into its page cache,
        if the source allows it; if not, a background thread reads.

        Parameters
        ----------
        batches : sequence of ndarray of int
            The samples of every minibatch.

        Yields
        ------
        minibatches : iterator of ndarray or csc_array
            An error while reading is raised in the place of its minibatch.
        """
        if self.source.is_in_memory and (self.source.is_sparse or not self.slices_dense):
            yield map(self.load, batches)
        elif self.source.is_in_memory:
            # Other sources may compute rows, or fail: they are asked for one minibatch at a time.
            together = self._in_slabs if isinstance(self.source, ArraySource) else self._one_by_one
            with closing(together(batches)) as minibatches:
                yield minibatches
        elif self.source.reads_in_parallel and not self._buffers_chunks:
            readers = read_through_page_cache(self.source, batches, self._n_ahead(batches))
            yield (
                self._prepare(ids, read, True) for ids, read in zip(batches, readers, strict=True)
            )
        else:
            n_ahead = self._n_ahead(batches)
            with (
                self._background_view(batches, n_ahead) as view,
                read_ahead(view, batches, n_ahead) as views,
            ):
                yield map(self._prepare, batches, map(reader_of, views))

    def _in_slabs(self, batches: Sequence[Ints]) -> Generator[Array]:
        """Yield dense minibatches, small ones as slices of a slab that is loaded at once."""
        bytes_per_batch = max(map(len, batches)) * self.source.shape[1] * self.dtype.itemsize
        n_together = max(1, SLAB_BYTES // max(bytes_per_batch, 1))
        if n_together == 1:
            yield from self._one_by_one(batches)
            return
        for first in range(0, len(batches), n_together):
            slab = batches[first : first + n_together]
            if len(slab) > 1:
                try:
                    rows = self.load(np.concatenate(slab))
                except NotFiniteError:  # it is raised again in the place of its minibatch
                    yield from map(self.load, slab)
                    continue
                ends = np.cumsum([len(ids) for ids in slab]).tolist()
                for ids, end in zip(slab, ends, strict=True):
                    yield rows[end - len(ids) : end]
            else:
                yield self.load(slab[0])

    def _one_by_one(self, batches: Sequence[Ints]) -> Generator[Array]:
        """Yield dense minibatches in memory; `advance` may have begun to load the next one."""
        try:
            for ids, next_ids in zip_longest(batches, batches[1:]):
                yield self._take(ids, next_ids)
        finally:
            self._coming = self._next_ids = None

    def _take(self, ids: Ints, next_ids: Ints | None) -> Array:
        """Return a minibatch, of which `advance` may have loaded a part, and let it go on."""
        with _StopIterationAsError(self.source):
            begun, gathering = self._coming or (None, None)
            self._coming = None
            if gathering is None or begun is not ids:  # of another stream, or of none
                gathering = self._gathering(ids)
            while gathering.advance():
                pass
        self._next_ids = next_ids
        return self._checked_rows(gathering.rows, gathering.total, ids)

    def _gathering(self, ids: Ints) -> "Gathering":
        from somf.data.gather import Gathering  # Numba is slow to import

        shape = (len(ids), self.source.shape[1])
        return Gathering(self._reader(ids), shape, self.permutation, self.dtype)

    @contextmanager
    def _background_view(
        self, batches: Sequence[Ints], n_ahead: int
    ) -> Iterator[Callable[[Ints], View]]:
        """Give the function that reads whole minibatches, to be called for each of them in order.

        It computes as little as possible: all worker threads are busy with another minibatch.
        """
        guard = _StopIterationAsError(self.source)
        if not self._buffers_chunks:
            yield guard(self._prefetch_and_view)
            return
        if self.source.is_sparse:
            yield guard(SparseChunkBuffer(self.source, batches).take)
            return
        memory, self._buffer_memory = self._buffer_memory, None  # another stream must not use it
        buffer = ChunkBuffer(self.source, batches, n_ahead, memory)
        yield guard(buffer.take)
        self._buffer_memory = buffer.rows  # not after an error: a thread may still write to it

    def _prefetch_and_view(self, ids: Ints) -> View:
        """Prefetch the whole minibatch before waiting for its first sample."""
        self.source.prefetch(ids)
        return self.source.view(ids)

    def _n_ahead(self, batches: Sequence[Ints]) -> int:
        """Return how many minibatches to read ahead."""
        size = max(map(len, batches)) * self.source.entries_per_row * self.dtype.itemsize
        return min(max(LEAST_AHEAD, int(READAHEAD_BYTES / size)), MOST_AHEAD)

    @property
    def _buffers_chunks(self) -> bool:
        """Whether whole chunks are read, and kept in memory until their last row is used."""
        has_large_rows = self.source.shape[1] * self.source.dtype.itemsize >= LARGE_ROW
        reads_rows = self.source.supports_partial_chunks and has_large_rows
        return self.source.chunk_starts is not None and not reads_rows

    def _prepare(self, ids: Ints, read: PieceReader, by_readers: bool = False) -> Matrix:
        """Make a minibatch of samples; `gather` says what `by_readers` means."""
        with _StopIterationAsError(self.source):
            if not self.source.is_sparse:
                return self._dense(ids, read, by_readers)
            return self._sparse(ids, *read(slice(0, len(ids))))

    def _dense(self, ids: Ints, read: PieceReader, by_readers: bool) -> Array:
        """Pick rows, permute columns, convert and look for NaN, all in one pass."""
        from somf.data.gather import gather  # Numba is slow to import

        shape = (len(ids), self.source.shape[1])
        rows, total = gather(read, shape, self.permutation, self.dtype, by_readers)
        return self._checked_rows(rows, total, ids)

    def _checked_rows(self, rows: Array, total: float, ids: Ints) -> Array:
        """Return rows, whose sum is given, after a check."""
        if self.non_negative or not np.isfinite(total):
            self._check(rows, rows, ids)
        return rows

    def _sparse(self, ids: Ints, X: sp.csr_array, positions: Ints) -> sp.csc_array:
        """Pick rows, add up repeated entries, permute columns and convert, all in one pass."""
        from somf.data.sparse_gather import gather_sparse  # Numba is slow to import

        shape = (len(ids), self.source.shape[1])
        check_kind(X, shape, is_sparse=True)
        has_shape = (len(positions), X.shape[1]) == shape
        column = None if self.permutation is None else self._column
        gathered = gather_sparse(X, positions, column, self.dtype) if has_shape else None
        if gathered is None:
            check_view(X, positions, shape, is_sparse=True)
            check_compressed(X)
            raise AssertionError("an index lies outside, and SciPy has not found it")
        if not math.isfinite(gathered.total):
            rows = sp.csr_array(X[positions], dtype=self.dtype)
            rows.sum_duplicates()
            check_finite(rows, rows.data, ids, self.name, self._name_of_feature)
        self._warn_if_negative(gathered.least < 0)
        return gathered.X

    def _check(self, X: Any, entries: Array, ids: Ints) -> None:
        check_finite(X, entries, ids, self.name, self._name_of)
        if self.non_negative:
            self._warn_if_negative(bool(entries.min(initial=0) < 0))

    def _name_of(self, column: int) -> str | None:
        """Return the name of the feature in a column, if it has one."""
        permutation = self.permutation
        return self._name_of_feature(column if permutation is None else int(permutation[column]))

    def _name_of_feature(self, feature: int) -> str | None:
        names = self.source.feature_names
        return None if names is None else names[feature]

    def _warn_if_negative(self, is_negative: bool) -> None:
        if self.non_negative and is_negative:
            self.non_negative = False
            warnings.warn(
                "X has negative entries, which a product of non-negative factors cannot reproduce.",
                UserWarning,
                stacklevel=4,
            )

    def chunks(self, ids: Ints, entries_per_row: float = 1) -> Iterator[Matrix]:
        """Yield the given samples in order, a bounded number at a time.

        Parameters
        ----------
        ids : ndarray of int
        entries_per_row : float
            Entries that the caller is going to hold for every row.

        Yields
        ------
        X : ndarray or csc_array
        """
        if len(ids) == 0:  # all samples are on other ranks
            return
        size = max(1, int(CHUNK_ENTRIES / max(self.source.entries_per_row, entries_per_row)))
        with self.stream(np.split(ids, range(size, len(ids), size))) as chunks:
            yield from chunks


def reader_of(view: View) -> PieceReader:
    """Return the reader of a minibatch that has already been read."""
    X, positions = view
    return lambda piece: (X, positions[piece])


class _StopIterationAsError(ContextDecorator):
    """Turns a StopIteration of a source into RuntimeError: it would end the minibatches early."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: Any) -> None:
        if kind is not None and issubclass(kind, StopIteration):
            raise RuntimeError(f"{type(self.source).__name__} raised StopIteration.") from error
