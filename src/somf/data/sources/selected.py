"""Some of the rows of another source."""

from somf.data.source import DerivedSource, Source
from somf.typing import Ints, Rows


class SelectedSource(DerivedSource):
    """Samples that are chosen from another source, in any order.

    Parameters
    ----------
    source : Source
    ids : ndarray of int of shape (n,)
        The rows of the source.
    """

    def __init__(self, source: Source, ids: Ints) -> None:
        self.source, self.ids = source, ids
        self.shape, self.dtype = (len(ids), source.shape[1]), source.dtype
        self.is_in_memory, self.is_sparse = source.is_in_memory, source.is_sparse
        self.files, self.feature_names = source.files, source.feature_names

    def rows(self, ids: Ints) -> Rows:
        """Return samples."""
        return self.source.rows(self.ids[ids])

    def prefetch(self, ids: Ints) -> None:
        """Let the other source prefetch."""
        self.source.prefetch(self.ids[ids])
