"""A dictionary brought to a stationary point, on samples that are in memory.

A pass finds the codes of all samples, which gives the objective, and then the atoms that suit these
codes. Such alternating minimisation never makes the objective worse, but takes hundreds of passes
to the last digits. So the atoms of two passes are extrapolated, with the momentum of Nesterov. When
the objective rises, the momentum starts again from the atoms before (Ang and Gillis, 2019). This
takes a fraction of the passes.

It complements the online fit: that one finds good atoms with little computation, but with the noise
of its minibatches; this one removes the noise, but from bad atoms it ends in worse minima.
"""

import logging
import math
from dataclasses import dataclass

import numpy as np

from somf.kernels import Kernels, kernels_for
from somf.kernels.cpu.threads import threads
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Rows

logger = logging.getLogger("somf")

SWEEPS = 5
"""Gauss–Seidel sweeps over the atoms in a pass. They cost little next to the codes."""

INTERVAL = 5
"""Passes over which the objective must improve, so that no single pass ends a refinement."""

ROUNDING = 1e-8
"""Relative rise of the objective that is rounding, and not a reason to start again."""


@dataclass(frozen=True)
class Refined:
    """A dictionary, and the codes of the samples on it.

    Attributes
    ----------
    D : ndarray of shape (p, k)
    code : ndarray of shape (n, k)
    objective : float
        The mean over samples.
    n_passes : int
    """

    D: Array
    code: Array
    objective: float
    n_passes: int


def refine(
    X: Rows,
    D: Array,
    penalty: CodePenalty,
    ball: AtomBall,
    *,
    tol: float,
    max_passes: int,
    n_threads: int | None = None,
) -> Refined:
    """Improve a dictionary until the objective of all samples no longer changes.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, p)
        Finite; it is not copied, and need not be of the type of D.
    D : ndarray of shape (p, k)
        Where to begin, of the type in which codes are computed; not changed.
    penalty : CodePenalty
    ball : AtomBall
    tol : float
        The relative improvement of the objective per pass, over five passes, at which to end.
    max_passes : int
        Passes, at most.
    n_threads : int, optional
        Threads that find codes; by default the cores that the process may use. Products with a
        sparse X take one.
    """
    with threads(n_threads):
        return _Refinement(X, D, penalty, ball).run(tol, max_passes)


class _Refinement:
    """The samples of a refinement, with their latest codes, from which the next ones start."""

    def __init__(self, X: Rows, D: Array, penalty: CodePenalty, ball: AtomBall) -> None:
        self.kernels: Kernels = kernels_for("cpu")
        self.X, self.D, self.penalty, self.ball = X, D, penalty, ball
        self.sq_norm = squared_norms(X).astype(D.dtype)
        self.code = np.zeros((X.shape[0], D.shape[1]), D.dtype)

    def run(self, tol: float, max_passes: int) -> Refined:
        """See `refine`."""
        # In double precision, of which extrapolations leave enough digits.
        before = D = self.ball.normalise(self.D.astype(np.float64))
        lowest, momentum, n_passes = math.inf, 1.0, 0
        objectives: list[float] = []
        while n_passes < max_passes:
            objective = self._find_codes(D)
            n_passes += 1
            if objective > lowest * (1 + ROUNDING):
                D, momentum, lowest = before, 1.0, math.inf
                continue
            lowest = objective
            objectives.append(objective)
            if self._has_converged(objectives, tol):
                break
            after = self._better_atoms(D)
            faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            D = self.ball.normalise(after + (momentum - 1) / faster * (after - before))
            before, momentum = after, faster
        else:
            # The last atoms have no codes yet.
            D, lowest = before, self._find_codes(before)
        logger.info("refined in %d passes to an objective of %.6g", n_passes, lowest)
        return Refined(D.astype(self.D.dtype), self.code, lowest, n_passes)

    @staticmethod
    def _has_converged(objectives: list[float], tol: float) -> bool:
        if len(objectives) <= INTERVAL:
            return False
        return objectives[-INTERVAL - 1] - objectives[-1] <= INTERVAL * tol * objectives[-1]

    def _find_codes(self, D: Array) -> float:
        """Move codes to the solution for some atoms; return the mean objective."""
        atoms = np.ascontiguousarray(D, dtype=self.D.dtype)
        beta = np.ascontiguousarray(self.X @ atoms, dtype=self.D.dtype)
        objective, _ = self.kernels.solve_codes(
            (atoms.T @ atoms)[None], beta, self.sq_norm, self.penalty, 0.0, self.code
        )
        return float(objective.mean(dtype=np.float64))

    def _better_atoms(self, D: Array) -> Array:
        """Return the atoms that suit the codes, on the border of the ball.

        To scale an atom up, and its codes down, changes no reconstruction and raises no penalty.
        """
        B = np.ascontiguousarray(self.X.T @ self.code, dtype=np.float64)
        C = (self.code.T @ self.code).astype(np.float64)
        better, budget = np.array(D), np.ones(len(C))
        for _ in range(SWEEPS):
            self.kernels.update_atoms(better, B, C, (slice(0, len(D)),), budget, self.ball)
        return self.ball.normalise(better)


def squared_norms(X: Rows) -> Array:
    """Return the squared norms of samples, in double precision.

    Parameters
    ----------
    X : ndarray or sparse array of shape (n, p)

    Returns
    -------
    squared_norms : ndarray of shape (n,)
    """
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    return np.asarray(X.multiply(X).sum(axis=1, dtype=np.float64)).ravel()
