"""Samples of which some entries are unknown, or known more precisely than others.

Every entry has a weight ω, zero if it is unknown. The code of a sample then minimises
½ Σ_f ω_f (x_f − d_fᵀα)² + λΩ(α), a quadratic with a matrix G = Σ_f ω_f d_f d_fᵀ of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from somf.kernels.protocol import Kernels
from somf.typing import Array, Matrix, Slices


@dataclass(frozen=True)
class Observed:
    """A minibatch whose entries have weights.

    Attributes
    ----------
    values : array or csc_array of shape (b, p)
        ω x, zero where nothing is known.
    roots : array or csc_array of shape (b, p)
        √ω x.
    deviations : array or csc_array of shape (b, p)
        ω less `base`: few entries, if `base` is the weight of most of them.
    base : int
        1 where most entries are known and have no weight, else 0.
    """

    values: Matrix
    roots: Matrix
    deviations: Matrix
    base: int

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        return self.values.shape[0], self.values.shape[1]

    def __getitem__(self, samples: Any) -> Matrix:
        """Return ω x of some samples."""
        return self.values[samples]

    def each(self, change: Callable[[Matrix], Matrix]) -> "Observed":
        """Return the same with a change to all three matrices."""
        values = change(self.values)
        roots = values if self.roots is self.values else change(self.roots)
        return Observed(values, roots, change(self.deviations), self.base)


Batch = Matrix | Observed
"""A minibatch, of which all entries are known, or some."""


def quadratics(
    kernels: Kernels, X: Batch, D: Array, rows: Slices, gram: Callable[[], Array]
) -> tuple[Array, Array, Array]:
    """Return the quadratics ½ αᵀGα − αᵀβ + ½‖x‖² of samples over some features.

    Parameters
    ----------
    kernels : Kernels
    X : array, csc_array or Observed of shape (b, p)
    D : array of shape (p, k)
    rows : tuple of slices
        The features.
    gram : callable
        Returns DᵀD over these features, as (1, k, k).

    Returns
    -------
    grams : array of shape (1, k, k) or (b, k, k)
    beta : array of shape (b, k)
    sq_norm : array of shape (b,)
    """
    if not isinstance(X, Observed):
        return gram(), kernels.correlate(X, D, rows), kernels.squared_norms(X, rows)
    beta = kernels.correlate(X.values, D, rows)
    grams = kernels.weighted_grams(X.deviations, D, rows)
    if X.base:
        grams += gram()
    return grams, beta, kernels.squared_norms(X.roots, rows)


def weighted(code: Array, sample_weight: Array | None) -> Array:
    """Return codes times the weights of their samples."""
    return code if sample_weight is None else code * sample_weight[:, None]
