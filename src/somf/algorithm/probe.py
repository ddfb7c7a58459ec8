"""How much codes from a part of the features cost: what ``reduction="auto"`` decides by."""

import math

from somf.algorithm.config import AUTO, Config
from somf.algorithm.masks import Subset, masks_for
from somf.algorithm.phases import Phase
from somf.algorithm.regression import Quadratic
from somf.algorithm.schedule import (
    HOPELESS,
    HYSTERESIS,
    MASKS_PER_PROBE,
    PARTIAL,
    can_pay,
    is_probe,
    tolerance,
)
from somf.algorithm.state import State
from somf.distributed import Communicator
from somf.kernels import Kernels
from somf.kernels.observed import Batch, Observed, quadratics
from somf.typing import Array


class Probe:
    """Codes the samples of a minibatch twice, from all features and from those of a mask.

    Parameters
    ----------
    config : Config
    state : State
    kernels : Kernels
    communicator : Communicator
    """

    def __init__(
        self, config: Config, state: State, kernels: Kernels, communicator: Communicator
    ) -> None:
        self.config, self.state, self.kernels = config, state, kernels
        self.communicator = communicator

    def is_due(self) -> bool:
        """Return whether to look for a better rung before the next iteration.

        A fit that averages codes does not go down: it has forgotten its averages.
        """
        state, config = self.state, self.config
        if config.reduction != AUTO or state.phase != Phase.ONLINE or not is_probe(state.n_iter):
            return False
        may_go_down = not state.is_settled and config.estimator_in_use != "averaged"
        return state.rung < PARTIAL or may_go_down

    def direction(self, X: Batch, batch_size: int) -> int:
        """Return where the cheapest rung is on which codes are good enough.

        Without a penalty, codes from a part of the features fit the noise of that part.

        Parameters
        ----------
        X : array, csc_array or Observed of shape (m, p)
            A minibatch, as in `Solver.step`.
        batch_size : int
            Its samples on all ranks.

        Returns
        -------
        direction : int
            1 if it is higher on the ladder, -1 if it is lower, else 0.
        """
        state, tolerated = self.state, tolerance(self.state.n_samples_seen)
        may_mask = self.config.penalty.alpha > 0 and can_pay(self.config.n_components, batch_size)
        extra = self.extra_cost(X, tolerated) if may_mask else math.inf
        if extra > HOPELESS * tolerated:
            state.is_settled = 1
        if state.rung < PARTIAL:
            return int(extra > tolerated)
        return -int(extra <= HYSTERESIS * tolerated)

    def extra_cost(self, X: Batch, precision: float) -> float:
        """Return by how much codes from a mask cost more than those from all features.

        Parameters
        ----------
        X : array, csc_array or Observed of shape (b, p)
            A minibatch, as in `Solver.step`.
        precision : float
            The difference that matters; codes are solved ten times as tightly.

        Returns
        -------
        extra : float
            Relative to the cost of codes from all features; the mean over the next masks.
        """
        tol, penalty = min(self.config.code_tol, precision / 10), self.config.penalty
        everything = self._quadratic(X, Subset((slice(0, len(self.state.D)),), (), 1.0))
        costs = [float(everything.objective(self._codes(everything, tol), penalty).sum())]
        # Of the strongest reduction, whether the fit uses it at present or not.
        masks = masks_for(self.config, len(self.state.D), self.state.seed)
        for i in range(MASKS_PER_PROBE):
            subset = masks.draw(self.state.n_iter + i, masks.reduction)
            code = self._codes(self._quadratic(X, subset), tol)
            costs.append(float(everything.objective(code, penalty).sum()))
        best, *others = self.communicator.total(*costs)
        return (sum(others) / len(others) - best) / best if best > 0 else 0.0

    def _quadratic(self, X: Batch, subset: Subset) -> Quadratic:
        """Return the problems of codes from a subset of the features.

        The Gram matrix of the subset is computed, since a fit that looks at all features does not
        keep it.
        """
        D, rows = subset.of_features(self.state.D)
        X = X.each(subset.of_samples) if isinstance(X, Observed) else subset.of_samples(X)
        gram, per_entry = self.kernels.gram, self.config.per_entry
        parts = quadratics(self.kernels, X, D, rows, lambda: gram(D, rows)[None], per_entry)
        return Quadratic(*(subset.scale * part for part in parts))

    def _codes(self, problem: Quadratic, tol: float) -> Array:
        code = self.kernels.zeros(tuple(problem.beta.shape), self.state.C)
        self.kernels.solve_codes(*problem, self.config.penalty, tol, code)
        return code
