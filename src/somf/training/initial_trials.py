"""Trials of initial atoms, for problems whose result depends on them.

For NMF without a penalty, initial atoms differ by several per cent, depending on the data. Learning
from a few samples tells which are good, and a fit goes on with what the best of them has learned.
"""

import logging
from dataclasses import dataclass, replace

import numpy as np

from somf.algorithm.initialization import initial_state
from somf.algorithm.solver import Solver
from somf.data import Source, loader_for
from somf.distributed import Communicator
from somf.inference.coding import Coder
from somf.kernels import kernels_for
from somf.training.config import TrainingConfig
from somf.training.initial_dictionary import initial_dictionary
from somf.training.minibatches import dealt, weights_of
from somf.training.samples import Samples
from somf.typing import Array

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
    """Short fits to the first samples of an epoch, from different initial atoms.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    samples : Samples
    seed : int
    is_finite : bool
        Whether the source is all the data there will be, rather than the beginning of a stream.
    communicator : Communicator
    sample_weight : ndarray of shape (n,), optional
        How much each row of the source counts.
    """

    config: TrainingConfig
    source: Source
    samples: Samples
    seed: int
    is_finite: bool
    communicator: Communicator
    sample_weight: Array | None = None

    def best(self) -> Array:
        """Return the atoms, as (p, k), of the trial that gets furthest."""
        best, lowest = np.empty(0), np.inf
        for init in CANDIDATES:
            wanted, parts = replace(self.config, init=init), (self.source, self.samples, self.seed)
            D = initial_dictionary(wanted, *parts, self.communicator)
            objective, learned = self.learn(D)
            logger.info("initial atoms: %s, objective %.6g after a trial", init, objective)
            if not best.size or objective < MARGIN * lowest:  # all objectives may overflow
                best, lowest = learned, objective
        return best

    def learn(self, D: Array) -> tuple[float, Array]:
        """Return the objective of the samples of a trial after it, and its atoms, as (p, k)."""
        config, source, samples = self.config, self.source, self.samples
        state = initial_state(config, D, self.seed, None, is_on_top=config.is_on_top(samples.n))
        kernels, dtype = kernels_for(config.device), config.dtype_for(source.dtype)
        loader = loader_for(config.device, source, dtype, state.permutation)
        solver, n = Solver(config, state, self.communicator), min(TRIAL_SAMPLES, samples.n)
        if self.is_finite:
            solver.forgetting.expect_epochs(samples.n)
        order = samples.order(loader, self.seed, 0)
        for minibatch in dealt(loader, samples, order, 0, n, config.batch_size):
            weights = weights_of(minibatch.ids, self.sample_weight, state, kernels)
            solver.step(minibatch.X, None, minibatch.size, weights)
        solver.check()
        coder = Coder(
            kernels, state.D, config.penalty, TRIAL_TOL, None, config.atom_alpha, config.per_entry
        )
        own = np.sort(order[: samples.before([n])[0]])
        return coder.objective(loader, own, self.communicator), state.components.T
