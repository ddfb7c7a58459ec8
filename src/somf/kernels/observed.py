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
    kernels: Kernels,
    X: Batch,
    D: Array,
    rows: Slices,
    gram: Callable[[], Array],
    per_entry: bool = False,
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
    per_entry : bool
        Whether to divide everything by the weight of all known entries of the sample. A penalty
        then counts for every known entry.

    Returns
    -------
    grams : array of shape (1, k, k) or (b, k, k)
    beta : array of shape (b, k)
    sq_norm : array of shape (b,)
    """
    if not isinstance(X, Observed):
        parts = gram(), *kernels.observe(X, D, rows)
        return tuple(part / X.shape[1] for part in parts) if per_entry else parts
    beta = kernels.correlate(X.values, D, rows)
    grams = kernels.weighted_grams(X.deviations, D, rows)
    if X.base:
        grams += gram()
    sq_norm = kernels.squared_norms(X.roots, rows)
    if per_entry:
        weight = known_weights(kernels, X, D)
        grams, beta, sq_norm = (
            grams / weight[:, None, None],
            beta / weight[:, None],
            sq_norm / weight,
        )
    return grams, beta, sq_norm


def known_weights(kernels: Kernels, X: Batch, like: Array) -> Array:
    """Return the sum of the weights of all entries of every sample; one where nothing is known.

    Parameters
    ----------
    kernels : Kernels
    X : array, csc_array or Observed of shape (b, p)
    like : array
        Has the wanted type.

    Returns
    -------
    weights : array of shape (b,)
    """
    p = X.shape[1]
    if not isinstance(X, Observed):
        weights: Array = kernels.zeros((X.shape[0],), like)
        weights += p
        return weights
    ones = kernels.zeros((p, 1), like)
    ones += 1
    weights = kernels.correlate(X.deviations, ones, (slice(0, p),))[:, 0]
    weights += X.base * p
    weights += weights <= 0
    return weights


def atom_costs(kernels: Kernels, X: Batch, D: Array, atom_alpha: float) -> Array:
    """Return ρ Σ_f ω_f ‖d_f‖² of every sample: the penalty on atoms.

    Parameters
    ----------
    kernels : Kernels
    X : array, csc_array or Observed of shape (b, p)
    D : array of shape (p, k)
    atom_alpha : float

    Returns
    -------
    costs : array of shape (b,)
    """
    squares = atom_alpha * (D * D).sum(axis=1)
    if not isinstance(X, Observed):
        costs: Array = kernels.zeros((X.shape[0],), D)
        costs += squares.sum()
        return costs
    everything = (slice(0, len(D)),)
    costs = kernels.correlate(X.deviations, squares[:, None], everything)[:, 0]
    costs += X.base * squares.sum()
    return costs


def count_known(kernels: Kernels, n_known: Array, X: Batch, weight: Array, decay: float) -> None:
    """Do n ← decay n + Σ s ω for every feature, over samples of weight s.

    Parameters
    ----------
    kernels : Kernels
    n_known : array of shape (p,), overwritten
    X : array, csc_array or Observed of shape (b, p)
    weight : array of shape (b,)
    decay : float
    """
    base = 1
    if isinstance(X, Observed):
        kernels.accumulate(n_known[:, None], X.deviations, weight[:, None], decay)
        base = X.base
    else:
        n_known *= decay
    n_known += base * weight.sum()


def values_of(X: Batch) -> Matrix:
    """Return ω x of a minibatch, zero where nothing is known."""
    return X.values if isinstance(X, Observed) else X


def weighted(code: Array, sample_weight: Array | None) -> Array:
    """Return codes times the weights of their samples."""
    return code if sample_weight is None else code * sample_weight[:, None]
