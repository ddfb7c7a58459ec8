"""Checks of what methods are given beside the samples: weights and ids."""

from typing import Any

import numpy as np

from somf.errors import ParameterError, ParameterTypeError
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
