"""Samples scaled to unit norm when they are read."""

import numpy as np
import scipy.sparse as sp

from somf.data.source import DerivedSource, Source
from somf.typing import Array, Ints, Rows


class NormalizedSource(DerivedSource):
    """A source whose samples have unit norm; samples that are zero stay zero.

    Parameters
    ----------
    source : Source

    Attributes
    ----------
    norms : ndarray of shape (n,), or of shape (0,)
        The norms of samples that have been read since `remember_norms` was called.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        is_single = source.dtype.kind == "f" and source.dtype.itemsize <= 4
        self.shape, self.dtype = source.shape, np.dtype(np.float32 if is_single else np.float64)
        self.chunk_starts = source.chunk_starts
        self.supports_partial_chunks = source.supports_partial_chunks
        self.is_in_memory, self.is_sparse = source.is_in_memory, source.is_sparse
        self.files = source.files
        self.feature_names, self.channels = source.feature_names, source.channels
        self.norms: Array = np.zeros(0)

    def remember_norms(self) -> None:
        """Keep the norms of samples that are read from now on."""
        self.norms = np.zeros(self.shape[0])  # memory that no norm is written to is not taken

    def prefetch(self, ids: Ints) -> None:
        """See `Source.prefetch`."""
        self.source.prefetch(ids)

    def rows(self, ids: Ints) -> Rows:
        """See `Source.rows`."""
        X = self.source.rows(ids)
        X = sp.csr_array(X, dtype=self.dtype) if sp.issparse(X) else X.astype(self.dtype)
        if isinstance(X, sp.csr_array):
            X.sum_duplicates()
        norms = row_norms(X)
        if len(self.norms):
            self.norms[ids] = norms
        scale = 1.0 / np.where(norms > 0, norms, 1.0)
        if isinstance(X, sp.csr_array):
            X.data = (X.data * np.repeat(scale, np.diff(X.indptr))).astype(self.dtype)
        else:
            X = (X * scale[:, None]).astype(self.dtype)
        return X


def row_norms(X: Rows) -> Array:
    """Return ‖x‖ of every sample, of shape (b,), in double precision.

    Entries are divided by the largest one, so that squares neither overflow nor underflow.
    """
    if isinstance(X, np.ndarray):
        top = np.abs(X).max(axis=1).astype(np.float64)
        unit = X / np.where(top > 0, top, 1.0)[:, None]
        return np.asarray(top * np.sqrt(np.einsum("ij,ij->i", unit, unit)))
    top = np.asarray(abs(X).max(axis=1).todense(), dtype=np.float64).ravel()
    unit = X.data / np.repeat(np.where(top > 0, top, 1.0), np.diff(X.indptr))
    sums = np.bincount(
        np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), unit**2, minlength=X.shape[0]
    )
    return np.asarray(top * np.sqrt(sums))
