"""``alpha="auto"``: from the density of codes or of atoms that is wanted to the weight λ.

Users rarely know λ for their data, but they know how many atoms should explain a sample, or how
much of a map should not be zero. The density of codes depends on the atoms, and atoms change while
they are learned. So λ is found on *trials*: short fits to a part of the data, with all settings of
the real fit.

In the first trial λ is adjusted to the atoms again and again. But the atoms also depend on λ, and
those at the end were learned with earlier values of it. In the second trial λ keeps the value that
was found, as in the real fit, which then starts from the beginning.
"""

import logging
import math
from time import perf_counter

import numpy as np

from somf.algorithm.initialization import initial_state
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader, Source, loader_for
from somf.distributed import ALONE, Communicator
from somf.kernels import kernels_for
from somf.training.config import TrainingConfig
from somf.training.density_probes import AtomProbe, CodeProbe, DensityProbe
from somf.training.minibatches import epochs
from somf.training.samples import Samples
from somf.training.start import initial_dictionary
from somf.typing import Ints

logger = logging.getLogger("somf.training.alpha_search")

TRIAL_SAMPLES = 4000
"""Samples of a trial of one epoch; a trial of several epochs has half of them."""

MOST_EPOCHS = 10
"""Epochs of a trial, at most."""

FIRST_ADJUSTMENT = 250
"""Samples after which λ is adjusted for the first time; the interval then doubles each time."""

PROBE_SAMPLES = 300
"""Samples on which density is measured, at most."""

PROBE_ENTRIES = 2**24
"""Entries of these samples that are held in memory, at most."""

USUAL_EPOCHS = 5
"""Epochs after which many fits have converged."""


def resolve_alpha(
    config: TrainingConfig,
    source: Source,
    samples: Samples,
    seed: int,
    communicator: Communicator = ALONE,
) -> TrainingConfig:
    """Return a configuration with λ found, if it is still to be found.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    samples : Samples
        Those to learn from.
    seed : int
    communicator : Communicator

    Returns
    -------
    config : TrainingConfig
        Its codes, after learning, have about the requested density.
    """
    if not config.has_open_alpha:
        return config
    begin = perf_counter()
    n_epochs = min(config.n_epochs, MOST_EPOCHS)
    chosen, probe_ids = _trial_samples(config, source, samples, seed, n_epochs)
    logger.info("searching alpha on %d samples", chosen.n)
    D = initial_dictionary(config, source, samples, seed, communicator)
    n_own = len(chosen.ids)
    states = [
        initial_state(config, D.copy(), seed, np.arange(n_own), chosen.n - n_own) for _ in range(2)
    ]
    permutation = states[0].permutation
    loader = loader_for(config.device, source, config.dtype_for(source.dtype), permutation)
    probe = _probe(config, loader, probe_ids, communicator)
    adjusted = _trial(config, states[0], loader, chosen, n_epochs, probe)
    suitable = _trial(config.with_alpha(adjusted), states[1], loader, chosen, n_epochs, probe)
    # Another λ also changes the atoms, which was measured to double its effect on the density: half
    # a step (in the logarithm) is enough. In fits longer than a trial codes get sparser still.
    expected = config.n_epochs if config.tol == 0 else min(config.n_epochs, USUAL_EPOCHS)
    share = n_epochs * chosen.n / (expected * samples.n)
    alpha = adjusted * (suitable / adjusted) ** (math.sqrt(share) / 2)
    probe.check(alpha)
    logger.info(
        "alpha is %.4g, found for %s of density %g on %d samples in %.1f s",
        alpha,
        "codes" if config.atom_density is None else "atoms",
        config.code_density if config.atom_density is None else config.atom_density,
        chosen.n,
        perf_counter() - begin,
    )
    return config.with_alpha(alpha)


def _probe(
    config: TrainingConfig, loader: Loader, ids: Ints, communicator: Communicator
) -> DensityProbe:
    """Return what looks at the density that is wanted, of codes of some samples or of atoms."""
    if config.atom_density is not None:
        return AtomProbe(config.atom_density, communicator)
    X = loader.load(ids) if len(ids) else loader.nothing()
    return CodeProbe(kernels_for(config.device), X, config, communicator)


def _trial_samples(
    config: TrainingConfig, source: Source, samples: Samples, seed: int, n_epochs: int
) -> tuple[Samples, Ints]:
    """Return samples to learn from, and samples of this rank to measure on: others if possible."""
    n_learned = TRIAL_SAMPLES if n_epochs == 1 else TRIAL_SAMPLES // 2
    n_probe = int(PROBE_ENTRIES / source.entries_per_row)
    n_probe = min(max(n_probe, config.batch_size), PROBE_SAMPLES)
    # The first samples of an epoch: few chunks have to be read for them.
    order = samples.order(Loader(source, config.dtype_for(source.dtype)), seed, 0)
    n_used = min(n_learned + n_probe, samples.n)
    own, first, last = samples.before(
        [min(n_learned, samples.n), max(n_used - n_probe, 0), n_used]
    ).tolist()
    counts = samples.first(n_learned)
    return Samples(samples.rows, np.sort(order[:own]), counts), order[first:last]


def _trial(
    config: TrainingConfig,
    state: State,
    loader: Loader,
    chosen: Samples,
    n_epochs: int,
    probe: DensityProbe,
) -> float:
    """Learn from some samples; return the λ that suits the atoms at the end.

    If λ is still to be found, it is adjusted to the atoms during the trial.
    """
    adjusts, ranks = config.has_open_alpha, probe.communicator
    alpha = probe.alpha(state.D, None) if adjusts else config.penalty.alpha
    solver = Solver(config.with_alpha(alpha), state, ranks)
    next_adjustment = FIRST_ADJUSTMENT
    for ids, X, b in epochs(loader, chosen, state.seed, config.batch_size, n_epochs):
        solver.step(X, np.searchsorted(chosen.ids, ids), b)
        if adjusts and state.n_samples_seen >= next_adjustment:
            next_adjustment *= 2
            alpha = probe.alpha(state.D, alpha)
            solver = Solver(config.with_alpha(alpha), state, ranks)
    solver.check()
    return probe.alpha(state.D, alpha)
