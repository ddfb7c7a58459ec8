"""One iteration of the algorithm, and nothing else."""

import logging
import math

import numpy as np

from somf.algorithm.config import AUTO, Config
from somf.algorithm.dictionary import Dictionary
from somf.algorithm.masks import BernoulliMasks, BlockMasks, Masks
from somf.algorithm.regression import BlockGrams, GramCache, Quadratic, Regression, StoredGrams
from somf.algorithm.schedule import MASKS_PER_LOOK, is_look, tolerance
from somf.algorithm.state import SampleMemory, State
from somf.algorithm.surrogate import IncrementalSurrogate, OnlineSurrogate, Surrogate
from somf.kernels import Kernels, kernels_for
from somf.kernels.host import to_host
from somf.typing import Array, Ints, Matrix

logger = logging.getLogger("somf")

STEPS_UNWATCHED = 64
"""Iterations on an asynchronous device after which its results are looked at."""


class Solver:
    """Subsampled online matrix factorization (Algorithm 1 of the paper), one step at a time.

    Parameters
    ----------
    config : Config
    state : State
        On the device of the configuration. Changed by every step.
    """

    def __init__(self, config: Config, state: State) -> None:
        self.config, self.state = config, state
        self.kernels = kernels_for(config.device)
        self._unwatched: list[Array] = []
        self._assemble()

    def _assemble(self) -> None:
        """Put together the parts of an iteration, for the blocks that the state has now."""
        config, state, kernels = self.config, self.state, self.kernels
        masks = self.masks = masks_for(config, len(state.D), state.seed)
        if self.is_all_seen:
            masks.unite()
        self.gram_cache = gram_cache_for(config, state, kernels, masks)
        self.regression = Regression(
            config.estimator_in_use, config.learning_rate, state, kernels, self.gram_cache
        )
        self.surrogate: Surrogate = (
            OnlineSurrogate(state, kernels, config.learning_rate)
            if config.surrogate == "online"
            else IncrementalSurrogate(state, kernels)
        )
        self.dictionary = Dictionary(state, kernels, config.ball, masks.blocks)

    def step(self, X: Matrix, slots: Ints | None = None) -> None:
        """Do one iteration.

        Parameters
        ----------
        X : array or csc_array of shape (b, p)
            A minibatch on the device, features in the order of ``state.permutation``.
        slots : ndarray of shape (b,), optional
            Where in ``state.memory`` the samples are; without it they count as new and are not
            remembered.
        """
        with self.kernels.without_gradients():
            self._iterate(X, slots)

    def _iterate(self, X: Matrix, slots: Ints | None) -> None:
        state = self.state
        if self.config.reduction == AUTO and self.reduction > 1.0 and is_look(state.n_iter):
            self._lower_reduction(X)
        memory = state.memory
        if memory is None or slots is None:
            slots = np.arange(X.shape[0])
            memory = self.blank_memory(slots)

        subset = self.masks.draw(state.n_iter, self.reduction)
        if self.reduction > 1.0:
            problem = self.regression.estimate(X, subset, memory, slots)
        else:
            problem = self.regression.of_subset(X, subset)  # which is all there is
        old_code = None
        if self.surrogate.needs_old_codes:
            old_code = self.kernels.take(memory.code, slots)
        code = self.kernels.take(memory.code, slots)
        objective = self._solve(problem, code, self.config.code_tol)
        self._unwatched.append(objective)
        if not self.kernels.IS_ASYNCHRONOUS or len(self._unwatched) == STEPS_UNWATCHED:
            self.check()
        self.kernels.put(memory.code, slots, code)
        self.surrogate.add(X, code, old_code)
        self.dictionary.update(subset)
        self.gram_cache.dictionary_changed(subset)
        self.dictionary.measure(subset.blocks, self.gram_cache.grams_of_blocks)

        state.n_iter += 1
        state.n_samples_seen += len(code)
        self.kernels.mark_used(state.last_used, code, state.n_samples_seen)
        if self.dictionary.replace_unused(X, objective):
            self.refresh()

    def _solve(self, problem: Quadratic, code: Array, tol: float) -> Array:
        """Move codes to the solution of their problem; return its objective."""
        objective, _ = self.kernels.solve_codes(
            problem.grams,
            problem.beta,
            problem.sq_norm,
            self.config.penalty,
            tol,
            code,
        )
        return objective

    @property
    def reduction(self) -> float:
        """The reduction of the next iteration."""
        lowered = math.ldexp(self.masks.reduction, -self.state.n_halvings)
        # Between 1 and 2 every other mask would be everything.
        return lowered if self.state.n_halvings == 0 or lowered >= 2.0 else 1.0

    @property
    def is_all_seen(self) -> bool:
        """Whether the reduction has been lowered until nothing was left of it."""
        return self.state.n_halvings > 0 and self.reduction == 1.0

    def _lower_reduction(self, X: Matrix) -> None:
        """Halve the reduction until codes from a part of the features are good enough.

        At the start there are no half measures: nothing between all features and few of them was
        reliably faster. Without a penalty, codes from a part fit the noise of that part.
        """
        state, before = self.state, self.reduction
        tolerable = tolerance(state.n_samples_seen)
        is_given_up = self.config.penalty.alpha == 0
        while self.reduction > 1.0 and (is_given_up or self.extra_cost(X, tolerable) > tolerable):
            state.n_halvings += 1
            is_given_up = is_given_up or state.n_iter == 0
        if self.reduction < before:
            logger.info("reduction %.3g from iteration %d on", self.reduction, state.n_iter)
        if self.reduction == 1.0:
            state.forget_blocks(keeps_codes=self.surrogate.needs_old_codes)
            self._assemble()

    def extra_cost(self, X: Matrix, precision: float) -> float:
        """Return by how much more codes from a mask cost than those from all features, relatively.

        Parameters
        ----------
        X : array or csc_array of shape (b, p)
            A minibatch, as in `step`.
        precision : float
            What matters; codes are solved more tightly than that.

        Returns
        -------
        extra : float
            The mean over the next masks.
        """
        tol = min(self.config.code_tol, precision / 10)
        everything = self.regression.of_everything(X)
        best = float(self._solve(everything, self._no_code(X), tol).sum())
        costs = []
        for i in range(MASKS_PER_LOOK):
            code, subset = self._no_code(X), self.masks.draw(self.state.n_iter + i, self.reduction)
            self._solve(self.regression.of_subset(X, subset), code, tol)
            costs.append(float(everything.objective(code, self.config.penalty).sum()))
        return (sum(costs) / len(costs) - best) / best if best > 0 else 0.0

    def _no_code(self, X: Matrix) -> Array:
        return self.kernels.zeros((X.shape[0], self.config.n_components), self.state.C)

    def check(self) -> None:
        """Raise ValueError if numbers have overflowed since the last look at them.

        On an asynchronous device a look at every step would make it wait for the host.
        """
        objectives, self._unwatched = self._unwatched, []
        if not objectives:
            return
        objective = to_host(self.kernels.concatenate(objectives, axis=0))
        if not np.isfinite(objective).all():
            raise ValueError(
                f"The objective overflows {objective.dtype}: X is too large. Scale it down, or "
                "choose dtype='float64'."
            )

    def refresh(self) -> None:
        """Bring up to date what is known of the dictionary after it has changed anywhere."""
        self.gram_cache.recompute()
        everything = range(len(self.masks.blocks))
        self.dictionary.measure(everything, self.gram_cache.grams_of_blocks)

    def blank_memory(self, ids: Ints) -> SampleMemory:
        """Return the memory of samples that have never been seen."""

        def zeros(*shape: int) -> Array:
            return self.kernels.store_zeros((len(ids), *shape), self.state.C)

        return SampleMemory.blank(ids, self.config.n_components, self.remembered_gram_size, zeros)

    @property
    def remembered_gram_size(self) -> int:
        """How many numbers a sample remembers of its Gram matrix."""
        averages = self.config.estimator_in_use == "averaged" and not self.is_all_seen
        return self.gram_cache.statistic_size if averages else 0


def masks_for(config: Config, n_features: int, seed: int) -> Masks:
    """Return the sequence of masks that a configuration asks for."""
    kind = BlockMasks if config.masks == "blocks" else BernoulliMasks
    return kind(n_features, min(config.strongest_reduction, float(n_features)), seed)


def gram_cache_for(config: Config, state: State, kernels: Kernels, masks: Masks) -> GramCache:
    """Return the account of DᵀD that suits the masks."""
    if config.masks == "blocks":
        return BlockGrams(state, kernels, masks.blocks)
    keep_all = config.estimator_in_use == "exact" or config.reduction == AUTO
    return StoredGrams(state, kernels, keep_all)
