"""Samples from which the mean of every feature is subtracted when they are read."""

import numpy as np

from somf.data.source import Source
from somf.errors import DataError, NotFiniteError
from somf.typing import Array, Ints

ENTRIES_AT_ONCE = 2**22
"""Entries that the pass over the data reads at once."""


class CentredSource(Source):
    """A source of dense samples without the mean of every feature, once it is known.

    Parameters
    ----------
    source : Source

    Attributes
    ----------
    means : ndarray of shape (p,), or of shape (0,)
        What is subtracted; nothing at first.

    Raises
    ------
    DataError
        If the source is sparse.
    """

    def __init__(self, source: Source) -> None:
        if source.is_sparse:
            raise DataError(
                "center='features' is for dense X, got a sparse matrix, which would become dense."
            )
        self.source = source
        is_single = source.dtype.kind == "f" and source.dtype.itemsize <= 4
        self.shape, self.dtype = source.shape, np.dtype(np.float32 if is_single else np.float64)
        self.chunk_starts = source.chunk_starts
        self.supports_partial_chunks = source.supports_partial_chunks
        self.is_in_memory, self.files = source.is_in_memory, source.files
        self.feature_names, self.channels = source.feature_names, source.channels
        self.means: Array = np.zeros(0, self.dtype)

    def prefetch(self, ids: Ints) -> None:
        """See `Source.prefetch`."""
        self.source.prefetch(ids)

    def rows(self, ids: Ints) -> Array:
        """See `Source.rows`."""
        X = np.array(self.source.rows(ids), dtype=self.dtype)
        if self.means.size:
            X -= self.means.astype(self.dtype, copy=False)
        return X

    def sums(self, ids: Ints, sample_weight: Array | None = None) -> Array:
        """Return the sums of all features over some samples, and the sum of weights, in one pass.

        Parameters
        ----------
        ids : ndarray of int
        sample_weight : ndarray of shape (n,), optional
            How much each row of the source counts.

        Returns
        -------
        sums : ndarray of shape (p + 1,)
            The sum of weights comes last.
        """
        n, p = self.shape
        counts = np.ones(n) if sample_weight is None else sample_weight
        size, total = max(1, ENTRIES_AT_ONCE // p), np.zeros(p + 1)
        for part in np.split(ids, range(size, len(ids), size)):
            rows = np.asarray(self.source.rows(part), dtype=np.float64)
            bad = ~np.isfinite(rows).all(axis=1)
            if bad.any():
                row = int(part[bad][0])
                raise NotFiniteError(
                    f"X must be finite, got NaN or infinity in row {row}.", "X", row
                )
            total[:-1] += counts[part] @ rows
            total[-1] += counts[part].sum()
        return total
