"""Sparse matrices in compressed rows."""

import scipy.sparse as sp

from somf.data.checks import check_compressed
from somf.data.readahead.memory_map import Mapping, is_mapped
from somf.data.source import Source
from somf.typing import Ints


class CsrSource(Source):
    """A sparse matrix in compressed rows.

    Parameters
    ----------
    X : csr_array of shape (n, p)
        Its arrays may be memory maps.

    Raises
    ------
    DataError
        If indices lie outside of the matrix.
    """

    is_in_memory = True
    is_sparse = True
    reads_in_parallel = True

    def __init__(self, X: sp.csr_array) -> None:
        self._mappings = [Mapping(a) for a in (X.data, X.indices, X.indptr) if is_mapped(a)]
        self._check_files()
        check_compressed(X)
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype
        self.files = tuple(name for mapping in self._mappings for name in mapping.files)

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average, and not less than a thousand."""
        return max(1000.0, float(self.X.nnz) / self.shape[0])

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored."""
        return float(self.X.nnz) / (self.shape[0] * self.shape[1])

    def rows(self, ids: Ints) -> sp.csr_array:
        """Return samples as a new CSR array."""
        X, positions = self.view(ids)
        rows = X[positions]
        self._check_files()
        return rows

    def view(self, ids: Ints) -> tuple[sp.csr_array, Ints]:
        """Return the whole matrix, of which nothing is copied."""
        self._check_files()
        return self.X, ids

    def _check_files(self) -> None:
        """Raise DamagedFileError if the file of a memory map was cut short."""
        for mapping in self._mappings:
            mapping.check_file()
