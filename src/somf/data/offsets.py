"""What is common to the entries of a sample, and to those of a feature: x ≈ mean + aᵢ + bⱼ."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from somf.data.source import Source
from somf.errors import NotFiniteError
from somf.typing import Array, Ints, Rows

SHRINKAGE = 10.0
"""Entries of offset zero that every sample and every feature has in addition to its own."""

N_SWEEPS = 2
"""Passes over the data in which the offsets of samples and of features adapt to each other."""

ENTRIES_AT_ONCE = 2**22
"""Entries that a pass reads at once."""


@dataclass(frozen=True)
class Offsets:
    """The offsets of features, from which those of any sample follow.

    Attributes
    ----------
    features : ndarray of shape (p,)
        The mean of all known entries, plus bⱼ.
    """

    features: Array

    def subtract(self, rows: Array, weights: Array) -> None:
        """Subtract all offsets from dense samples.

        Parameters
        ----------
        rows : ndarray of shape (b, p), overwritten
            With zeros where they are unknown.
        weights : ndarray of shape (b, p)
            Zero where they are unknown.
        """
        rows -= self.features
        of_samples = (weights * rows).sum(axis=1) / (weights.sum(axis=1) + SHRINKAGE)
        rows -= of_samples.astype(rows.dtype)[:, None]
        rows[weights == 0] = 0

    def subtracted(self, X: sp.csc_array, weights: Array) -> sp.csc_array:
        """Return sparse samples without offsets, entries that are not stored being unknown.

        Parameters
        ----------
        X : csc_array of shape (b, p)
        weights : ndarray
            Of the stored entries.
        """
        data = X.data - np.repeat(self.features, np.diff(X.indptr)).astype(X.dtype)
        of_samples = _shrunken_means(X.indices, data, weights, X.shape[0])
        data -= of_samples[X.indices].astype(X.dtype)
        return sp.csc_array((data, X.indices, X.indptr), shape=X.shape)

    def of_samples(self, rows: Rows, weights: Rows | None = None) -> Array:
        """Return aᵢ of samples as a source returns them.

        Parameters
        ----------
        rows : ndarray, with NaN where it is unknown, or csr_array of shape (b, p)
        weights : ndarray or csr_array of shape (b, p), optional
            How much each entry counts.

        Returns
        -------
        offsets : ndarray of shape (b,)
        """
        samples, features, entries, counts = known_entries(rows, weights)
        return _shrunken_means(samples, entries - self.features[features], counts, rows.shape[0])

    @classmethod
    def learn(
        cls,
        source: Source,
        ids: Ints,
        weights: Source | None = None,
        sample_weight: Array | None = None,
        total_of: Callable[[Array], Array] = np.asarray,
    ) -> "Offsets":
        """Return the offsets of features, from all known entries of some samples.

        Parameters
        ----------
        source : Source
        ids : ndarray of int
        weights : Source, optional
            How much each entry counts.
        sample_weight : ndarray of shape (n,), optional
            How much each row of the source counts: two copies count like one of weight 2.
        total_of : callable
            Returns the sum of an array over all ranks; by default there is one.

        Raises
        ------
        NotFiniteError
            If an entry is infinite.
        """
        p = source.shape[1]
        size = max(1, int(ENTRIES_AT_ONCE / source.entries_per_row))
        chunks = np.split(ids, range(size, len(ids), size))
        of_rows = np.ones(source.shape[0]) if sample_weight is None else sample_weight
        total, count = 0.0, 0.0
        for chunk in chunks:
            samples, _, entries, counts = _read(source, chunk, weights)
            counts = counts * of_rows[chunk][samples]
            if not np.isfinite(entries).all():
                row = int(chunk[samples[~np.isfinite(entries)][0]])
                raise NotFiniteError(f"X must be finite, got infinity in row {row}.", "X", row)
            total, count = total + float(counts @ entries), count + float(counts.sum())
        total, count = total_of(np.array([total, count])).tolist()
        mean = total / count if count > 0 else 0.0
        offsets = cls(np.full(p, mean))
        for _ in range(N_SWEEPS):
            sums, total_counts = np.zeros(p), np.zeros(p)
            for chunk in chunks:
                samples, features, entries, counts = _read(source, chunk, weights)
                left = entries - offsets.features[features]
                of_samples = _shrunken_means(samples, left, counts, len(chunk))
                counts = counts * of_rows[chunk][samples]
                sums += np.bincount(
                    features, counts * (entries - mean - of_samples[samples]), minlength=p
                )
                total_counts += np.bincount(features, counts, minlength=p)
            sums, total_counts = total_of(np.stack([sums, total_counts]))
            offsets = cls(mean + sums / (total_counts + SHRINKAGE))
        return offsets


def _read(source: Source, ids: Ints, weights: Source | None) -> tuple[Ints, Ints, Array, Array]:
    return known_entries(source.rows(ids), None if weights is None else weights.rows(ids))


def _shrunken_means(samples: Ints, entries: Array, counts: Array, n_samples: int) -> Array:
    """Return the weighted mean of the entries of every sample, with some zeros among them."""
    sums = np.bincount(samples, counts * entries, minlength=n_samples)
    return np.asarray(sums / (np.bincount(samples, counts, minlength=n_samples) + SHRINKAGE))


def known_entries(rows: Rows, weights: Rows | None = None) -> tuple[Ints, Ints, Array, Array]:
    """Return the samples, the features, the values and the weights of known entries.

    Parameters
    ----------
    rows : ndarray, with NaN where it is unknown, or csr_array of shape (b, p)
    weights : ndarray or csr_array of shape (b, p), optional
        With the same entries stored. By default ones.
    """
    if isinstance(rows, np.ndarray):
        samples, features = np.nonzero(~np.isnan(rows))
        entries = rows[samples, features].astype(np.float64)
        counts = np.ones(len(entries)) if weights is None else weights[samples, features]
        return samples, features, entries, np.asarray(counts, dtype=np.float64)
    stored = _summed(rows)
    counts = np.ones(len(stored.data)) if weights is None else _summed(weights).data
    return stored.row, stored.col, stored.data.astype(np.float64), counts.astype(np.float64)


def _summed(rows: sp.csr_array) -> sp.coo_array:
    """Return sparse rows with repeated entries added up."""
    rows = rows.copy()
    rows.sum_duplicates()
    return rows.tocoo()
