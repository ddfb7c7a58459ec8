"""Whether the surrogate is out of date, or noisy: how much of the past is worth remembering.

The surrogate is an average over the last N samples, roughly. It has two faults. Its codes are those
of atoms of some time ago, which is worse the larger N is. And it has seen N samples only, which is
worse the smaller N is. Both are differences of objectives:

- *Staleness* is measured. Some samples, the witnesses, are kept with their codes until N further
  samples have been seen, and are then coded again. The difference of the objectives of both codes,
  on the atoms of now, is what a code loses while it is remembered.
- *Noise* follows from the residuals ½‖x − Dα‖². Atoms that were fitted to N samples, with k numbers
  in each code, are closer to these samples than to others by a share of about k/N of them. Where M
  samples are the most that may be remembered, more memory could remove k (1/N − 1/M) of it.

N grows slowly while the staleness is more than a share of the noise, and fast while it is less. If
it is several times the noise, as after a change of the stream, N falls to the least that it may be.
"""

import numpy as np
import scipy.sparse as sp

from somf.algorithm.config import Config
from somf.algorithm.forgetting import N_WITNESSES, Adaptive, Pace
from somf.algorithm.regression import Quadratic, Regression
from somf.algorithm.state import State
from somf.distributed import Communicator
from somf.kernels import Kernels
from somf.kernels.observed import Batch, Observed
from somf.typing import Array, Matrix

BALANCE = 0.35
"""The staleness that is tolerated, as a share of the noise (see docs/defaults.md)."""

ABRUPT = 4.0
"""With a staleness of so many times the noise, as little is remembered as may be: the samples have
changed, or the atoms have."""

LEAST_BATCHES = 2
"""Minibatches between two measurements, at least."""

PRECISION = 0.1
"""Relative duality gap of the codes of witnesses, as a share of `code_tol`."""


class Staleness:
    """Measures the staleness of the surrogate whenever its samples have been replaced.

    Parameters
    ----------
    config : Config
    state : State
        Has the witnesses, the same on all ranks.
    kernels : Kernels
    communicator : Communicator
    forgetting : Adaptive
    """

    def __init__(
        self,
        config: Config,
        state: State,
        kernels: Kernels,
        communicator: Communicator,
        forgetting: Adaptive,
    ) -> None:
        self.config, self.state, self.kernels = config, state, kernels
        self.communicator, self.forgetting = communicator, forgetting

    def follow(self, X: Batch, regression: Regression, batch_size: int) -> None:
        """Measure the staleness, set the pace and take new witnesses, if it is time.

        Parameters
        ----------
        X : array, csc_array or Observed of shape (m, p)
            The samples of the latest minibatch on this rank.
        regression : Regression
        batch_size : int
            Its samples on all ranks.
        """
        state = self.state
        age = state.n_samples_seen - state.compared_at
        if state.compared_at and age < max(state.n_remembered, LEAST_BATCHES * batch_size):
            return
        if state.compared_at:
            # All ranks have measured the same, up to rounding.
            self._set_pace(*self.communicator.total(*self.measure(regression)))
        state.compared_at = state.n_samples_seen
        self._take(X)
        problem = regression.of_all_features(self._witnesses())
        state.witness_codes = self.kernels.zeros(tuple(problem.beta.shape), state.C)
        self._solve(problem, state.witness_codes)

    def _set_pace(self, stale: float, noise: float) -> None:
        if stale == noise == 0:  # empty samples tell nothing
            return
        self.state.pace = Pace.SLOW if stale > BALANCE * noise else Pace.FAST
        if stale > ABRUPT * noise:
            self.forgetting.forget_most()

    def measure(self, regression: Regression) -> tuple[float, float]:
        """Return the staleness and the noise of the surrogate, as sums over the witnesses."""
        state, penalty = self.state, self.config.penalty
        problem, code = regression.of_all_features(self._witnesses()), state.witness_codes
        stale = problem.objective(code, penalty)
        best = self._solve(problem, code)
        residual = float((best - penalty.value(code)).sum())
        share = self.config.n_components * (1 / state.n_remembered - 1 / self.forgetting.most)
        return float((stale - best).sum()), residual * share / self._known_share()

    def _take(self, X: Batch) -> None:
        """Let the first samples of a minibatch be the witnesses, on all ranks."""
        state = self.state
        if isinstance(X, Observed):
            state.witnesses = self._first(X.values)
            state.witness_weights = self._first(X.deviations) + X.base
        else:
            state.witnesses = self._first(X)

    def _first(self, X: Matrix) -> Array:
        """Return the first samples of a minibatch, of all ranks; its memory is used again."""
        if isinstance(X, sp.csc_array):
            own = np.ascontiguousarray(X[:N_WITNESSES].toarray())
        else:
            own = self.kernels.take(X, np.arange(min(N_WITNESSES, X.shape[0])))
        if self.communicator.size == 1:
            return own
        ends = np.cumsum(self.communicator.tell(len(own)))
        stop = min(int(ends[-1]), N_WITNESSES)
        start = min(int(ends[self.communicator.rank]) - len(own), stop)
        rows = self.kernels.zeros((stop, X.shape[1]), self.state.C)
        rows[start : start + len(own)] = own[: stop - start]
        return self.communicator.sum(rows)[0]

    def _witnesses(self) -> Batch:
        """Return the witnesses as a minibatch."""
        state = self.state
        if not self.config.has_weights:
            return state.witnesses
        weights = state.witness_weights
        roots = state.witnesses / (weights + (weights == 0)) ** 0.5
        return Observed(state.witnesses, roots, weights - state.base_weight, state.base_weight)

    def _known_share(self) -> float:
        """Return which part of the entries is known: atoms are fitted to as many fewer samples."""
        if not self.config.has_weights:
            return 1.0
        m, p = self.state.witnesses.shape
        n_known = float((self.state.witness_weights != 0).sum())
        return n_known / (m * p) if n_known else 1.0

    def _solve(self, problem: Quadratic, code: Array) -> Array:
        """Move codes to the solution of their problem; return its objective."""
        tol = PRECISION * self.config.code_tol
        objective, _ = self.kernels.solve_codes(*problem, self.config.penalty, tol, code)
        return objective
