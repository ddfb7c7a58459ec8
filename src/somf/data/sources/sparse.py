"""Sparse matrices in compressed rows."""

import scipy.sparse as sp

from somf.data.checks import check_compressed
from somf.data.source import Source
from somf.typing import Ints


class CsrSource(Source):
    """A sparse matrix in compressed rows.

    Parameters
    ----------
    X : csr_array of shape (n, p)

    Raises
    ------
    DataError
        If indices lie outside of the matrix.
    """

    is_in_memory = True
    is_sparse = True
    reads_in_parallel = True

    def __init__(self, X: sp.csr_array) -> None:
        check_compressed(X)
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average, and not less than a thousand."""
        return max(1000.0, float(self.X.nnz) / self.shape[0])

    def rows(self, ids: Ints) -> sp.csr_array:
        """Return samples as a new CSR array."""
        return self.X[ids]

    def view(self, ids: Ints) -> tuple[sp.csr_array, Ints]:
        """Return the whole matrix, of which nothing is copied."""
        return self.X, ids
