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

ATOM_POWER = 1.5
"""How much λ follows the density of atoms, which was measured to go with about λ^−½."""

LARGEST_STEP = 8.0
"""The largest factor by which λ changes at once: a density far off tells little about how far."""

NEGLIGIBLE = 1e-4
"""Entries of an atom below this fraction of its largest do not count: whether they are zero is a
matter of rounding."""

LARGEST_ALPHA = 10.0
"""The largest λ for atoms: even codes on an atom with one entry are then a twentieth of theirs."""

CLOSE = 0.05
"""A density that differs by less, relatively, needs no further trial."""

FAR = 3.0
"""A density that differs from the one requested by this factor is worth a warning."""


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
        self.n_features, self.density = n_features, self.target

    @property
    def first_alpha(self) -> float:
        """A λ to begin with."""
        return FIRST_PRODUCT / (self.target * self.n_features)

    @property
    def is_reached(self) -> bool:
        """Whether the density was nearly the one that is wanted."""
        return abs(self.density - self.target) < CLOSE * self.target

    def alpha(self, D: Array, before: float) -> float:
        """Return the λ with which atoms would be as dense as requested.

        Parameters
        ----------
        D : ndarray of shape (p, k)
        before : float
            The λ with which the atoms were learned.
        """
        size = np.abs(to_host(D))
        self.density = int(np.count_nonzero(size > NEGLIGIBLE * size.max(axis=0))) / size.size
        factor: float = (self.density / self.target) ** ATOM_POWER
        alpha = before * min(max(factor, 1 / LARGEST_STEP), LARGEST_STEP)
        return min(alpha, LARGEST_ALPHA)

    def check(self, alpha: float) -> None:
        """Warn if atoms were far from as dense as requested, by more than one feature."""
        factor = self.density / self.target
        if 1 / FAR < factor < FAR or abs(factor - 1) * self.target * self.n_features <= 1:
            return
        warnings.warn(
            f"atom_density={self.target:g} was not reached: atoms have density "
            f"{self.density:.2g} with alpha={alpha:.3g}.",
            UserWarning,
            stacklevel=4,
        )


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
