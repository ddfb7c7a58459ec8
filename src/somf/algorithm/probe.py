"""How much codes from a part of the features cost: what ``reduction="auto"`` decides by."""

from somf.algorithm.config import Config
from somf.algorithm.masks import Masks, Subset
from somf.algorithm.regression import Quadratic
from somf.algorithm.schedule import MASKS_PER_PROBE
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
    masks : Masks
        With the strongest reduction, whether the fit uses it at present or not.
    """

    def __init__(
        self,
        config: Config,
        state: State,
        kernels: Kernels,
        communicator: Communicator,
        masks: Masks,
    ) -> None:
        self.config, self.state, self.kernels = config, state, kernels
        self.communicator, self.masks = communicator, masks

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
        for i in range(MASKS_PER_PROBE):
            subset = self.masks.draw(self.state.n_iter + i, self.masks.reduction)
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
