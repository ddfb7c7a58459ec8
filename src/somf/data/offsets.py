"""What is common to the entries of a sample, and to those of a feature: x ≈ mean + aᵢ + bⱼ."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from somf.data.source import Source
from somf.typing import Array, Ints, Matrix, Rows

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

    def subtract(self, rows: Array, unknown: Array) -> None:
        """Subtract all offsets from dense samples.

        Parameters
        ----------
        rows : ndarray of shape (b, p), overwritten
            With zeros where they are unknown.
        unknown : ndarray of bool of shape (b, p)
        """
        rows -= self.features
        rows[unknown] = 0
        counts = (~unknown).sum(axis=1) + SHRINKAGE
        rows -= (rows.sum(axis=1) / counts).astype(rows.dtype)[:, None]
        rows[unknown] = 0

    def subtracted(self, X: sp.csc_array) -> sp.csc_array:
        """Return sparse samples without offsets, entries that are not stored being unknown."""
        data = X.data - np.repeat(self.features, np.diff(X.indptr)).astype(X.dtype)
        counts = np.bincount(X.indices, minlength=X.shape[0]) + SHRINKAGE
        of_samples = np.bincount(X.indices, data, minlength=X.shape[0]) / counts
        data -= of_samples[X.indices].astype(X.dtype)
        return sp.csc_array((data, X.indices, X.indptr), shape=X.shape)

    def of_samples(self, rows: Rows) -> Array:
        """Return aᵢ of samples as a source returns them.

        Parameters
        ----------
        rows : ndarray, with NaN where it is unknown, or csr_array of shape (b, p)

        Returns
        -------
        offsets : ndarray of shape (b,)
        """
        samples, features, entries = known_entries(rows)
        counts = np.bincount(samples, minlength=rows.shape[0]) + SHRINKAGE
        left = entries - self.features[features]
        return np.asarray(np.bincount(samples, left, minlength=rows.shape[0]) / counts)

    @classmethod
    def learn(cls, source: Source, ids: Ints) -> "Offsets":
        """Return the offsets of features, from all known entries of some samples.

        Parameters
        ----------
        source : Source
        ids : ndarray of int
        """
        p = source.shape[1]
        size = max(1, int(ENTRIES_AT_ONCE / source.entries_per_row))
        chunks = np.split(ids, range(size, len(ids), size))
        total, count = 0.0, 0
        for chunk in chunks:
            _, _, entries = known_entries(source.rows(chunk))
            total, count = total + float(entries.sum(dtype=np.float64)), count + len(entries)
        mean = total / max(count, 1)
        offsets = cls(np.full(p, mean))
        for _ in range(N_SWEEPS):
            sums, counts = np.zeros(p), np.full(p, SHRINKAGE)
            for chunk in chunks:
                rows = source.rows(chunk)
                samples, features, entries = known_entries(rows)
                left = entries - mean - offsets.of_samples(rows)[samples]
                sums += np.bincount(features, left, minlength=p)
                counts += np.bincount(features, minlength=p)
            offsets = cls(mean + sums / counts)
        return offsets


def known_entries(rows: Rows | Matrix) -> tuple[Ints, Ints, Array]:
    """Return the samples, the features and the values of known entries."""
    if isinstance(rows, np.ndarray):
        samples, features = np.nonzero(~np.isnan(rows))
        return samples, features, rows[samples, features]
    stored = rows.tocoo()
    return stored.row, stored.col, stored.data
