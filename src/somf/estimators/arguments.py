"""Checks of what methods are given beside the samples: weights and ids."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from somf.errors import ParameterError, ParameterTypeError
from somf.inference.coding import Pursuit
from somf.typing import Array, Ints

LEAST_WEIGHT = 1e-10
"""The smallest weight of a sample that is not zero; one over it is the largest."""


def check_weights(sample_weight: Any, n_samples: int) -> Array | None:
    """Return weights of samples, of shape (n_samples,), after a check; None if all are the same."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_samples,):
        rule = f"have one entry per sample ({n_samples})"
        raise ParameterError("sample_weight", rule, sample_weight, got=f"shape {weights.shape}")
    if not (weights.min() >= 0 and weights.max() > 0):
        rule = "be finite, not negative, and not all zero"
        raise ParameterError("sample_weight", rule, sample_weight, got=f"{weights.min()}")
    used = weights[weights > 0]
    if not LEAST_WEIGHT <= used.min() <= used.max() <= 1 / LEAST_WEIGHT:
        rule = f"be zero, or between {LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}"
        got = f"from {used.min():g} to {used.max():g}"
        raise ParameterError("sample_weight", rule, sample_weight, got=got)
    return weights


def check_pursuit(max_atoms: Any, max_error: Any, n_components: int) -> Pursuit | None:
    """Return how codes are pursued, after a check; None if they follow from the penalty.

    Parameters
    ----------
    max_atoms : int or None
    max_error : float or None
        Either is without a limit if it is None, unless both are.
    n_components : int
    """
    if max_atoms is None and max_error is None:
        return None
    is_count = isinstance(max_atoms, Integral) and int(max_atoms) >= 1
    if max_atoms is not None and not is_count:
        raise ParameterError("max_atoms", "be an integer of at least 1", max_atoms)
    if max_error is not None and not (isinstance(max_error, Real) and float(max_error) >= 0):
        raise ParameterError("max_error", "be a number of at least 0", max_error)
    count = n_components if max_atoms is None else min(int(max_atoms), n_components)
    return Pursuit(count, 0.0 if max_error is None else float(max_error))


def check_ids(sample_ids: Any, n_samples: int) -> Ints:
    """Return names of samples, of shape (n_samples,), after a check."""
    ids = np.asarray(sample_ids)
    if ids.ndim != 1 or len(ids) != n_samples:
        rule = f"have one entry per sample ({n_samples})"
        raise ParameterError("sample_ids", rule, sample_ids, got=f"shape {ids.shape}")
    if ids.dtype.kind not in "iu":
        raise ParameterTypeError("sample_ids", "be integers", sample_ids, got=str(ids.dtype))
    if ids.dtype.kind == "u" and ids.max(initial=0) > np.iinfo(np.int64).max:
        raise ParameterError("sample_ids", "be less than 2**63", sample_ids, got=str(ids.max()))
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        got = f"{values[counts > 1][0]} twice"
        raise ParameterError("sample_ids", "not repeat inside a batch", sample_ids, got=got)
    return ids.astype(np.int64)
