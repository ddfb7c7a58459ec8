"""Trials of initial atoms, for problems whose result depends on them.

For NMF without a penalty, initial atoms differ by several per cent, depending on the data. Learning
from a few samples tells which are good, and a fit goes on with what the best of them has learned.
"""

import logging
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from somf.algorithm.initialization import initial_state
from somf.algorithm.solver import Solver
from somf.data import Source, loader_for
from somf.distributed import Communicator
from somf.inference.coding import Coder, mean_objective
from somf.kernels import kernels_for
from somf.training.config import TrainingConfig
from somf.training.initial_dictionary import initial_dictionary
from somf.training.minibatches import dealt, weights_of
from somf.training.samples import Samples
from somf.typing import Array, Ints

logger = logging.getLogger("somf")

CANDIDATES = ("random", "samples", "nndsvd")
"""The initial atoms that are compared. Where they are equally good at first, fits from random
ones end lower."""

TRIAL_SAMPLES = 500
"""Samples of a trial, at most."""

MARGIN = 0.995
"""A candidate must get to this fraction of the objective of the best one before it."""

TRIAL_TOL = 1e-3
"""Relative duality gap of the codes by which it is judged."""


@dataclass(frozen=True)
class InitialTrials:
    """Short fits to the last samples of the first epoch, from different initial atoms.

    Until a fit visits these samples, its minibatches are new to the atoms, unless atoms were made
    from them. In a stream the first epoch is all that it begins with.

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
        """Return the atoms, as (p, k), of the trial that gets furthest."""
        best, lowest = np.empty(0), np.inf
        for init in CANDIDATES:
            config = replace(self.config, init=init)
            D = initial_dictionary(config, self.source, self.samples, self.seed, self.communicator)
            objective, learned = self.learn(D)
            logger.info("initial atoms: %s, objective %.6g after a trial", init, objective)
            if not best.size or objective < MARGIN * lowest:  # all objectives may overflow
                best, lowest = learned, objective
        return best

    def learn(self, D: Array) -> tuple[float, Array]:
        """Return the objective of the samples of a trial after it, and its atoms, as (p, k)."""
        config, source, samples, n = self.config, self.source, self.samples, self.samples.n
        state = initial_state(config, D, self.seed, None, is_on_top=config.is_on_top(n))
        kernels, dtype = kernels_for(config.device), config.dtype_for(source.dtype)
        loader = loader_for(config.device, source, dtype, state.permutation)
        solver, begin = Solver(config, state, self.communicator), max(0, n - TRIAL_SAMPLES)
        order = samples.order(loader, self.seed, 0)
        with closing(dealt(loader, samples, order, begin, n, config.batch_size)) as minibatches:
            for minibatch in minibatches:
                weights = weights_of(minibatch.ids, self.sample_weight, state, kernels)
                solver.step(minibatch.X, None, minibatch.size, weights)
        solver.check()
        solver.align()
        coder = Coder(
            kernels, state.D, config.penalty, TRIAL_TOL, None, config.atom_alpha, config.per_entry
        )
        own = np.sort(order[samples.before([begin])[0] :])
        objective = mean_objective(coder.chunks(loader, own), self.communicator, self._weights(own))
        return objective, state.components.T

    def _weights(self, own: Ints) -> Array | None:
        """Return how much some samples of this rank count; None if all of them count the same."""
        if self.sample_weight is None:
            return None
        weights = self.sample_weight[own]
        (total,) = self.communicator.total(float(weights.sum()))
        return weights if total > 0 else None
