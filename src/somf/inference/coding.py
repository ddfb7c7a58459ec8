"""What can be said of a fixed dictionary: codes, objective, stationarity gap."""

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from somf.data import Loader
from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints, Matrix


class Coder:
    """Codes samples on a fixed dictionary, a chunk at a time.

    Parameters
    ----------
    kernels : Kernels
    D : ndarray of shape (p, k)
    penalty : CodePenalty
    tol : float
        Codes are solved to a duality gap of at most `tol` times their objective (or to what the
        floating type can resolve).
    """

    def __init__(self, kernels: Kernels, D: Array, penalty: CodePenalty, tol: float) -> None:
        self.kernels, self.D, self.penalty, self.tol = kernels, D, penalty, tol
        self.rows = (slice(0, len(D)),)
        self.G = kernels.gram(D, self.rows)

    def code(self, X: Matrix) -> tuple[Array, Array]:
        """Return the codes of a chunk.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)

        Returns
        -------
        code : ndarray of shape (b, k)
        objective : ndarray of shape (b,)
            ½‖x − Dα‖² + λΩ(α) of every sample.
        """
        beta = self.kernels.correlate(X, self.D, self.rows)
        sq_norm = self.kernels.squared_norms(X, self.rows)
        code = self.kernels.zeros((X.shape[0], self.G.shape[0]), self.G)
        objective, gap = self.kernels.solve_codes(
            self.G[None], beta, sq_norm, self.penalty, self.tol, code
        )
        objective, gap, sq_norm = to_host(objective), to_host(gap), to_host(sq_norm)
        resolution = 100 * np.finfo(gap.dtype).eps * sq_norm
        n_open = int(np.count_nonzero(gap > self.tol * objective + resolution))
        if n_open:
            warnings.warn(
                f"{n_open} of {len(code)} codes did not reach a relative duality gap of "
                f"{self.tol:g}. A larger tol or alpha will help.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return code, objective

    def codes(self, loader: Loader, ids: Ints) -> Iterator[tuple[Ints, Matrix, Array, Array]]:
        """Yield (positions, X, code, objective) for the given samples, in order."""
        for positions, X in loader.chunks(ids, len(self.G)):
            yield positions, X, *self.code(X)

    def objective(self, loader: Loader, ids: Ints) -> float:
        """Return the mean objective of the given samples."""
        total = sum(
            float(objective.sum(dtype=np.float64)) for _, _, _, objective in self.codes(loader, ids)
        )
        return total / len(ids)

    def stationarity_gap(self, loader: Loader, ids: Ints, ball: AtomBall) -> float:
        """Return the stationarity gap on the given samples; see `Gradient`."""
        gradient = Gradient(self)
        for _, X, code, _ in self.codes(loader, ids):
            gradient.add(X, code)
        return gradient.stationarity_gap(ball)


class Gradient:
    """∇f̄(D) of the objective, summed up over samples.

    By Danskin's theorem it is (D Σααᵀ − Σxαᵀ) / n at the optimal codes.

    Parameters
    ----------
    coder : Coder
        What computes the codes, to a small tolerance.
    """

    def __init__(self, coder: Coder) -> None:
        self.kernels, self.D = coder.kernels, coder.D
        self.B, self.C = (self.kernels.zeros(tuple(A.shape), A) for A in (coder.D, coder.G))
        self.n_samples = 0

    def add(self, X: Matrix, code: Array) -> None:
        """Take a chunk into account.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)
        code : ndarray of shape (b, k)
        """
        self.kernels.accumulate(self.B, X, code, 1.0)
        self.kernels.accumulate(self.C, code, code, 1.0)
        self.n_samples += len(code)

    def stationarity_gap(self, ball: AtomBall) -> float:
        """Return max ⟨∇f̄(D), D − D'⟩ over all dictionaries D' in the ball.

        The maximum is a sum over atoms, Σⱼ ⟨∇ⱼ, dⱼ⟩ + max ⟨−∇ⱼ, d'⟩; it is zero exactly at
        stationary points.
        """
        D, gradient = to_host(self.D), to_host((self.D @ self.C - self.B) / self.n_samples)
        here = np.einsum("ij,ij->j", gradient, D)
        return float((here + ball.support(-gradient)).sum(dtype=np.float64))
