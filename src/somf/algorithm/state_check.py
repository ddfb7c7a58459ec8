"""A check of states from files: can a fit have reached them."""

import math
from typing import Any

import numpy as np

from somf.algorithm.config import Config
from somf.algorithm.drift import followed_rows
from somf.algorithm.masks import masks_for
from somf.algorithm.phases import Phase
from somf.algorithm.schedule import TOP
from somf.algorithm.state import COUNTERS, State
from somf.kernels.pairs import n_pairs
from somf.typing import Array, Ints

INTEGERS = {"last_used", "patience", "n_users", "memory.ids", "memory.n_visits"}
"""Arrays of a state that hold integers; all others hold floats."""

COUNTS = {"last_used", "patience", "n_users", "memory.n_visits"}
"""Arrays of a state that count samples or visits."""

MOST_COUNTED = 2**53
"""No fit counts so far; sums of a few such numbers do not overflow."""

ENTRIES_AT_ONCE = 2**22
"""Entries of an array that are checked at once: those of samples may be larger than memory."""


def check_state(config: Config, state: State, n_features: int, dtype: np.dtype[Any]) -> None:
    """Raise ValueError unless a fit can have reached a state.

    Parameters
    ----------
    config : Config
        Of the fit.
    state : State
        On the host, as it was read from a file.
    n_features : int
    dtype : numpy.dtype
        The floating type of the fit.
    """
    D = state.D
    if D.shape != (n_features, config.n_components) or D.dtype != dtype:
        raise ValueError(f"its dictionary is {D.dtype} of shape {D.shape}")
    if not all(0 <= getattr(state, name) <= MOST_COUNTED for name in COUNTERS):
        raise ValueError("its counters are negative or too large")
    if not _may_remember(state):
        raise ValueError("its record of what it remembers is impossible")
    if max(state.base_weight, state.is_settled) > 1:
        raise ValueError("its base weight or its ladder is impossible")
    if state.rung > config.last_rung:
        raise ValueError(f"its reduction is on rung {state.rung} of the ladder")
    if state.phase not in tuple(Phase) or (state.phase and not config.may_gather):
        raise ValueError(f"its surrogate is in phase {state.phase}")
    if state.phase == Phase.INCREMENTAL and state.memory is None:
        raise ValueError("its state remembers no samples")
    masks = masks_for(config, n_features, state.seed)
    order = masks.permutation
    features = None if order is None else [order[block] for block in masks.blocks]
    is_united = state.rung == TOP
    was_never_divided = is_united and state.is_settled and state.permutation is None
    if not was_never_divided and not _is_permutation_of_blocks(state.permutation, features):
        raise ValueError("the permutation of its state is not that of its seed")
    n_blocks = 1 if is_united else len(masks.blocks)
    averages = config.estimator_in_use == "averaged" and not is_united
    has_matrices = config.masks == "bernoulli" or config.has_weights
    per_gram = config.n_components**2 if has_matrices else n_blocks
    _check_arrays(state, n_blocks, per_gram if averages else 0, config)


def _check_arrays(state: State, n_blocks: int, gram_size: int, config: Config) -> None:
    """Check shapes, types and finiteness of all arrays but the permutation."""
    (p, k), R = state.D.shape, n_blocks
    has_weights, has_counts = config.has_weights, config.atom_alpha > 0
    n = 0 if state.memory is None else len(state.memory.ids)
    followed = len(followed_rows(p, k)), k
    shapes = {
        "D": (p, k),
        "B": (p, k),
        "C": (k, k),
        "C_by_feature": (p, n_pairs(k)) if has_weights else (0, 0),
        "n_known": (p,) if has_counts else (0,),
        "offsets": (p,) if state.offsets.size else (0,),
        "D_before": (p, k) if state.phase and state.D_before.size else (0, 0),
        "rows_before": followed if state.window_start else (0, 0),
        "last_move": followed if state.window_start and state.last_move.size else (0, 0),
        "norms": (R, k),
        "grams": (R, k, k),
        "aged_grams": (R, k, k),
        "last_used": (k,),
        "patience": (k,),
        "n_users": (k,),
        "memory.ids": (n,),
        "memory.n_visits": (n,),
        "memory.beta": (n, k if gram_size else 0),
        "memory.sq_norm": (n,),
        "memory.gram": (n, gram_size),
        "memory.code": (n, k),
        "memory.weight": (n,),
    }
    arrays = state.arrays()
    arrays.pop("permutation", None)
    for name, array in arrays.items():
        dtype = np.dtype(np.int64) if name in INTEGERS else state.D.dtype
        if array.shape != shapes[name] or array.dtype != dtype:
            raise ValueError(f"{name} of its state must be {dtype} of shape {shapes[name]}")
        may_be_unknown = name == "last_move"
        if name not in INTEGERS and not _all_finite(array, may_be_unknown):
            raise ValueError(f"{name} of its state must be finite")
        if name in COUNTS and not 0 <= array.min(initial=0) <= array.max(initial=0) <= MOST_COUNTED:
            raise ValueError(f"{name} of its state is negative or too large")
    if state.memory is not None and len(np.unique(state.memory.ids)) < n:
        raise ValueError("its state remembers samples that cannot be")


def _may_remember(state: State) -> bool:
    """Return whether an average over a stream can remember so much, and grow so."""
    is_known = 0 <= state.n_remembered <= max(state.n_samples_seen, 1)
    may_grow = abs(state.growth) <= MOST_COUNTED
    return is_known and may_grow and state.window_start <= state.n_samples_seen


def _is_permutation_of_blocks(permutation: Array | None, features: list[Ints] | None) -> bool:
    """Return whether a permutation has the features of every block in that block.

    Older versions had another order inside a block.
    """
    if permutation is None or features is None:
        return permutation is None and features is None
    if permutation.dtype != np.int64 or permutation.shape != (sum(map(len, features)),):
        return False
    found = np.split(permutation, np.cumsum([len(block) for block in features])[:-1])
    return all(np.array_equal(np.sort(a), b) for a, b in zip(found, features, strict=True))


def _all_finite(array: Array, may_be_unknown: bool = False) -> bool:
    """Return whether no entry is infinite, or NaN, unless that stands for an unknown number."""
    step = max(1, ENTRIES_AT_ONCE // max(1, math.prod(array.shape[1:])))
    parts = (array[i : i + step] for i in range(0, len(array), step))
    if may_be_unknown:
        return not any(np.isinf(part).any() for part in parts)
    return all(np.isfinite(part).all() for part in parts)
