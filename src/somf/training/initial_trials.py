"""Trials of initial atoms, for problems whose result depends on them.

For NMF without a penalty, initial atoms differ by several per cent, depending on the data. Learning
from a few samples tells which are good. The atoms of the best trial learn from a few others, and a
fit goes on with the atoms that come of it. All of these short fits begin without memory, as the fit
itself does: an average over few samples moves atoms far.
"""

import logging
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from somf.algorithm.initialization import initial_state
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Source, loader_for
from somf.distributed import Communicator
from somf.inference.coding import CodedChunk, Coder, mean_objective
from somf.kernels import Kernels, kernels_for
from somf.training.config import TrainingConfig
from somf.training.initial_dictionary import initial_dictionary
from somf.training.minibatches import Minibatch, dealt, weights_of
from somf.training.samples import Samples
from somf.typing import Array, Ints

logger = logging.getLogger("somf")

CANDIDATES = ("random", "samples", "nndsvd")
"""The initial atoms that are compared. Where they are equally good at first, fits from random
ones end lower."""

TRIAL_SAMPLES = 500
"""Samples of a trial, at most."""

TRIAL_ENTRIES = 2**26
"""Entries of these samples that are held in memory, at most, but for a minibatch."""

MARGIN = 0.995
"""A candidate must get to this fraction of the objective of the best one before it."""

TRIAL_TOL = 1e-3
"""Relative duality gap of the codes by which it is judged."""


@dataclass(frozen=True)
class InitialTrials:
    """Short fits to the last samples of the first epoch, from different initial atoms.

    The best of them is followed by one to the samples before these. Until a fit visits any of them,
    its minibatches are new to the atoms, unless atoms were made from them. In a stream the first
    epoch is all that it begins with.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    samples : Samples
    seed : int
    communicator : Communicator
    sample_weight : ndarray of shape (n,), optional
        How much each row of the source counts.
    """

    config: TrainingConfig
    source: Source
    samples: Samples
    seed: int
    communicator: Communicator
    sample_weight: Array | None = None

    def best(self) -> Array:
        """Return the atoms, as (p, k), of the best trial, after one more short fit."""
        n, size, minibatches = self.samples.n, self.size(), list[Minibatch]()
        begin = max(0, n - size)
        best, lowest = np.empty(0), np.inf
        for init in CANDIDATES:
            config = replace(self.config, init=init)
            D = initial_dictionary(config, self.source, self.samples, self.seed, self.communicator)
            state = self.state_with(D)
            minibatches = minibatches or self.read(begin, n, state.permutation)
            self.learn(state, minibatches)
            objective = self.objective(state, minibatches)
            logger.info("initial atoms: %s, objective %.6g after a trial", init, objective)
            if not best.size or objective < MARGIN * lowest:  # the sum of all may overflow
                best, lowest = state.components.T, objective
        del minibatches  # their memory is for others
        state = self.state_with(best)
        self.learn(state, self.read(max(0, begin - size), begin, state.permutation))
        return state.components.T

    def size(self) -> int:
        """Return how many samples of all ranks a trial has."""
        per_row = max(self.communicator.tell(self.source.entries_per_row))
        return min(TRIAL_SAMPLES, max(self.config.batch_size, int(TRIAL_ENTRIES / per_row)))

    def state_with(self, D: Array) -> State:
        """Return the state before a trial from atoms (p, k), whose memory it may take over."""
        is_on_top = self.config.is_on_top(self.samples.n)
        return initial_state(self.config, D, self.seed, None, is_on_top=is_on_top)

    def read(self, begin: int, end: int, permutation: Ints | None) -> list[Minibatch]:
        """Return the minibatches of a part of the first epoch, features permuted."""
        config, source, samples = self.config, self.source, self.samples
        loader = loader_for(config.device, source, config.dtype_for(source.dtype), permutation)
        order = samples.order(loader, self.seed, 0)
        with closing(dealt(loader, samples, order, begin, end, config.batch_size)) as minibatches:
            return list(minibatches)

    def learn(self, state: State, minibatches: list[Minibatch]) -> None:
        """Learn from some minibatches."""
        solver, kernels = Solver(self.config, state, self.communicator), self._kernels
        for ids, X, b in minibatches:
            solver.step(X, None, b, weights_of(ids, self.sample_weight, state, kernels))
        solver.check()
        solver.align()

    def objective(self, state: State, minibatches: list[Minibatch]) -> float:
        """Return the mean objective of the samples of some minibatches."""
        config = self.config
        parts = state.D, config.penalty, TRIAL_TOL, None, config.atom_alpha, config.per_entry
        coder = Coder(self._kernels, *parts)
        coded = (CodedChunk(X, *coder.code(X)) for ids, X, _ in minibatches if len(ids))
        weights = self._weights(np.concatenate([ids for ids, *_ in minibatches]))
        # That of samples which atoms reproduce may fall below zero by rounding.
        return max(mean_objective(coded, self.communicator, weights), 0.0)

    @property
    def _kernels(self) -> Kernels:
        return kernels_for(self.config.device)

    def _weights(self, own: Ints) -> Array | None:
        """Return how much some samples of this rank count; None if all of them count the same."""
        if self.sample_weight is None:
            return None
        weights = self.sample_weight[own]
        (total,) = self.communicator.total(float(weights.sum()))
        return weights if total > 0 else None
