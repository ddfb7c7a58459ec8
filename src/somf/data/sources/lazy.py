"""Dask arrays, of which every chunk is computed once in an epoch."""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.order import runs
from somf.data.source import Source
from somf.errors import DataError
from somf.typing import Array, Ints, Rows

SMALL_CHUNK = 2**22
"""Bytes of rows up to which several chunks are computed together: Dask needs a while for a call."""

LARGEST_CHUNK = 2**31
"""Bytes of rows that are computed together at most. A buffer of them is in a scratch file."""


class DaskSource(Source):
    """A Dask array, computed a run of rows at a time.

    A chunk of the source is all chunks of the array that have the same rows. So it does not matter
    how features are chunked, and each chunk of the array is computed once in an epoch.

    Parameters
    ----------
    X : dask.array.Array of shape (n, p)
        Its chunks are NumPy arrays or SciPy sparse matrices.

    Raises
    ------
    DataError
        If sizes of chunks are not known, or chunks are arrays of another library.
    """

    def __init__(self, X: Any) -> None:
        if any(np.isnan(size) for sizes in X.chunks for size in sizes):
            raise DataError(
                "X must have chunks of known sizes, got a Dask array with unknown ones. "
                "X.compute_chunk_sizes() computes and stores them."
            )
        self.is_sparse = sp.issparse(X._meta)
        if not self.is_sparse and type(X._meta) is not np.ndarray:
            kind = f"{type(X._meta).__module__}.{type(X._meta).__name__}"
            raise DataError(
                f"X must have chunks that are NumPy arrays or SciPy sparse matrices, got {kind}. "
                "Convert them: X.map_blocks(numpy.asarray)."
            )
        self.X, self.shape, self.dtype = X, (int(X.shape[0]), int(X.shape[1])), np.dtype(X.dtype)
        sizes = [size for size in X.chunks[0] if size]
        if sizes:
            self.chunk_starts = self._runs(np.cumsum([0, *sizes[:-1]]), max(sizes))

    def _runs(self, starts: Ints, largest: int) -> Ints:
        """Return where the runs of rows start that are computed together."""
        row_bytes = max(1, self.shape[1] * self.dtype.itemsize)
        few, most = (max(1, size // row_bytes) for size in (SMALL_CHUNK, LARGEST_CHUNK))
        if largest > most and not self.is_sparse:
            warnings.warn(
                f"X has chunks of {largest:,} samples, {largest * row_bytes / 1e9:,.1f} GB with "
                f"all their features. They are computed in pieces of {most:,} samples, so that "
                f"each chunk is computed {-(-largest // most)} times in an epoch. Make X of "
                f"smaller chunks: chunks=({max(1, SMALL_CHUNK * 16 // row_bytes)}, -1).",
                UserWarning,
                stacklevel=4,
            )
        return runs(starts, self.shape[0], min(max(largest, few), most))

    @cached_property
    def _stored_per_row(self) -> float:
        """How many entries a row of the first chunk has; it is computed for this."""
        first = self.X.blocks[0]
        count: int = first.compute().nnz
        return max(1.0, count / max(1, len(first)))

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        return float(self._stored_per_row if self.is_sparse else self.shape[1])

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored, judged by the first chunk."""
        return self.entries_per_row / self.shape[1]

    def rows(self, ids: Ints) -> Rows:
        """Return samples as a new array; each chunk that holds some is computed once."""
        unique, positions = np.unique(ids, return_inverse=True)
        if not len(unique):
            empty = np.empty((0, self.shape[1]), self.dtype)
            return sp.csr_array(empty) if self.is_sparse else empty
        found = self.X[unique].compute()
        rows = sp.csr_array(found) if self.is_sparse else np.asarray(found)
        return rows[positions]

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array, each chunk as soon as it is computed."""
        compute_into(self.X[start:stop], out)


def compute_into(X: Any, out: Array) -> None:
    """Compute a Dask array into an array of the same shape, without a copy where possible."""
    from dask import local, threaded
    from dask.array import store
    from dask.base import get_scheduler

    if get_scheduler(collections=[X]) in (threaded.get, local.get_sync):
        store(X, out, lock=False)
    else:  # other processes do not write into the memory of this one
        out[...] = X.compute()
