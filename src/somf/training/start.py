"""Before the first iteration: which samples, which atoms, and an empty state."""

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from somf.algorithm.config import AUTO, Config
from somf.algorithm.dictionary import initial_atoms
from somf.algorithm.solver import Solver, masks_for
from somf.algorithm.state import State
from somf.data import Loader, Source, as_source
from somf.errors import DataError, ParameterError
from somf.kernels import kernels_for
from somf.randomness import generator
from somf.training.config import TrainingConfig
from somf.typing import Array, Ints


def hold_out(source: Source, validation: Any, seed: int) -> tuple[Ints, Source | None, Ints]:
    """Return the samples to learn from, and the source and samples to validate on."""
    n, p = source.shape
    everything = np.arange(n)
    if validation is None:
        return everything, None, everything[:0]
    if isinstance(validation, Real):
        fraction = float(validation)
        n_held_out = round(fraction * n)
        if not (0 < fraction < 1 and 0 < n_held_out < n):
            raise ParameterError(
                "validation",
                "be a fraction that leaves samples on both sides, or data",
                validation,
                got=f"{validation} of {n} samples",
            )
        shuffled = generator(seed, "validation").permutation(n)
        return np.sort(shuffled[n_held_out:]), source, np.sort(shuffled[:n_held_out])
    other = as_source(validation)
    if other.shape[1] != p:
        raise DataError(
            f"validation must have {p} features like X, got {other.shape[1]}.", "validation"
        )
    return everything, other, np.arange(other.shape[0])


def start(config: TrainingConfig, source: Source, ids: Ints, seed: int, is_finite: bool) -> State:
    """Return the state before the first iteration.

    Parameters
    ----------
    config : Config
    source : Source
    ids : ndarray of int
        The samples from which initial atoms may be taken.
    seed : int
    is_finite : bool
        Whether the source is all the data there will be, rather than the beginning of a stream.
    """
    D = initial_dictionary(config, source, ids, seed)
    return blank_state(config, D, seed, np.arange(source.shape[0]) if is_finite else None)


def initial_dictionary(config: TrainingConfig, source: Source, ids: Ints, seed: int) -> Array:
    """Return initial atoms inside the ball, features in the order of the data, as (p, k)."""
    dtype = config.dtype_for(source.dtype)
    if isinstance(config.init, str):
        n_samples = config.n_components if config.init == "samples" else 0
        chosen = generator(seed, "init").permutation(ids)[:n_samples]
        rows = Loader(source, dtype).load(chosen)
        samples = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return initial_atoms(samples, config.n_components, config.ball, seed)
    if config.init.shape[1] != source.shape[1]:
        raise ValueError(
            f"init must have n_features={source.shape[1]} columns, got {config.init.shape[1]}."
        )
    return np.stack([config.ball.project(atom) for atom in config.init.astype(dtype)], axis=1)


def blank_state(config: Config, D: Array, seed: int, sample_ids: Ints | None) -> State:
    """Return a state with these atoms that has seen nothing.

    Parameters
    ----------
    config : Config
    D : ndarray of shape (p, k)
        Initial atoms inside the ball, features in the order of the data.
    seed : int
    sample_ids : ndarray of shape (n,), or None
        All samples of a finite data set; None for a stream.
    """
    p, k = D.shape
    # An atom of use to one sample in a hundred is left alone. After a pass over all samples there
    # are, it is certain that nobody wants it.
    patience = max(1000, 10 * k)
    if sample_ids is not None:
        patience = min(patience, len(sample_ids))
    masks = masks_for(config, p, seed)
    n_blocks = len(masks.blocks)
    state = State(
        seed=seed,
        n_iter=0,
        n_samples_seen=0,
        n_averaged=0,
        n_halvings=0,
        permutation=masks.permutation,
        D=np.ascontiguousarray(D if masks.permutation is None else D[masks.permutation]),
        B=np.zeros_like(D, order="C"),
        C=np.zeros((k, k), dtype=D.dtype),
        norms=np.zeros((n_blocks, k), dtype=D.dtype),
        grams=np.zeros((n_blocks, k, k), dtype=D.dtype),
        aged_grams=np.zeros((n_blocks, k, k), dtype=D.dtype),
        last_used=np.zeros(k, dtype=np.int64),
        patience=np.full(k, patience),
        n_users=np.zeros(k, dtype=np.int64),
        memory=None,
    )
    solver = Solver(config, state.on_device(kernels_for(config.device)))
    solver.refresh()
    state = solver.state
    if config.remembers_samples:
        nobody = np.empty(0, dtype=np.int64)
        state.memory = solver.blank_memory(nobody if sample_ids is None else sample_ids)
    return state


def check_state(config: Config, state: State, n_features: int, dtype: np.dtype[Any]) -> None:
    """Raise ValueError unless a state, whoever has written it, is one that a fit can have left.

    Parameters
    ----------
    config : Config
    state : State
    n_features : int
    dtype : numpy.dtype
        The floating type of the fit.
    """
    D = state.arrays()["D"]
    if D.shape != (n_features, config.n_components) or D.dtype != dtype:
        raise ValueError(f"its dictionary is {D.dtype} of shape {D.shape}")
    if not all(0 <= counter < 2**63 for counter in state.counters().values()):
        raise ValueError("its counters are negative or too large")
    if state.n_halvings > (config.strongest_reduction if config.reduction == AUTO else 0):
        raise ValueError(f"its reduction has been halved {state.n_halvings} times")
    solver = Solver(replace(config, device="cpu"), state)  # it is as it came from the file
    masks = masks_for(config, n_features, state.seed)  # as they were before blocks were united
    order = masks.permutation
    dealt = None if order is None else [order[block] for block in masks.blocks]
    state.check(dealt, len(solver.masks.blocks), solver.remembered_gram_size)
