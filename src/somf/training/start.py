"""What is read before the first iteration: which samples to learn from, and initial atoms."""

import logging
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from somf.algorithm.initialization import initial_atoms, initial_state, non_negative_parts
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader, Source, as_source, loader_for
from somf.errors import DataError, ParameterError
from somf.inference.coding import Coder
from somf.kernels import kernels_for
from somf.randomness import generator
from somf.training.config import TrainingConfig
from somf.training.minibatches import one_pass
from somf.typing import Array, Ints, Matrix

logger = logging.getLogger("somf")

SVD_SAMPLES = 1000
"""Samples whose singular vectors become initial atoms, at least. A tenth of them gave worse atoms
on hyperspectral pixels; more gave no better ones on any data."""

SVD_SAMPLES_PER_ATOM = 10
"""The same for every atom of the dictionary."""

SVD_ENTRIES = 2**24
"""Entries of these samples that are held in memory, at most."""


TRIAL_SAMPLES = 500
"""Samples of the trial that chooses initial atoms."""

MARGIN = 0.995
"""Parts of singular vectors must get to this fraction of the objective of samples."""

TRIAL_TOL = 1e-3
"""Relative duality gap of the codes by which it is judged."""


@dataclass(frozen=True)
class Split:
    """Samples to learn from, and samples to validate on.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        The rows to learn from.
    validation : Source or None
        Where the validation samples are: the same source, another one, or nowhere.
    validation_ids : ndarray of shape (m,)
        Their rows in it.
    """

    ids: Ints
    validation: Source | None
    validation_ids: Ints


def hold_out(source: Source, validation: Any, seed: int) -> Split:
    """Split off validation samples.

    Parameters
    ----------
    source : Source
    validation : float, array-like, sparse matrix, path, Source or None
        A fraction of the samples of `source`, or other samples.
    seed : int
    """
    n, p = source.shape
    all_ids = np.arange(n)
    if validation is None:
        return Split(all_ids, None, all_ids[:0])
    if isinstance(validation, Real):
        fraction = float(validation)
        n_held_out = round(fraction * n) if 0 < fraction < 1 else 0
        if not 0 < n_held_out < n:
            raise ParameterError(
                "validation",
                "be a fraction that leaves samples on both sides, or data",
                validation,
                got=f"{validation} of {n} samples",
            )
        shuffled = generator(seed, "validation").permutation(n)
        return Split(np.sort(shuffled[n_held_out:]), source, np.sort(shuffled[:n_held_out]))
    other = as_source(validation)
    if other.shape[1] != p:
        raise DataError(
            f"validation must have {p} features like X, got {other.shape[1]}.", "validation"
        )
    return Split(all_ids, other, np.arange(other.shape[0]))


def start(config: TrainingConfig, source: Source, ids: Ints, seed: int, is_finite: bool) -> State:
    """Return the state before the first iteration.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    ids : ndarray of int
        The samples from which initial atoms may be taken.
    seed : int
    is_finite : bool
        Whether the source is all the data there will be, rather than the beginning of a stream.

    Returns
    -------
    state : State
        On the device of the configuration.
    """
    if config.tries_initial_atoms:
        D = _best_dictionary(config, source, ids, seed)
    else:
        D = initial_dictionary(config, source, ids, seed)
    return initial_state(config, D, seed, np.arange(source.shape[0]) if is_finite else None)


def _best_dictionary(config: TrainingConfig, source: Source, ids: Ints, seed: int) -> Array:
    """Return those initial atoms from which a short trial gets further.

    For NMF without a penalty, parts of singular vectors or samples are better by several per cent,
    depending on the data, and one pass over some samples tells which.
    """
    order = Loader(source, config.dtype_for(source.dtype)).order(ids, seed, 0)[:TRIAL_SAMPLES]
    best, lowest = np.empty(0), np.inf
    for init in ("samples", "nndsvd"):
        D = initial_dictionary(replace(config, init=init), source, ids, seed)
        objective = _trial(config, D, source, order, seed)
        logger.info("initial atoms: %s, objective %.6g after a trial", init, objective)
        if objective < MARGIN * lowest:
            best, lowest = D, objective
    return best


def _trial(config: TrainingConfig, D: Array, source: Source, order: Ints, seed: int) -> float:
    """Learn from some samples; return the objective on them."""
    state, kernels = initial_state(config, D.copy(), seed, None), kernels_for(config.device)
    loader = loader_for(config.device, source, config.dtype_for(source.dtype), state.permutation)
    solver = Solver(config, state)
    for minibatch in one_pass(loader, order, config.batch_size):
        solver.step(minibatch.X)
    solver.check()
    return Coder(kernels, state.D, config.penalty, TRIAL_TOL).objective(loader, np.sort(order))


def initial_dictionary(config: TrainingConfig, source: Source, ids: Ints, seed: int) -> Array:
    """Return initial atoms inside the ball, features in the order of the data, as (p, k)."""
    dtype, k = config.dtype_for(source.dtype), config.n_components
    if isinstance(config.init, str):
        loader = Loader(source, dtype)
        if config.init_in_use == "nndsvd":
            rows = _parts_then_samples(loader, ids, k, seed)
        else:
            chosen = generator(seed, "init").permutation(ids)
            rows = _dense(loader.load(chosen[: k if config.init_in_use == "samples" else 0]))
        return initial_atoms(rows, k, config.ball, seed)
    if config.init.shape[1] != source.shape[1]:
        raise ParameterError(
            "init",
            f"have n_features={source.shape[1]} columns",
            config.init,
            got=str(config.init.shape[1]),
        )
    return np.stack([config.ball.project(atom) for atom in config.init.astype(dtype)], axis=1)


def _parts_then_samples(loader: Loader, ids: Ints, n_components: int, seed: int) -> Array:
    """Return the parts of singular vectors of some samples, and samples if these are too few."""
    most = int(SVD_ENTRIES / loader.source.entries_per_row)
    wanted = max(SVD_SAMPLES, SVD_SAMPLES_PER_ATOM * n_components)
    # The first samples of an epoch: few chunks have to be read for them.
    order = loader.order(ids, seed, 0)[: max(n_components, min(wanted, most))]
    X = loader.load(np.sort(order))
    parts = non_negative_parts(X, n_components, seed)
    n_missing = n_components - len(parts)
    return np.concatenate([parts, _dense(X[:n_missing])]) if n_missing else parts


def _dense(X: Matrix) -> Array:
    return X if isinstance(X, np.ndarray) else X.toarray()
