"""``alpha="auto"``: from the density of codes that is wanted to the weight λ of their penalty.

Users rarely know λ for their data, but they know how many atoms should explain a sample. The
density of codes depends on the atoms, and atoms change while they are learned. So λ is found on
*trials*: short fits to a part of the data, with all settings of the real fit.

In the first trial λ is adjusted to the atoms again and again. But the atoms also depend on λ, and
those at the end were learned with earlier values of it. In the second trial λ keeps the value that
was found, as in the real fit, which then starts from the beginning.
"""

import logging
import math
import warnings
from dataclasses import replace
from time import perf_counter

import numpy as np

from somf.algorithm.config import AUTO
from somf.algorithm.initialization import initial_state
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader, Source, loader_for
from somf.distributed import ALONE, Communicator
from somf.errors import ParameterError, ScaleError
from somf.kernels import Kernels, kernels_for
from somf.kernels.host import to_host
from somf.kernels.observed import Batch, Observed, quadratics
from somf.training.config import TrainingConfig
from somf.training.minibatches import epochs
from somf.training.samples import Samples
from somf.training.start import initial_dictionary
from somf.typing import Array, Ints

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

CODE_TOL = 1e-4
"""Relative duality gap of the codes whose density is measured."""

RANGE = 1e-5
"""The search goes from the λ at which all codes are empty down to this fraction of it."""

PRECISION = 0.01
"""Relative precision of the search."""


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
    if config.code_density is None:
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
    X = loader.load(probe_ids) if len(probe_ids) else loader.nothing()
    probe = Probe(kernels_for(config.device), X, config, communicator)
    adjusted = _trial(config, states[0], loader, chosen, n_epochs, probe)
    suitable = _trial(config.with_alpha(adjusted), states[1], loader, chosen, n_epochs, probe)
    # Another λ also changes the atoms, which was measured to double its effect on the density: half
    # a step (in the logarithm) is enough. In fits longer than a trial codes get sparser still.
    expected = config.n_epochs if config.tol == 0 else min(config.n_epochs, USUAL_EPOCHS)
    share = n_epochs * chosen.n / (expected * samples.n)
    alpha = adjusted * (suitable / adjusted) ** (math.sqrt(share) / 2)
    probe.check(alpha)
    logger.info(
        "alpha is %.4g, found for codes of density %g on %d samples in %.1f s",
        alpha,
        config.code_density,
        chosen.n,
        perf_counter() - begin,
    )
    return config.with_alpha(alpha)


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
    probe: "Probe",
) -> float:
    """Learn from some samples; return the λ that suits the atoms at the end.

    If λ is still to be found, it is adjusted to the atoms during the trial.
    """
    adjusts, ranks = config.code_density is not None, probe.communicator
    solver = Solver(config.with_alpha(probe.alpha(state.D)) if adjusts else config, state, ranks)
    next_adjustment = FIRST_ADJUSTMENT
    for ids, X, b in epochs(loader, chosen, state.seed, config.batch_size, n_epochs):
        solver.step(X, np.searchsorted(chosen.ids, ids), b)
        if adjusts and state.n_samples_seen >= next_adjustment:
            next_adjustment *= 2
            solver = Solver(config.with_alpha(probe.alpha(state.D)), state, ranks)
    solver.check()
    return probe.alpha(state.D)


class Probe:
    """Samples on which the density of codes is measured.

    Parameters
    ----------
    kernels : Kernels
    X : ndarray, csc_array or Observed of shape (b, p)
        Samples on the device, features in the order of the state.
    config : TrainingConfig
    communicator : Communicator

    Attributes
    ----------
    is_reached : bool
        Whether the last search found a λ small enough for the requested density.
    """

    is_reached: bool

    def __init__(
        self,
        kernels: Kernels,
        X: Batch,
        config: TrainingConfig,
        communicator: Communicator = ALONE,
    ) -> None:
        assert config.code_density is not None
        self.kernels, self.X, self.penalty = kernels, X, config.penalty
        self.communicator = communicator
        self.target = config.code_density
        self.rows = (slice(0, X.shape[1]),)
        self.sq_norm = kernels.squared_norms(X.roots if isinstance(X, Observed) else X, self.rows)

    def alpha(self, D: Array) -> float:
        """Return the λ at which codes on these atoms have the requested density.

        Parameters
        ----------
        D : ndarray of shape (p, k)
        """
        grams, beta, _ = quadratics(
            self.kernels, self.X, D, self.rows, lambda: self.kernels.gram(D, self.rows)[None]
        )
        largest = to_host(beta) if self.penalty.positive else np.abs(to_host(beta))
        # At this λ and above, all codes are empty.
        top = self._largest(largest) / self.penalty.l1_ratio
        self._check_scale(top)
        if top <= 0:
            raise ParameterError(
                "alpha",
                "be a number for samples that atoms cannot explain (are they all zero?)",
                AUTO,
                got=f"'auto' and a largest correlation of {top:g}",
            )
        # The search is in units of a power of two near the top, so that no product overflows.
        unit = math.ldexp(1.0, math.frexp(top)[1] - 1)
        high, bottom = top / unit, top * RANGE / unit
        low, n_too_large = bottom, 0
        while high / low > 1 + PRECISION:
            middle = math.sqrt(low * high)
            if self._density(grams, beta, middle * unit) > self.target:
                low = middle
                continue
            high, n_too_large = middle, n_too_large + 1
            # Codes take longer the smaller λ is. So first test whether the smallest λ is enough.
            is_unreached = n_too_large == 2 and low == bottom
            if is_unreached and self._density(grams, beta, bottom * unit) <= self.target:
                break
        self.is_reached = low > bottom
        return low * unit

    def _check_scale(self, top: float) -> None:
        """Raise ScaleError if squares of the samples are out of the range of the floating type."""
        sq_norm = to_host(self.sq_norm)
        largest, limits = self._largest(sq_norm), np.finfo(sq_norm.dtype)
        if not (math.isfinite(top) and math.isfinite(largest)):
            raise ScaleError(
                "The squares of X overflow", sq_norm.dtype, "X is too large. Scale it down."
            )
        # Codes are smaller than samples: their squares must not underflow, either.
        if top > 0 and largest * math.sqrt(limits.eps) < limits.tiny:
            raise ScaleError(
                "The squares of X underflow", sq_norm.dtype, "X is too small. Scale it up."
            )

    def check(self, alpha: float) -> None:
        """Warn if there was no λ that is small enough for the atoms before."""
        if not self.is_reached:
            warnings.warn(
                f"code_density={self.target:g} is more than codes of these samples have without a "
                f"penalty; alpha is next to nothing, {alpha:.3g}.",
                UserWarning,
                stacklevel=4,
            )

    def _density(self, grams: Array, beta: Array, alpha: float) -> float:
        code = self.kernels.zeros(tuple(beta.shape), beta)
        penalty = replace(self.penalty, alpha=alpha)
        self.kernels.solve_codes(grams, beta, self.sq_norm, penalty, CODE_TOL, code)
        n_used, n_entries = self.communicator.total(
            int(np.count_nonzero(to_host(code))), math.prod(code.shape)
        )
        return n_used / n_entries

    def _largest(self, values: Array) -> float:
        """Return the largest of the values of all ranks."""
        return max(float(part.max()) for part in self.communicator.gather(values) if part.size)
