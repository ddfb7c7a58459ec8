"""Sparse matrices in compressed rows that are too large for memory, read in runs of rows."""

import warnings
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.checks import is_not_about_content
from somf.data.order import LARGEST_CHUNK
from somf.data.readahead.memory_map import Mapping, is_mapped
from somf.data.source import Source
from somf.data.sources.sliced import dtype_of
from somf.errors import DamagedFileError, DataError
from somf.typing import Ints

RUN_BYTES = 2**22
"""Bytes of consecutive rows that are read together, if stored chunks are small."""

CHUNKS_PER_RUN = 8
"""Stored chunks in a run, at least: the first and the last of a run are read twice in an epoch."""

LEAST_ENTRIES_PER_ROW = 1000.0
"""Entries that a row counts as, at least: a minibatch also holds something for every row."""


class CompressedRows(Source):
    """A CSR matrix whose three arrays are stored; runs of rows are its chunks.

    Parameters
    ----------
    data, indices : objects of shape (n_entries,)
        With `dtype`, `shape` and slices; where they have `chunks`, these are respected.
    indptr : ndarray of shape (n + 1,)
        In memory.
    n_columns : int
    path : str
        The file it comes from, to be named in errors.

    Raises
    ------
    DamagedFileError
        If `indptr` does not describe rows of `data` and `indices`.
    """

    is_sparse = True

    def __init__(self, data: Any, indices: Any, indptr: Ints, n_columns: int, path: str) -> None:
        check_pointers(data, indices, indptr, path)
        self._data, self._indices, self._indptr, self.path = data, indices, indptr, path
        self.shape = (len(indptr) - 1, n_columns)
        self.dtype = dtype_of(data)
        self.chunk_starts: Ints = self._runs()
        self._lock = Lock()  # h5py and Zarr read one after the other
        arrays = [X for X in (data, indices) if isinstance(X, np.ndarray) and is_mapped(X)]
        self._mappings = [Mapping(X) for X in arrays]

    @property
    def n_entries(self) -> int:
        """How many entries are stored."""
        return int(self._indptr[-1])

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average, and not less than a thousand."""
        return max(LEAST_ENTRIES_PER_ROW, self.n_entries / max(1, self.shape[0]))

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored."""
        return self.n_entries / max(1, self.shape[0] * self.shape[1])

    def _runs(self) -> Ints:
        """Return where runs of rows start that take about the same number of bytes."""
        entry_bytes = self.dtype.itemsize + np.dtype(self._indices.dtype).itemsize
        in_chunk = max(_chunk_length(self._data), _chunk_length(self._indices))
        if in_chunk * entry_bytes > LARGEST_CHUNK:
            self._warn_of_large_chunks(in_chunk, entry_bytes)
        wanted = max(RUN_BYTES, CHUNKS_PER_RUN * in_chunk * entry_bytes)
        ends = self._indptr.astype(np.int64) * entry_bytes
        ends += np.arange(len(ends)) * self._indptr.itemsize
        starts = np.searchsorted(ends[:-1], np.arange(0, ends[-1], min(wanted, LARGEST_CHUNK)))
        return np.unique(starts[starts < self.shape[0]])

    def _warn_of_large_chunks(self, in_chunk: int, entry_bytes: int) -> None:
        n_times = 1 + -(-in_chunk * entry_bytes // LARGEST_CHUNK)
        warnings.warn(
            f"{self.path!r} has chunks of {in_chunk:,} entries, "
            f"{in_chunk * entry_bytes / 1e6:,.0f} MB. They are read in pieces, so that each "
            f"of them is read about {n_times} times in an epoch. Store it again in chunks "
            f"of {RUN_BYTES // entry_bytes:,} entries.",
            UserWarning,
            stacklevel=3,
        )

    def rows(self, ids: Ints) -> sp.csr_array:
        """Return samples as a new CSR array."""
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        owners = np.searchsorted(self.chunk_starts, ordered, side="right")
        found = []
        for piece in np.split(ordered, np.flatnonzero(np.diff(owners)) + 1):
            if len(piece):
                first = int(piece[0])
                found.append(self._read_rows(first, int(piece[-1]) + 1)[piece - first])
        if not found:
            return sp.csr_array((0, self.shape[1]), dtype=self.dtype)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        rows = found[0] if len(found) == 1 else sp.vstack(found, format="csr")
        return sp.csr_array(rows[back])

    def _read_rows(self, start: int, stop: int) -> sp.csr_array:
        """Return consecutive rows, with indices that were checked: SciPy trusts them."""
        first, last = int(self._indptr[start]), int(self._indptr[stop])
        try:
            with self._lock:
                for mapping in self._mappings:
                    mapping.check_file()
                    mapping.use((last - first) * self.dtype.itemsize)
                data = np.array(self._data[first:last], dtype=self.dtype)
                indices = np.asarray(self._indices[first:last])
            self._confirm(first, last)
            for mapping in self._mappings:
                mapping.check_file()
            if len(data) != last - first or len(indices) != last - first:
                raise DataError("the file ends before them")
            pointers = self._indptr[start : stop + 1] - first
            kind = np.int32 if max(self.shape[1], last - first) < 2**31 else np.int64
            if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < self.shape[1]:
                raise DataError(f"indices of columns must be from 0 to {self.shape[1] - 1}")
        except Exception as error:
            if is_not_about_content(error):
                raise
            raise DamagedFileError(
                f"{self.path!r} is damaged: rows {start} to {stop - 1} cannot be read: {error}"
            ) from error
        shape = (stop - start, self.shape[1])
        return sp.csr_array((data, indices.astype(kind), pointers.astype(kind)), shape=shape)

    def _confirm(self, first: int, last: int) -> None:
        """Raise an error if what entries were just read from is gone (see `SlicedSource`)."""


def _chunk_length(X: Any) -> int:
    """Return how many entries are stored together."""
    chunks = getattr(X, "chunks", None)
    return int(chunks[0]) if isinstance(chunks, tuple) and chunks else 1


def check_pointers(data: Any, indices: Any, indptr: Ints, path: str) -> None:
    """Raise DamagedFileError unless `indptr` describes rows of `data` and `indices`."""
    n_entries = int(data.shape[0])
    is_right = (
        int(indices.shape[0]) == n_entries
        and len(indptr) >= 1
        and int(indptr[0]) == 0
        and int(indptr[-1]) == n_entries
        and bool((indptr[1:] >= indptr[:-1]).all())
    )
    if not is_right:
        raise DamagedFileError(
            f"{path!r} is damaged: the pointers of a sparse matrix must rise from 0 to its "
            f"{n_entries:,} entries, with as many indices, got {int(indices.shape[0]):,} indices "
            f"and pointers from {indptr[:1].sum():,} to {indptr[-1:].sum():,}."
        )
