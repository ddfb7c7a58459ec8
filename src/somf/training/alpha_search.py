"""From the density of codes that is wanted to the weight of their penalty.

Nobody knows λ for their data, but everybody has an idea of how many atoms should explain a sample.
How dense codes are depends on the atoms, and atoms get better at explaining samples while they are
learned. So λ is found on trials: short fits to a part of the data, with all the settings of the
real one. In the first one λ follows the atoms. But atoms follow λ too, and those at its end were
learned with what suited others. In the second one λ stays as it was found, like in the real fit,
which then starts from the beginning.
"""

import logging
import math
import warnings
from dataclasses import replace
from time import perf_counter

import numpy as np

from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader, Source, loader_for
from somf.kernels import Kernels, kernels_for
from somf.kernels.host import to_host
from somf.training.config import TrainingConfig
from somf.training.start import blank_state, initial_dictionary
from somf.typing import Array, Ints, Matrix

logger = logging.getLogger("somf.training.alpha_search")

TRIAL_SAMPLES, MOST_EPOCHS = 4000, 10
"""Samples of a trial of one epoch (half of them for more), and epochs of any trial."""

FIRST_LOOK = 250
"""Samples after which λ is found anew for the first time; then after twice as many each time."""

PROBE_SAMPLES, PROBE_ENTRIES = 300, 2**24
"""Samples on which density is measured, and entries of them that may be held."""

CODE_TOL = 1e-4
RANGE, PRECISION = 1e-5, 0.01
"""λ is looked for from the value at which all codes are empty down to this fraction of it, to this
relative precision."""


def resolve_alpha(config: TrainingConfig, source: Source, ids: Ints, seed: int) -> TrainingConfig:
    """Return a configuration with λ found, if it is still to be found.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    ids : ndarray of int
        The samples to learn from.
    seed : int

    Returns
    -------
    config : TrainingConfig
        Its codes, after learning, have about the density that was asked for.
    """
    if config.code_density is None:
        return config
    begin = perf_counter()
    n_epochs = min(config.n_epochs, MOST_EPOCHS)
    chosen, probe_ids = _trial_samples(config, source, ids, seed, n_epochs)
    logger.info("looking for alpha on %d samples", len(chosen))
    D = initial_dictionary(config, source, ids, seed)
    states = [blank_state(config, D.copy(), seed, np.arange(len(chosen))) for _ in range(2)]
    permutation = states[0].permutation
    loader = loader_for(config.device, source, config.dtype_for(source.dtype), permutation)
    probe = Probe(kernels_for(config.device), loader.load(probe_ids), config)
    followed = _trial(config, states[0], loader, chosen, n_epochs, probe)
    suitable = _trial(config.with_alpha(followed), states[1], loader, chosen, n_epochs, probe)
    # With another λ atoms will be others, which was seen to double what λ does to given atoms: half
    # of the way (of its logarithm) is enough. In fits longer than a trial codes get sparser still.
    share = n_epochs * len(chosen) / (config.n_epochs * len(ids))
    alpha = followed * (suitable / followed) ** (math.sqrt(share) / 2)
    probe.check(alpha)
    logger.info(
        "alpha is %.4g, found for codes of density %g on %d samples in %.1f s",
        alpha,
        config.code_density,
        len(chosen),
        perf_counter() - begin,
    )
    return config.with_alpha(alpha)


def _trial_samples(
    config: TrainingConfig, source: Source, ids: Ints, seed: int, n_epochs: int
) -> tuple[Ints, Ints]:
    """Return samples to learn from, sorted, and samples to measure on: others if there are any."""
    n_learned = TRIAL_SAMPLES if n_epochs == 1 else TRIAL_SAMPLES // 2
    n_probe = int(PROBE_ENTRIES / source.entries_per_row)
    n_probe = min(max(n_probe, config.batch_size), PROBE_SAMPLES)
    # These are together where samples are stored in chunks.
    order = Loader(source, config.dtype_for(source.dtype)).order(ids, seed, 0)
    order = order[: n_learned + n_probe]
    return np.sort(order[:n_learned]), order[-n_probe:]


