"""The stationarity gap: a certificate for a dictionary."""

import math

import numpy as np

from somf.distributed import Communicator
from somf.errors import ScaleError
from somf.inference.coding import CodedChunk, Coder
from somf.kernels.host import to_host
from somf.kernels.observed import Observed, count_known, weighted
from somf.kernels.pairs import n_pairs, unpacked
from somf.penalties import AtomBall
from somf.typing import Array


class Gradient:
    """The gradient ∇f̄(D) of the objective, summed over samples.

    By Danskin's theorem it is (D Σααᵀ − Σxαᵀ) / n at the optimal codes. Where entries have weights,
    every feature has a matrix Σωααᵀ of its own. A penalty on atoms adds 2ρ Σω to its diagonal.

    Parameters
    ----------
    coder : Coder
        Computes the codes, to a small tolerance.
    """

    def __init__(self, coder: Coder) -> None:
        self.kernels, self.D = coder.kernels, coder.D
        self.B, self.C = (self.kernels.zeros(tuple(A.shape), A) for A in (coder.D, coder.G))
        self.n_samples = 0.0
        self.C_by_feature: Array | None = None
        self.atom_alpha = coder.atom_alpha
        self.n_known = self.kernels.zeros((len(coder.D),), coder.D)

    def add(self, chunk: CodedChunk, sample_weight: Array | None = None) -> None:
        """Add the samples of a chunk.

        Parameters
        ----------
        chunk : CodedChunk
        sample_weight : array of shape (b,), optional
            How much each sample counts, on the device.
        """
        X, code = chunk.X, chunk.code
        share = weighted(code, sample_weight)
        self.n_samples += len(code) if sample_weight is None else float(sample_weight.sum())
        if self.atom_alpha > 0:
            weight = code[:, 0] * 0 + 1 if sample_weight is None else sample_weight
            count_known(self.kernels, self.n_known, X, weight, 1.0)
        if not isinstance(X, Observed):
            self.kernels.accumulate(self.B, X, share, 1.0)
            self.kernels.accumulate(self.C, code, share, 1.0)
            return
        self.C_by_feature = self._by_feature()
        self.kernels.accumulate(self.B, X.values, share, 1.0)
        self.kernels.accumulate(self.C, code, X.base * share, 1.0)
        pairs = self.kernels.pairs(code, sample_weight)
        self.kernels.accumulate(self.C_by_feature, X.deviations, pairs, 1.0)

    def _by_feature(self) -> Array:
        p, k = self.D.shape
        if self.C_by_feature is None:
            return self.kernels.zeros((p, n_pairs(k)), self.D)
        return self.C_by_feature

    def add_ranks(self, communicator: Communicator) -> None:
        """Add the samples of all other ranks."""
        if communicator.any(self.C_by_feature is not None):
            (self.C_by_feature,) = communicator.sum(self._by_feature())
        self.B, self.C, self.n_known = communicator.sum(self.B, self.C, self.n_known)
        self.n_samples = communicator.total(self.n_samples)[0]

    def stationarity_gap(self, ball: AtomBall) -> float:
        """Return max ⟨∇f̄(D), D − D'⟩ over all dictionaries D' in the ball.

        The maximum is a sum over atoms, Σⱼ ⟨∇ⱼ, dⱼ⟩ + max ⟨−∇ⱼ, d'⟩; it is zero exactly at
        stationary points.

        Raises
        ------
        ScaleError
            If the gradient overflows.
        """
        D_C = self.D @ self.C
        if self.C_by_feature is not None:
            matrices = unpacked(self.C_by_feature, self.D.shape[1])
            D_C = D_C + (self.D[:, None] @ matrices)[:, 0]
        D_C = D_C + 2.0 * self.atom_alpha * self.n_known[:, None] * self.D
        D, gradient = to_host(self.D), to_host((D_C - self.B) / self.n_samples)
        here = np.einsum("ij,ij->j", gradient, D)
        gap = float((here + ball.support(-gradient)).sum(dtype=np.float64))
        if not math.isfinite(gap):
            raise ScaleError(
                "The gradient overflows", gradient.dtype, "X is too large. Scale it down."
            )
        return gap
