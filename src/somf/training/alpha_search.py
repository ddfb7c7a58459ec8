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
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from somf.algorithm.initialization import initial_state
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader, Source, loader_for
from somf.distributed import ALONE, Communicator
from somf.kernels import kernels_for
from somf.training.config import TrainingConfig
from somf.training.density_probes import AtomProbe, CodeProbe
from somf.training.initial_dictionary import initial_dictionary
from somf.training.minibatches import epochs
from somf.training.samples import Samples
from somf.typing import Array, Ints

logger = logging.getLogger("somf.training.alpha_search")

TRIAL_SAMPLES = 4000
"""Samples of a trial of one epoch; a trial of several epochs has half of them."""

ATOM_TRIALS = 8
"""Trials for a density of atoms, at most."""

FIRST_ADJUSTMENT = 250
"""Samples after which λ is adjusted to codes for the first time; the interval then doubles."""

MOST_EPOCHS = 10
"""Epochs of a trial, at most."""

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
    trials = _Trials(config, source, chosen, D, seed, communicator, n_epochs)
    if config.atom_density is not None:
        is_longer = config.n_epochs * samples.n > n_epochs * chosen.n
        alpha = _for_atoms(trials, config.atom_density, is_longer)
    else:
        alpha = _for_codes(trials, probe_ids, samples.n)
    logger.info(
        "alpha is %.4g, found for %s of density %g on %d samples in %.1f s",
        alpha,
        "codes" if config.atom_density is None else "atoms",
        config.code_density if config.atom_density is None else config.atom_density,
        chosen.n,
        perf_counter() - begin,
    )
    return config.with_alpha(alpha)


@dataclass(frozen=True)
class _Trials:
    """What all trials have in common.

    Attributes
    ----------
    config : TrainingConfig
    source : Source
    chosen : Samples
        Those to learn from.
    D : ndarray of shape (p, k)
        The initial atoms.
    seed : int
    communicator : Communicator
    n_epochs : int
    """

    config: TrainingConfig
    source: Source
    chosen: Samples
    D: Array
    seed: int
    communicator: Communicator
    n_epochs: int

    def new_state(self, components: Array | None = None) -> State:
        """Return the state with which a trial begins.

        Parameters
        ----------
        components : ndarray of shape (k, p), optional
            Other atoms than the initial ones.
        """
        n_own = len(self.chosen.ids)
        n_elsewhere = self.chosen.n - n_own
        D = self.D.copy() if components is None else components.T.copy()
        ids, is_on_top = np.arange(n_own), self.config.is_on_top(self.chosen.n)
        return initial_state(self.config, D, self.seed, ids, n_elsewhere, is_on_top)

    def loader(self, state: State) -> Loader:
        """Return the loader of minibatches for a state."""
        dtype = self.config.dtype_for(self.source.dtype)
        return loader_for(self.config.device, self.source, dtype, state.permutation)

    def learn(
        self,
        alpha: float,
        adjusted: Callable[[Array], float] | None = None,
        components: Array | None = None,
    ) -> State:
        """Learn from the samples, with new statistics.

        Parameters
        ----------
        alpha : float
        adjusted : callable, optional
            Returns the λ that suits atoms, to which λ is adjusted during the trial.
        components : ndarray of shape (k, p), optional
            The atoms to begin with, if not the initial ones.
        """
        state, config = self.new_state(components), self.config
        solver = Solver(config.with_alpha(alpha), state, self.communicator)
        minibatches = epochs(
            self.loader(state), self.chosen, state.seed, lambda: config.batch_size, self.n_epochs
        )
        next_adjustment = FIRST_ADJUSTMENT
        for ids, X, b in minibatches:
            solver.step(X, np.searchsorted(self.chosen.ids, ids), b)
            if adjusted is not None and state.n_samples_seen >= next_adjustment:
                next_adjustment *= 2
                solver = Solver(config.with_alpha(adjusted(state.D)), state, self.communicator)
        solver.check()
        return state


def _for_codes(trials: _Trials, probe_ids: Ints, n_samples: int) -> float:
    """Return the λ for a density of codes, measured on some samples."""
    config, state = trials.config, trials.new_state()
    loader = trials.loader(state)
    X = loader.load(probe_ids) if len(probe_ids) else loader.nothing()
    probe = CodeProbe(kernels_for(config.device), X, config, trials.communicator)
    adjusted = probe.alpha(trials.learn(probe.alpha(state.D), probe.alpha).D)
    suitable = probe.alpha(trials.learn(adjusted).D)
    # Another λ also changes the atoms, which was measured to double its effect on the density: half
    # a step (in the logarithm) is enough. In fits longer than a trial codes get sparser still.
    expected = config.n_epochs if config.tol == 0 else min(config.n_epochs, USUAL_EPOCHS)
    share = trials.n_epochs * trials.chosen.n / (expected * n_samples)
    alpha: float = adjusted * (suitable / adjusted) ** (math.sqrt(share) / 2)
    probe.check(alpha)
    return alpha


def _for_atoms(trials: _Trials, density: float, is_longer: bool) -> float:
    """Return the λ for a density of atoms: that of one trial tells the λ of the next.

    A trial must begin with new statistics, since old ones with larger codes would outweigh those of
    a larger λ. Atoms change their density for a long time, so a trial begins with the atoms of the
    trial before, unless the fit is as short as a trial.

    Parameters
    ----------
    trials : _Trials
    density : float
        The one that is wanted.
    is_longer : bool
        Whether the fit sees more samples than a trial.
    """
    probe = AtomProbe(density, len(trials.D))
    alpha, components = probe.first_alpha, None
    for _ in range(ATOM_TRIALS):
        state = trials.learn(alpha, components=components)
        alpha = probe.alpha(state.D, alpha)
        if probe.is_reached:
            break
        components = state.components if is_longer else None
    return alpha


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