def _trial(
    config: TrainingConfig,
    state: State,
    loader: Loader,
    chosen: Ints,
    n_epochs: int,
    probe: "Probe",
) -> float:
    """Learn from some samples; return the λ that suits the atoms at the end.

    Where λ is still to be found, it follows the atoms.
    """
    follows = config.code_density is not None
    solver = Solver(config.with_alpha(probe.alpha(state.D)) if follows else config, state)
    next_look = FIRST_LOOK
    for epoch in range(n_epochs):
        order = loader.order(chosen, state.seed, epoch)
        batches = np.split(order, range(config.batch_size, len(order), config.batch_size))
        with loader.stream(batches) as minibatches:
            for batch, X in zip(batches, minibatches, strict=True):
                solver.step(X, np.searchsorted(chosen, batch))
                if follows and state.n_samples_seen >= next_look:
                    next_look *= 2
                    solver = Solver(config.with_alpha(probe.alpha(state.D)), state)
    solver.check()
    return probe.alpha(state.D)


class Probe:
    """Samples on which the density of codes is measured.

    Parameters
    ----------
    kernels : Kernels
    X : ndarray or csc_array of shape (b, p)
        Samples on the device, features in the order of the state.
    config : TrainingConfig

    Attributes
    ----------
    is_reached : bool
        Whether there was a λ small enough for the density that is wanted, the last time.
    """

    is_reached: bool

    def __init__(self, kernels: Kernels, X: Matrix, config: TrainingConfig) -> None:
        assert config.code_density is not None
        self.kernels, self.X, self.penalty = kernels, X, config.penalty
        self.target = config.code_density
        self.rows = (slice(0, X.shape[1]),)
        self.sq_norm = kernels.squared_norms(X, self.rows)

    def alpha(self, D: Array) -> float:
        """Return the λ at which codes on these atoms have the density that is wanted.

        Parameters
        ----------
        D : ndarray of shape (p, k)
        """
        G = self.kernels.gram(D, self.rows)
        beta = self.kernels.correlate(self.X, D, self.rows)
        largest = to_host(beta) if self.penalty.positive else np.abs(to_host(beta))
        # No penalty on any entry can be larger than this and leave anything of it.
        top = float(largest.max()) / self.penalty.l1_ratio
        if not (math.isfinite(top) and top > 0):
            raise ValueError(
                "alpha must be a number for samples that atoms cannot explain (are they all "
                f"zero?), got 'auto' and a largest correlation of {top:g}."
            )
        bottom = top * RANGE
        low, high, n_too_large = bottom, top, 0
        while high / low > 1 + PRECISION:
            middle = math.sqrt(low * high)
            if self._density(G, beta, middle) > self.target:
                low = middle
                continue
            high, n_too_large = middle, n_too_large + 1
            # The smaller λ, the longer codes take: is there anything to be found further down?
            is_time_to_ask = n_too_large == 2 and low == bottom
            if is_time_to_ask and self._density(G, beta, bottom) <= self.target:
                break
        self.is_reached = low > bottom
        return low

    def check(self, alpha: float) -> None:
        """Warn if there was no λ that is small enough for the atoms before."""
        if not self.is_reached:
            warnings.warn(
                f"code_density={self.target:g} is more than codes of these samples have without a "
                f"penalty; alpha is next to nothing, {alpha:.3g}.",
                UserWarning,
                stacklevel=4,
            )

    def _density(self, G: Array, beta: Array, alpha: float) -> float:
        code = self.kernels.zeros(tuple(beta.shape), G)
        penalty = replace(self.penalty, alpha=alpha)
        self.kernels.solve_codes(G[None], beta, self.sq_norm, penalty, CODE_TOL, code)
        return float(np.mean(to_host(code) != 0))
