"""One iteration of the algorithm, and nothing else."""

import logging
from typing import Any
from zlib import crc32

import numpy as np

from somf.algorithm.config import AUTO, Config
from somf.algorithm.dictionary import Dictionary
from somf.algorithm.drift import Drift
from somf.algorithm.forgetting import Adaptive, Forgetting, PowerLaw
from somf.algorithm.masks import masks_for
from somf.algorithm.memory import SampleMemory
from somf.algorithm.objectives import Objectives
from somf.algorithm.observed import (
    ObservedDictionary,
    ObservedIncrementalSurrogate,
    ObservedOnlineSurrogate,
    ObservedRegression,
    ObservedSumSurrogate,
)
from somf.algorithm.phases import PASS_TOL, Phase
from somf.algorithm.probe import Probe
from somf.algorithm.regression import (
    Quadratic,
    Regression,
    gram_cache_for,
)
from somf.algorithm.schedule import LADDER, PARTIAL, TOP, next_rung
from somf.algorithm.state import State
from somf.algorithm.surrogate import (
    Coded,
    IncrementalSurrogate,
    OnlineSurrogate,
    SumSurrogate,
    Surrogate,
)
from somf.distributed import Alone, Communicator
from somf.kernels import kernels_for
from somf.kernels.host import to_host
from somf.kernels.observed import Batch, atom_costs, known_weights
from somf.typing import Array, Ints, Matrix

logger = logging.getLogger("somf")


