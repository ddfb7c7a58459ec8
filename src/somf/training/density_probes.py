"""What density a λ gives: that of codes on atoms, or that of the atoms themselves.

A probe looks at the atoms of a trial (see `somf.training.alpha_search`), and says which λ would
suit them better.
"""

import math
import warnings
from dataclasses import replace

import numpy as np

from somf.algorithm.config import AUTO
from somf.distributed import ALONE, Communicator
from somf.errors import ParameterError, ScaleError
from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.kernels.observed import Batch, Observed, quadratics
from somf.training.config import TrainingConfig
from somf.typing import Array

CODE_TOL = 1e-4
"""Relative duality gap of the codes whose density is measured."""

RANGE = 1e-5
"""The search goes from the λ at which all codes are empty down to this fraction of it."""

PRECISION = 0.01
"""Relative precision of the search."""

FIRST_PRODUCT = 0.4
"""The first λ for atoms times the entries that they shall have.

Codes on an atom with m equal entries shrink by the factor 1 / (1 + 2λm), so that m is decided by
the product λm, and the scale of X does not matter. This value was seen on images, spectra and maps.
"""

ATOM_POWER = 1.3
"""How much ln λ follows the logit of the density of atoms, before two trials tell it.

A logit, log d/(1 − d), was seen to fall by 1.3 to 2.5 when λ grows by a factor of ten, on images,
spectra and maps, over the whole range of densities; the density itself hardly changes near one.
"""

POWERS = (0.8, 4.0)
"""The least and the largest of it that two trials can tell."""

LARGEST_STEP = 8.0
"""The largest factor by which λ changes at once: a density far off tells little about how far."""

NEGLIGIBLE = 1e-4
"""Entries of an atom below this fraction of its largest do not count: whether they are zero is a
matter of rounding."""

LARGEST_ALPHA = 10.0
"""The largest λ for atoms: even codes on an atom with one entry are then a twentieth of theirs."""

CLOSE = 0.05
"""A density that differs by less, relatively, needs no further trial."""


class AtomProbe:
    """The density of atoms, which only learning tells: λ follows it from one trial to the next.

    Parameters
    ----------
    target : float
        The density that is wanted.
    n_features : int
    """

    def __init__(self, target: float, n_features: int) -> None:
        self.target = max(target, 1 / n_features)  # atoms have at least one entry
        self.n_features, self.power = n_features, ATOM_POWER
        self.found: list[tuple[float, float]] = []  # ln λ, and the logit of the density
        self.is_close = self.is_reached = False

    @property
    def first_alpha(self) -> float:
        """A λ to begin with."""
        return FIRST_PRODUCT / (self.target * self.n_features)

    def alpha(self, D: Array, before: float) -> float:
        """Return the λ with which atoms would be as dense as requested.

        Parameters
        ----------
        D : ndarray of shape (p, k)
        before : float
            The λ with which the atoms were learned.
        """
        density = density_of_atoms(D)
        was_close = self.is_close
        self.is_close = abs(density - self.target) < CLOSE * self.target
        self.is_reached = was_close and self.is_close
        self.found.append((math.log(before), _logit(density, D.shape[0])))
        if len(self.found) > 1:
            (x0, y0), (x1, y1) = self.found[-2:]
            if (x1 - x0) * (y0 - y1) > 0:
                least, most = POWERS
                self.power = min(max((x1 - x0) / (y0 - y1), least), most)
        return next_alpha(before, density, self.target, D.shape[0], self.power)


def next_alpha(
    alpha: float, density: float, target: float, n_features: int, power: float = ATOM_POWER
) -> float:
    """Return the λ for a density of atoms, from that of atoms that were learned with another λ."""
    step = power * (_logit(density, n_features) - _logit(target, n_features))
    largest = math.log(LARGEST_STEP)
    return min(alpha * math.exp(min(max(step, -largest), largest)), LARGEST_ALPHA)


def density_of_atoms(D: Array) -> float:
    """Return the fraction of the entries of atoms, in columns, that are not negligible."""
    size = np.abs(to_host(D))
    return int(np.count_nonzero(size > NEGLIGIBLE * size.max(axis=0))) / size.size


def _logit(density: float, n_features: int) -> float:
    """Return the logit of a density, of which none and all count as half an entry less."""
    least = 0.5 / n_features
    density = min(max(density, least), 1 - least)
    return math.log(density / (1 - density))


class CodeProbe:
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
    top : float
        The λ at which all codes are empty, in the last search.
    """

    is_reached: bool
    top: float

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
        self.top = top
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

    @property
    def sq_norms(self) -> Array:
        """‖x‖² of the samples, of shape (b,), on the host."""
        return to_host(self.sq_norm)

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
