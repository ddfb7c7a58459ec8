"""Some features of another source."""

from somf.data.source import DerivedSource, Source
from somf.typing import Ints, Rows


class SelectedFeatures(DerivedSource):
    """The rows of a source, with some of their features.

    Parameters
    ----------
    source : Source
        Of shape (n, p).
    features : ndarray of int of shape (q,)
        Columns of the source, in rising order.
    """

    def __init__(self, source: Source, features: Ints) -> None:
        self.source, self.features = source, features
        self.shape = (source.shape[0], len(features))
        self.dtype, self.files = source.dtype, source.files
        self.chunk_starts = source.chunk_starts
        self.supports_partial_chunks = source.supports_partial_chunks
        self.is_in_memory, self.is_sparse = source.is_in_memory, source.is_sparse
        self.reads_in_parallel = source.reads_in_parallel
        if source.feature_names is not None:
            self.feature_names = [source.feature_names[i] for i in features.tolist()]

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, at most, on average."""
        return min(self.source.entries_per_row, float(self.shape[1]))

    def rows(self, ids: Ints) -> Rows:
        """Return samples as a new array."""
        return self.source.rows(ids)[:, self.features]

    def prefetch(self, ids: Ints) -> None:
        """Let the system read samples with all their features."""
        self.source.prefetch(ids)
