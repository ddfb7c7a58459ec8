"""What is read before the first iteration: which samples to learn from, and initial atoms."""

import logging
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.algorithm.initialization import initial_atoms, initial_state, non_negative_parts
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader, Source, as_source, loader_for
from somf.distributed import ALONE, Communicator
from somf.distributed.dealing import edges_of
from somf.errors import DataError, ParameterError
from somf.inference.coding import Coder
from somf.kernels import kernels_for
from somf.kernels.observed import Batch, Observed
from somf.randomness import generator
from somf.training.config import TrainingConfig
from somf.training.minibatches import dealt
from somf.training.samples import Rows, Samples
from somf.typing import Array, Ints, Matrix

logger = logging.getLogger("somf")

SVD_SAMPLES = 1000
"""Samples whose singular vectors become initial atoms, at least. A tenth of them gave worse atoms
on hyperspectral pixels; more gave no better ones on any data."""

SVD_SAMPLES_PER_ATOM = 10
"""The same for every atom of the dictionary."""

SVD_ENTRIES = 2**24
"""Entries of these samples that are held in memory, at most."""


CANDIDATES = ("random", "samples", "nndsvd")
"""The initial atoms that a trial compares. Where they are equally good at first, fits from random
ones end lower."""

TRIAL_SAMPLES = 500
"""Samples of the trial."""

MARGIN = 0.995
"""A candidate must get to this fraction of the objective of the best one before it."""

TRIAL_TOL = 1e-3
"""Relative duality gap of the codes by which it is judged."""


@dataclass(frozen=True)
class Split:
    """Samples to learn from, and samples to validate on.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        The rows to learn from, of all ranks.
    samples : Samples
        The same, with those of this rank.
    validation : Source or None
        Where the validation samples are: the same source, another one, or nowhere.
    validation_ids : ndarray of shape (m,)
        The rows in it that this rank measures.
    """

    ids: Ints
    samples: Samples
    validation: Source | None
    validation_ids: Ints


def divide(source: Source, own_rows: bool, communicator: Communicator) -> Rows:
    """Divide the rows of all ranks among them.

    Parameters
    ----------
    source : Source
    own_rows : bool
        Whether every rank has a source of its own, rather than all of them the same.
    communicator : Communicator
    """
    rank, size = communicator.rank, communicator.size
    facts = communicator.tell([*source.shape, source.dtype.name])
    if len({tuple(fact[1:] if own_rows else fact) for fact in facts}) > 1:
        rule = "have the same features and type" if own_rows else "be the same"
        raise DataError(
            f"X must {rule} on all ranks, got {'; '.join(f'{n} × {p} {t}' for n, p, t in facts)}."
        )
    counts = [fact[0] for fact in facts]
    edges = np.cumsum([0, *counts]) if own_rows else edges_of(counts[0], size)
    if np.diff(edges).min() < 1:
        raise DataError(f"X must have at least one sample for each of {size} ranks.")
    return Rows(rank, edges, has_own_source=own_rows)


def hold_out(source: Source, validation: Any, seed: int, rows: Rows | None = None) -> Split:
    """Split off validation samples.

    Parameters
    ----------
    source : Source
    rows : Rows, optional
        Which of them are on which rank; by default this process has all.
    validation : float, array-like, sparse matrix, path, Source or None
        A fraction of the samples of `source`, or other samples.
    seed : int
    """
    rows = Rows.alone(source.shape[0]) if rows is None else rows
    n, p = rows.n, source.shape[1]
    all_ids = np.arange(n)
    if validation is None:
        return Split(all_ids, rows.among(all_ids), None, all_ids[:0])
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
        ids, held_out = np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])
        return Split(ids, rows.among(ids), source, rows.among(held_out).ids)
    other = as_source(validation)
    if other.shape[1] != p:
        raise DataError(
            f"validation must have {p} features like X, got {other.shape[1]}.", "validation"
        )
    if rows.has_own_source:  # and a validation set of its own
        return Split(all_ids, rows.among(all_ids), other, np.arange(other.shape[0]))
    others = Rows(rows.rank, edges_of(other.shape[0], len(rows.edges) - 1))
    return Split(all_ids, rows.among(all_ids), other, others.own)


def start(
    config: TrainingConfig,
    source: Source,
    samples: Samples,
    seed: int,
    is_finite: bool,
    communicator: Communicator = ALONE,
) -> State:
    """Return the state before the first iteration.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    samples : Samples
        Those from which initial atoms may be taken.
    seed : int
    is_finite : bool
        Whether the source is all the data there will be, rather than the beginning of a stream.
    communicator : Communicator

    Returns
    -------
    state : State
        On the device of the configuration.
    """
    if config.tries_initial_atoms:
        D = _learned_dictionary(config, source, samples, seed, is_finite, communicator)
    else:
        D = initial_dictionary(config, source, samples, seed, communicator)
    own = samples.rows.own
    n_elsewhere = samples.rows.n - len(own)
    ids = own if is_finite else None
    return initial_state(config, D, seed, ids, n_elsewhere, config.is_on_top(samples.n))