class Solver:
    """Subsampled online matrix factorization (Algorithm 1 of the paper), one step at a time.

    Parameters
    ----------
    config : Config
    state : State
        On the device of the configuration. Changed by every step. With several ranks, B, C and
        the memory are the share of this one; all else is the same on all of them.
    communicator : Communicator, optional
        By default this process is alone.

    Attributes
    ----------
    forgetting : Forgetting
    drift : Drift or None
        What decides how much is remembered; None where the learning rate is a number.
    """

    def __init__(
        self, config: Config, state: State, communicator: Communicator | None = None
    ) -> None:
        self.config, self.state = config, state
        self.communicator = Alone() if communicator is None else communicator
        self.kernels = kernels_for(config.device)
        self.forgetting: Forgetting = PowerLaw(config.exponent)
        self.drift: Drift | None = None
        if config.has_auto_weights:
            self.forgetting = adaptive = Adaptive(state)
            self.drift = Drift(state, adaptive, self.communicator)
        else:
            state.forget_moves()
            state.n_remembered = 0.0
        self.probe = Probe(config, state, self.kernels, self.communicator)
        self.objectives = Objectives(state, self.kernels)
        self._last_code: Array | None = None
        self._equal_weights: Array | None = None
        self._assemble()
        if state.phase == Phase.INCREMENTAL:
            self.forget_samples()

    def _assemble(self) -> None:
        """Create the parts of an iteration, for the blocks that the state has now."""
        config, state, kernels = self.config, self.state, self.kernels
        communicator = self.communicator
        masks = self.masks = masks_for(config, len(state.D), state.seed)
        if state.rung == TOP:
            masks.unite()
        self.gram_cache = gram_cache_for(config, state, kernels, masks, communicator)
        kind = ObservedRegression if config.has_weights else Regression
        self.regression = kind(
            "exact" if state.rung == PARTIAL else config.estimator_in_use,
            config.exponent,
            state,
            kernels,
            self.gram_cache,
            communicator,
        )
        if isinstance(self.regression, ObservedRegression):
            self.regression.per_entry = config.per_entry
        self.surrogate = self.new_surrogate()
        parts = state, kernels, config.ball, masks.blocks, communicator, config.atom_alpha
        self.dictionary = (ObservedDictionary if config.has_weights else Dictionary)(*parts)

    def new_surrogate(self) -> Surrogate:
        """Return the rule for B and C in the present phase."""
        parts = self.state, self.kernels, self.communicator
        if self.state.phase == Phase.PASS:
            return (ObservedSumSurrogate if self.config.has_weights else SumSurrogate)(*parts)
        if self.config.surrogate != "incremental":
            online = ObservedOnlineSurrogate if self.config.has_weights else OnlineSurrogate
            return online(*parts, self.forgetting)
        incremental = (
            ObservedIncrementalSurrogate if self.config.has_weights else IncrementalSurrogate
        )
        return incremental(*parts)

    def step(
        self,
        X: Batch,
        slots: Ints | None = None,
        batch_size: int | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        """Do one iteration.

        Parameters
        ----------
        X : array, csc_array or Observed of shape (m, p)
            A minibatch on the device, features in the order of ``state.permutation``.
        slots : ndarray of shape (m,), optional
            The slots of the samples in ``state.memory``; without it they count as new and are not
            remembered.
        batch_size : int, optional
            The samples of the minibatch on all ranks, b; by default those of X.
        sample_weight : array of shape (m,), optional
            How much each sample counts, on the device; by default all count the same.
        """
        with self.kernels.without_gradients():
            b = X.shape[0] if batch_size is None else batch_size
            self._iterate(X, slots, b, sample_weight)

    def _iterate(self, X: Any, slots: Ints | None, b: int, sample_weight: Array | None) -> None:
        state = self.state
        if self.probe.is_due():
            self._move_on_ladder(self.probe.direction(X, b), b)
        memory = None if slots is None else state.memory

        reduction = self.reduction
        subset = self.masks.draw(state.n_iter, reduction)
        if reduction > 1.0:
            problem = self.regression.estimate(X, subset, memory, slots)
        else:
            problem = self.regression.of_subset(X, subset)  # the subset is all features
        code = self._last_codes(X, memory, slots)
        old = self._last_visit(X, memory, slots) if self.surrogate.needs_old_codes else None
        learns = state.phase != Phase.PASS
        tol = self.config.code_tol * (1.0 if learns else PASS_TOL)
        objective = self._solve(problem, code, tol)
        if self.config.per_entry:
            objective = objective * known_weights(self.kernels, X, state.C)
        self.objectives.add(self._cost(X, objective, sample_weight))
        self._last_code = code
        weight = self._ones(X) if sample_weight is None else sample_weight
        new = Coded(code, weight, counts_once=sample_weight is None)
        if memory is not None and slots is not None:
            self.kernels.put(memory.code, slots, new.code)
            self.kernels.put(memory.weight, slots, new.weight)
        add_to_B, p = self.surrogate.add(X, new, old, b), len(state.B)
        if learns:
            with self.communicator.meanwhile(add_to_B, subset.runs(p), p) as update_of_B:
                C = self.surrogate.total()
                self.regression.age(b)
                update_of_B.finish_first()
                self.dictionary.update(subset, C)
                self.gram_cache.update(subset)
                self.dictionary.update_norms(subset.blocks, self.gram_cache.grams_of_blocks)
        else:
            add_to_B((slice(0, p),))

        if learns:
            self.forgetting.advance(state.n_samples_seen, b)
        state.n_iter += 1
        state.n_samples_seen += b
        self.kernels.mark_used(state.last_used, code, state.n_samples_seen)
        if learns:
            self._replace_unused(X, objective)
        if learns and self.drift is not None:
            self._remember(self.drift, X, objective, code, b, reduction)

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

    def _replace_unused(self, X: Batch, objective: Array) -> None:
        """Replace atoms that no sample has used for long."""
        replaced = self.dictionary.replace_unused(X, objective)
        if replaced.size:
            self.refresh()
            if self.drift is not None:
                self.drift.restart(replaced)

    def _remember(
        self, drift: Drift, X: Batch, objective: Array, code: Array, b: int, reduction: float
    ) -> None:
        """Let the moves of atoms decide how much is remembered, until noise is wanted."""
        n_before = self.state.n_samples_seen - b
        if n_before < drift.forgetting.noisy_from:
            drift.follow(b, reduction)
        elif n_before < drift.forgetting.quiet_from and self.state.window_start:  # followed so far
            known = known_weights(self.kernels, X, self.state.C)
            penalty = self.config.penalty.value(code) * (known if self.config.per_entry else 1)
            drift.end(objective, penalty, known, b, reduction)

    @property
    def reduction(self) -> float:
        """The reduction of the next iteration."""
        if self.config.reduction != AUTO:
            return self.masks.reduction
        return min(LADDER[self.state.rung].reduction, self.masks.reduction)

    def _move_on_ladder(self, direction: int, batch_size: int) -> None:
        """Go to a higher rung or to a lower one, or stay."""
        if direction > 0:
            self.climb(batch_size)
        elif direction < 0:
            self._descend()
        if self.state.n_iter == 0 and self.config.penalty.alpha > 0:
            self._log_rung()

    def _descend(self) -> None:
        """Code samples from a part of the features again, from this iteration on."""
        state = self.state
        state.rung = 0
        masks = masks_for(self.config, len(state.D), state.seed)
        state.divide_blocks(len(masks.blocks), self.kernels)
        self._assemble()
        self.refresh()
        self._log_rung()

    def climb(self, batch_size: int) -> bool:
        """Look at more features, or update more of them, from the next iteration on.

        Parameters
        ----------
        batch_size : int

        Returns
        -------
        has_climbed : bool
            False if iterations look at everything already.
        """
        state = self.state
        if state.rung >= self.config.last_rung:
            return False
        state.rung = next_rung(state.rung, len(state.D), len(state.C), batch_size)
        if state.rung == TOP:
            with self.kernels.without_gradients():
                state.forget_blocks(keeps_codes=self.surrogate.needs_old_codes)
        self._assemble()
        if state.n_iter > 0:
            self._log_rung()
        return True

    def set_atoms(self, D: Array) -> None:
        """Let the atoms be those of an array on the host, brought into the ball.

        They are scaled to its border: a larger atom with smaller codes changes no reconstruction,
        and raises no penalty on codes. With a penalty on atoms they are only projected.
        """
        ball = self.config.ball
        inside = ball.normalise(D) if self.config.atom_alpha == 0 else ball.project_columns(D)
        with self.kernels.without_gradients():
            self.state.D[:] = self.kernels.to_device(inside)
            self.refresh()

    def forget_samples(self) -> None:
        """Go back to an average over a stream: that of the samples which have been summed up."""
        state, n = self.state, 1.0
        if state.phase == Phase.ONLINE:
            return
        if state.phase == Phase.PASS and state.D_before.size:
            self.set_atoms(state.D_before)
        if state.memory is not None:
            (n,) = self.communicator.total(float(np.count_nonzero(to_host(state.memory.weight))))
        with self.kernels.without_gradients():
            state.end_sums(max(n, 1.0))
        self.surrogate = self.new_surrogate()

    def _log_rung(self) -> None:
        rung, text = LADDER[self.state.rung], "from iteration %d on: %s codes, reduction %g"
        logger.info(text, self.state.n_iter, rung.code_estimator, rung.reduction)

    def _last_codes(self, X: Matrix, memory: SampleMemory | None, slots: Ints | None) -> Array:
        """Return the codes that samples had at their last visit, zero if there was none."""
        if memory is None or slots is None:
            return self._zero_code(X)
        return self.kernels.take(memory.code, slots)

    def _cost(self, X: Batch, objective: Array, sample_weight: Array | None) -> Array:
        """Return the objective of samples with the penalty on atoms, times their weights."""
        if self.config.atom_alpha > 0:
            costs = atom_costs(self.kernels, X, self.state.D, self.config.atom_alpha)
            objective = objective + costs
        return objective if sample_weight is None else objective * sample_weight

    def _last_visit(self, X: Matrix, memory: SampleMemory | None, slots: Ints | None) -> Coded:
        """Return codes and weights of the last visit, zero if there was none."""
        code = self._last_codes(X, memory, slots)
        if memory is None or slots is None:
            return Coded(code, 0 * self._ones(X))
        return Coded(code, self.kernels.take(memory.weight, slots))

    def _ones(self, X: Matrix) -> Array:
        """Return the weights of samples that all count the same; others must not change them."""
        if self._equal_weights is None or len(self._equal_weights) != X.shape[0]:
            self._equal_weights = self.kernels.zeros((X.shape[0],), self.state.C) + 1
        return self._equal_weights

    def _zero_code(self, X: Matrix) -> Array:
        return self.kernels.zeros((X.shape[0], self.config.n_components), self.state.C)

    def check(self) -> None:
        """Raise ScaleError if an objective has overflowed since the last check."""
        self.objectives.check()

    def take_objectives(self) -> list[float]:
        """Return the sum over every minibatch since the last call of the objective of its codes.

        These are codes on the atoms before the minibatch was learned from. Samples count by their
        weights.
        """
        return self.objectives.take()

    @property
    def last_code(self) -> Array | None:
        """The codes of the last minibatch, of shape (b, k), on the host; None without one."""
        return None if self._last_code is None else to_host(self._last_code)

    def check_result(self) -> None:
        """Raise ScaleError if atoms have overflowed, or if codes were too small to update them."""
        self.check()
        self.objectives.check_atoms()
        self.objectives.check_codes(self._last_code)

    def align(self) -> None:
        """Let all ranks have the dictionary of rank 0, if rounding has made them differ.

        Ranks with other processors, or other numbers of threads, round differently where each of
        them updates all atoms.
        """
        D, communicator = self.state.D, self.communicator
        if communicator.size == 1 or len(set(communicator.tell(crc32(to_host(D).data)))) == 1:
            return
        with self.kernels.without_gradients():
            own = D if communicator.rank == 0 else self.kernels.zeros(tuple(D.shape), D)
            D[:] = communicator.sum(own)[0]
            self.refresh()

    def refresh(self) -> None:
        """Recompute what is derived from the dictionary, after a change of any of its rows."""
        self.gram_cache.recompute()
        all_blocks = range(len(self.masks.blocks))
        self.dictionary.update_norms(all_blocks, self.gram_cache.grams_of_blocks)
