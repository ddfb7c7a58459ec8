"""Sources of which some entries are unknown, and their minibatches."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.loader import Loader
from somf.data.offsets import Offsets
from somf.data.source import DerivedSource, PieceReader, Source, View
from somf.errors import DataError
from somf.kernels import kernels_for
from somf.kernels.observed import Observed
from somf.typing import Array, Ints, Rows

DENSE_SHARE = 0.25
"""The share of deviating entries from which on BLAS is faster on all than a loop over them."""

SAMPLED_ROWS = 32
"""Rows that tell whether most entries are known, at most."""

SAMPLED_ENTRIES = 2**22
"""Entries that tell it, at most."""


class ObservedSource(DerivedSource):
    """A source, together with what is known of its entries.

    Parameters
    ----------
    source : Source
    missing : {"error", "nan", "absent"}
        Which entries are unknown: none; those that are NaN; those that a sparse matrix has not
        stored.
    weights : Source, optional
        How much each entry counts, of the same shape; by default all count the same.

    Attributes
    ----------
    base_weight : int
        1 if most entries of some rows are known and have no weights, else 0 (see `Observed`).
    known_share : float
        Which part of the entries is known, as some rows tell.
    offsets : Offsets or None
        What to subtract from known entries.

    Raises
    ------
    DataError
        If a sparse source has NaN as unknown entries, or a dense one absent ones, or if weights do
        not fit the source.
    """

    offsets: Offsets | None = None

    def __init__(self, source: Source, missing: str, weights: Source | None = None) -> None:
        if missing == "nan" and source.is_sparse:
            raise DataError("missing='nan' is for dense X, got a sparse matrix: use 'absent'.")
        if missing == "error" and source.is_sparse and weights is None:
            raise DataError("center='both' of a sparse X needs missing='absent'.")
        if missing == "absent" and not source.is_sparse:
            raise DataError("missing='absent' is for sparse X, got a dense matrix: use 'nan'.")
        if weights is not None:
            if weights.shape != source.shape:
                raise DataError(f"weights must have shape {source.shape}, got {weights.shape}.")
            if source.is_sparse and missing != "absent":
                raise DataError(
                    "weights of a sparse X need missing='absent': entries that are not stored have "
                    "no weight."
                )
            if weights.is_sparse != source.is_sparse:
                raise DataError("weights must be sparse if X is, and dense if X is.")
        self.source, self.missing, self.weights = source, missing, weights
        self.base_weight = 0
        self.shape, self.dtype = source.shape, source.dtype
        self.chunk_starts = source.chunk_starts
        self.supports_partial_chunks = source.supports_partial_chunks
        self.is_in_memory, self.is_sparse = source.is_in_memory, source.is_sparse
        self.reads_in_parallel = source.reads_in_parallel
        self.files = source.files + (() if weights is None else weights.files)
        self.feature_names, self.channels = source.feature_names, source.channels
        self.known_share = 1.0 if missing == "error" else self._known_share()
        if weights is None and not source.is_sparse:
            self.base_weight = int(self.known_share >= 0.5)

    def _known_share(self) -> float:
        """Return which part of the entries of some rows is known."""
        n, p = self.shape
        count = max(1, min(SAMPLED_ROWS, n, int(SAMPLED_ENTRIES / self.entries_per_row)))
        rows = self.source.rows(np.linspace(0, n - 1, count).astype(np.int64))
        n_known = rows.size - np.isnan(rows).sum() if isinstance(rows, np.ndarray) else rows.nnz
        return float(n_known) / (count * p)

    def rows(self, ids: Ints) -> Rows:
        """See `Source.rows`."""
        return self.source.rows(ids)

    def view(self, ids: Ints) -> View:
        """See `Source.view`."""
        return self.source.view(ids)

    def prefetch(self, ids: Ints) -> None:
        """See `Source.prefetch`."""
        self.source.prefetch(ids)

    def read(self, start: int, stop: int, out: Array) -> None:
        """See `Source.read`."""
        self.source.read(start, stop, out)


class ObservedLoader(Loader):
    """Reads minibatches whose entries have weights, zero if they are unknown.

    Parameters
    ----------
    source : ObservedSource
    dtype, permutation, non_negative, name
        See `Loader`.
    device : {"cpu", "cuda"}
        Minibatches are made on the host, and moved there.
    """

    source: ObservedSource

    slices_dense = False

    def __init__(
        self,
        source: ObservedSource,
        dtype: np.dtype[Any],
        permutation: Ints | None = None,
        non_negative: bool = False,
        name: str = "X",
        device: str = "cpu",
    ) -> None:
        super().__init__(source, dtype, permutation, non_negative, name)
        self._kernels, self._offsets = kernels_for(device), source.offsets
        if source.offsets is not None and permutation is not None:
            self._offsets = Offsets(source.offsets.features[permutation])
        weights = source.weights
        self._weights = (
            None if weights is None else Loader(weights, dtype, permutation, name="weights")
        )

    def nothing(self) -> Any:
        """See `Loader.nothing`."""
        empty = super().nothing()
        nothing = Observed(empty, empty, empty, self.source.base_weight)
        return nothing.each(self._kernels.to_device)

    def _prepare(self, ids: Ints, read: PieceReader, by_readers: bool = False) -> Any:
        prepared: Any = super()._prepare(ids, read, by_readers)
        return prepared.each(self._kernels.to_device)

    def _dense(self, ids: Ints, read: PieceReader, by_readers: bool) -> Any:
        """Return rows with zeros where they are unknown, and their weights."""
        from somf.data.gather import gather  # Numba is slow to import
        from somf.data.unknown import split_unknown

        shape = (len(ids), self.source.shape[1])
        rows, _ = gather(read, shape, self.permutation, self.dtype, by_readers)
        if self.source.missing == "nan":
            unknown = split_unknown(rows)
        else:
            unknown = np.zeros(shape, dtype=bool)
        if self.non_negative or not np.isfinite(rows.sum()):
            self._check(rows, rows, ids)
        base = self.source.base_weight
        if self._weights is None and self._offsets is None:
            return self._without_weights(rows, unknown)
        weights: Any = (~unknown).astype(self.dtype)
        if self._weights is not None:
            weights *= _checked(self._weights.load(ids), ids)
        if self._offsets is not None:
            self._offsets.subtract(rows, weights)
        if self._weights is None:
            return self._without_weights(rows, unknown)
        return Observed(weights * rows, np.sqrt(weights) * rows, weights - base, base)

    def _without_weights(self, rows: Array, unknown: Array) -> Observed:
        """Return a minibatch whose known entries all count the same, sparse if there are few."""
        from somf.data.sparse_gather import assembled  # Numba is slow to import
        from somf.data.unknown import known_columns

        base = self.source.base_weight
        if base or self.source.known_share > DENSE_SHARE:
            return Observed(rows, rows, self._deviations(unknown), base)
        indptr, samples, values = known_columns(unknown, rows)
        known = assembled(values, samples, indptr, rows.shape)
        return Observed(known, known, _with_entries(known, np.ones_like(values)), base)

    def _deviations(self, unknown: Array) -> Any:
        """Return what weights of zero and one differ from the base, sparse if there is little."""
        base = self.source.base_weight
        if not base or 1 - self.source.known_share > DENSE_SHARE:
            return (~unknown).astype(self.dtype) - self.dtype.type(base)
        return _entries(unknown, -1, self.dtype)

    def _sparse(self, ids: Ints, X: sp.csr_array, positions: Ints) -> Any:
        """Return the entries that are stored, zeros among them, and their weights."""
        rows: Any = super()._sparse(ids, X, positions)
        weights: Any = _with_entries(rows, np.ones_like(rows.data))
        if self._weights is not None:
            weights = self._weights.load(ids)
            for a, b in ((rows.indptr, weights.indptr), (rows.indices, weights.indices)):
                if not np.array_equal(a, b):
                    raise DataError("weights must have the same entries stored as X, got others.")
            _checked(weights.data, ids)
        if self._offsets is not None:
            rows = self._offsets.subtracted(rows, weights.data)
        if self._weights is None:
            return Observed(rows, rows, weights, 0)
        values = _with_entries(rows, weights.data * rows.data)
        return Observed(values, _with_entries(rows, np.sqrt(weights.data) * rows.data), weights, 0)


def _entries(where: Array, value: float, dtype: np.dtype[Any]) -> sp.csc_array:
    """Return a sparse matrix with one value at some entries."""
    from somf.data.sparse_gather import assembled  # Numba is slow to import
    from somf.data.unknown import columns_where

    indptr, samples = columns_where(where)
    data = np.full(len(samples), value, dtype=dtype)
    return assembled(data, samples, indptr, where.shape)


def _with_entries(X: sp.csc_array, data: Array) -> sp.csc_array:
    """Return a matrix with the same entries stored, and other values."""
    from somf.data.sparse_gather import assembled  # Numba is slow to import

    return assembled(data, X.indices, X.indptr, X.shape)


def _checked(weights: Any, ids: Ints) -> Any:
    """Return weights of entries after a check."""
    if weights.min(initial=0) < 0:
        raise DataError(
            f"weights must not be negative, got one in rows {ids.min()} to {ids.max()}."
        )
    return weights
