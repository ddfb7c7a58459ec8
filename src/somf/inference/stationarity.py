"""The stationarity gap: a certificate for a dictionary."""

import math

import numpy as np

from somf.distributed import Communicator
from somf.errors import ScaleError
from somf.inference.coding import CodedChunk, Coder
from somf.kernels.host import to_host
from somf.penalties import AtomBall


class Gradient:
    """The gradient ∇f̄(D) of the objective, summed over samples.

    By Danskin's theorem it is (D Σααᵀ − Σxαᵀ) / n at the optimal codes.

    Parameters
    ----------
    coder : Coder
        Computes the codes, to a small tolerance.
    """

    def __init__(self, coder: Coder) -> None:
        self.kernels, self.D = coder.kernels, coder.D
        self.B, self.C = (self.kernels.zeros(tuple(A.shape), A) for A in (coder.D, coder.G))
        self.n_samples = 0

    def add(self, chunk: CodedChunk) -> None:
        """Add the samples of a chunk."""
        self.kernels.accumulate(self.B, chunk.X, chunk.code, 1.0)
        self.kernels.accumulate(self.C, chunk.code, chunk.code, 1.0)
        self.n_samples += len(chunk.code)

    def add_ranks(self, communicator: Communicator) -> None:
        """Add the samples of all other ranks."""
        self.B, self.C = communicator.sum(self.B, self.C)
        self.n_samples = int(communicator.total(self.n_samples)[0])

    def stationarity_gap(self, ball: AtomBall) -> float:
        """Return max ⟨∇f̄(D), D − D'⟩ over all dictionaries D' in the ball.

        The maximum is a sum over atoms, Σⱼ ⟨∇ⱼ, dⱼ⟩ + max ⟨−∇ⱼ, d'⟩; it is zero exactly at
        stationary points.

        Raises
        ------
        ScaleError
            If the gradient overflows.
        """
        D, gradient = to_host(self.D), to_host((self.D @ self.C - self.B) / self.n_samples)
        here = np.einsum("ij,ij->j", gradient, D)
        gap = float((here + ball.support(-gradient)).sum(dtype=np.float64))
        if not math.isfinite(gap):
            raise ScaleError(
                "The gradient overflows", gradient.dtype, "X is too large. Scale it down."
            )
        return gap