def _learned_dictionary(
    config: TrainingConfig,
    source: Source,
    samples: Samples,
    seed: int,
    is_finite: bool,
    communicator: Communicator,
) -> Array:
    """Return the atoms of the short trial that gets furthest.

    For NMF without a penalty, initial atoms differ by several per cent, depending on the data, and
    learning from a few samples tells which are good. What has been learned in the trial is kept.
    """
    best, lowest = np.empty(0), np.inf
    for init in CANDIDATES:
        wanted = replace(config, init=init)
        D = initial_dictionary(wanted, source, samples, seed, communicator)
        objective, learned = _trial(config, D, source, samples, seed, is_finite, communicator)
        logger.info("initial atoms: %s, objective %.6g after a trial", init, objective)
        if not best.size or objective < MARGIN * lowest:  # all objectives may overflow
            best, lowest = learned, objective
    return best


def _trial(
    config: TrainingConfig,
    D: Array,
    source: Source,
    samples: Samples,
    seed: int,
    is_finite: bool,
    communicator: Communicator,
) -> tuple[float, Array]:
    """Learn from some samples; return the objective on them, and the atoms as (p, k)."""
    state = initial_state(config, D, seed, None, is_on_top=config.is_on_top(samples.n))
    kernels = kernels_for(config.device)
    loader = loader_for(config.device, source, config.dtype_for(source.dtype), state.permutation)
    solver, n = Solver(config, state, communicator), min(TRIAL_SAMPLES, samples.n)
    if is_finite:
        solver.forgetting.expect_epochs(samples.n)
    order = samples.order(loader, seed, 0)
    for minibatch in dealt(loader, samples, order, 0, n, config.batch_size):
        solver.step(minibatch.X, None, minibatch.size)
    solver.check()
    coder = Coder(
        kernels, state.D, config.penalty, TRIAL_TOL, None, config.atom_alpha, config.per_entry
    )
    own = np.sort(order[: samples.before([n])[0]])
    return coder.objective(loader, own, communicator), state.components.T


def initial_dictionary(
    config: TrainingConfig,
    source: Source,
    samples: Samples,
    seed: int,
    communicator: Communicator = ALONE,
) -> Array:
    """Return initial atoms inside the ball, features in the order of the data, as (p, k)."""
    dtype, k = config.dtype_for(source.dtype), config.n_components
    if isinstance(config.init, str):
        loader, init = loader_for("cpu", source, dtype), config.init_in_use
        if init == "nndsvd":
            rows = _parts_then_samples(loader, samples, k, seed, communicator)
        else:
            n_samples = k if init == "samples" else 0
            rows = _random_samples(loader, samples, n_samples, seed, communicator)
        return initial_atoms(rows, k, config.ball, seed)
    if config.init.shape[1] != source.shape[1]:
        raise ParameterError(
            "init",
            f"have n_features={source.shape[1]} columns",
            config.init,
            got=str(config.init.shape[1]),
        )
    return np.stack([config.ball.project(atom) for atom in config.init.astype(dtype)], axis=1)


def _parts_then_samples(
    loader: Loader, samples: Samples, n_components: int, seed: int, communicator: Communicator
) -> Array:
    """Return the parts of singular vectors of some samples, and samples if these are too few."""
    most = int(SVD_ENTRIES / loader.source.entries_per_row)
    wanted = max(SVD_SAMPLES, SVD_SAMPLES_PER_ATOM * n_components)
    # The first samples of an epoch: few chunks have to be read for them.
    n_own = samples.first(max(n_components, min(wanted, most)))[samples.rows.rank]
    order = samples.order(loader, seed, 0)[:n_own]
    X: Any = loader.load(np.sort(order)) if len(order) else loader.nothing()
    X = gathered(X.values if isinstance(X, Observed) else X, communicator)
    parts = non_negative_parts(X, n_components, seed)
    n_missing = n_components - len(parts)
    rows = np.concatenate([parts, _dense(X[:n_missing])]) if n_missing else parts
    # All ranks have computed the same, up to rounding; rank 0 decides.
    return communicator.sum(rows if communicator.rank == 0 else np.zeros_like(rows))[0]


def _random_samples(
    loader: Loader, samples: Samples, n_samples: int, seed: int, communicator: Communicator
) -> Array:
    """Return some samples, as many from each rank as it has of all; fewer if there are no more."""
    counts, rank = samples.first(n_samples), samples.rows.rank
    chosen = samples.generator(seed, "init").permutation(samples.ids)[: counts[rank]]
    rows = np.zeros((int(counts.sum()), loader.source.shape[1]), loader.dtype)
    if len(chosen):
        first = int(counts[:rank].sum())
        rows[first : first + len(chosen)] = _dense(loader.load(chosen))
    return communicator.sum(rows)[0]


def gathered(X: Matrix, communicator: Communicator) -> Matrix:
    """Return the samples of all ranks, one rank after the other."""
    if communicator.size == 1:
        return X
    if isinstance(X, np.ndarray):
        return np.concatenate(communicator.gather(X))
    rows = sp.csr_array(X)
    arrays = (rows.data, rows.indices.astype(np.int64), np.diff(rows.indptr).astype(np.int64))
    data, indices, lengths = (np.concatenate(communicator.gather(array)) for array in arrays)
    indptr = np.append(0, np.cumsum(lengths))
    return sp.csr_array((data, indices, indptr), shape=(len(lengths), X.shape[1])).tocsc()


def _dense(X: Batch) -> Array:
    """Return samples as an array, with zeros where nothing is known."""
    X = X.values if isinstance(X, Observed) else X
    return X if isinstance(X, np.ndarray) else X.toarray()
