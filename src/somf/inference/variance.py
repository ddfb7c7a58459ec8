"""How much of the variation between samples their reconstructions have, and by which atoms."""

import math
from dataclasses import replace

import numpy as np

from somf.inference.coding import CodedChunk, Coder
from somf.kernels.host import to_host
from somf.kernels.observed import Observed
from somf.typing import Array, Matrix


class Variance:
    """Squared errors and squared distances from the mean, summed over samples.

    Entries of weight ω count ω times, and the mean of a feature is a weighted one. Sums over chunks
    are in double precision.

    Parameters
    ----------
    coder : Coder
    """

    def __init__(self, coder: Coder) -> None:
        self.kernels, self.D = coder.kernels, coder.D
        has_penalty = coder.pursuit is None
        self.penalty = coder.penalty if has_penalty else replace(coder.penalty, alpha=0.0)
        self.rows = coder.rows
        self.sq_error, self.sq_norm = 0.0, 0.0
        self.sums = np.zeros(len(coder.D))
        self.weights = np.zeros(len(coder.D))

    def add(self, chunk: CodedChunk) -> None:
        """Add the samples of a chunk."""
        X, n = chunk.X, len(chunk.objective)
        cost = to_host(self.penalty.value(chunk.code)).sum(dtype=np.float64)
        # The objective is half of the squared error, and the penalty.
        self.sq_error += max(2.0 * float(chunk.objective.sum(dtype=np.float64) - cost), 0.0)
        if isinstance(X, Observed):
            roots, values = X.roots, X.values
            self.weights += X.base * n + self._sums_of(X.deviations)
        else:
            roots = values = X
            self.weights += n
        norms = to_host(self.kernels.squared_norms(roots, self.rows))
        self.sq_norm += float(norms.sum(dtype=np.float64))
        self.sums += self._sums_of(values)

    def _sums_of(self, X: Matrix) -> Array:
        """Return the sum over samples of every feature."""
        sums = self.kernels.zeros((len(self.D), 1), self.D)
        ones = self.kernels.zeros((X.shape[0], 1), self.D) + 1
        self.kernels.accumulate(sums, X, ones, 1.0)
        return to_host(sums)[:, 0].astype(np.float64)

    @property
    def total(self) -> float:
        """Σ‖x − x̄‖²; NaN if all samples are the same."""
        is_known = self.weights > 0
        of_means = (self.sums[is_known] ** 2 / self.weights[is_known]).sum()
        total = self.sq_norm - float(of_means)
        return total if total > 0 else math.nan

    @property
    def explained(self) -> float:
        """One less Σ‖x − Dα‖² / Σ‖x − x̄‖²; NaN if all samples are the same."""
        return 1.0 - self.sq_error / self.total

    @property
    def error(self) -> float:
        """‖X − codes Dᵀ‖, over known entries."""
        return math.sqrt(self.sq_error)

    @property
    def relative_error(self) -> float:
        """√(Σ‖x − Dα‖² / Σ‖x‖²); NaN if all samples are zero."""
        return math.sqrt(self.sq_error / self.sq_norm) if self.sq_norm > 0 else math.nan


class AtomShares:
    """The share of every atom in what reconstructions explain of the variation between samples.

    With samples and codes less their means, Σ‖x‖² − Σ‖x − Dα‖² is the sum over atoms of
    Σ αⱼ (2 dⱼᵀx − dⱼᵀDα). For orthonormal atoms with αⱼ = dⱼᵀx this is Σ αⱼ², the variance of a
    principal component. Sums over chunks are in double precision.

    Parameters
    ----------
    coder : Coder
    """

    def __init__(self, coder: Coder) -> None:
        self.kernels, self.D, self.rows = coder.kernels, coder.D, coder.rows
        self.G = to_host(coder.G).astype(np.float64)
        k = len(self.G)
        self.of_samples, self.sums, self.C = np.zeros(k), np.zeros(k), np.zeros((k, k))
        self.n_samples = 0
        self.is_known = True

    def add(self, chunk: CodedChunk) -> None:
        """Add the samples of a chunk; unknown entries leave all shares unknown."""
        if isinstance(chunk.X, Observed):
            self.is_known = False
            return
        code = to_host(chunk.code).astype(np.float64)
        self.of_samples += (code * to_host(self.kernels.correlate(chunk.X, self.D, self.rows))).sum(
            axis=0
        )
        self.sums += code.sum(axis=0)
        self.C += code.T @ code
        self.n_samples += len(code)

    def of(self, variance: Variance) -> Array | None:
        """Return the shares in the variation of the same samples, of shape (k,), if known."""
        if not self.is_known:
            return None
        mean = variance.sums / self.n_samples @ to_host(self.D).astype(np.float64)
        C = self.C - np.outer(self.sums, self.sums) / self.n_samples
        explained = 2.0 * (self.of_samples - self.sums * mean) - (C * self.G).sum(axis=0)
        return np.asarray(explained / variance.total)
