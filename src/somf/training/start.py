"""Before the first iteration: which samples to learn from, and the state with initial atoms."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from somf.algorithm.initialization import initial_state
from somf.algorithm.state import State
from somf.data import Source, as_source
from somf.distributed import ALONE, Communicator
from somf.distributed.dealing import edges_of
from somf.errors import DataError, ParameterError
from somf.randomness import generator
from somf.training.config import TrainingConfig
from somf.training.initial_dictionary import initial_dictionary
from somf.training.initial_trials import InitialTrials
from somf.training.samples import Rows, Samples
from somf.typing import Array, Ints


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
    sample_weight: Array | None = None,
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
    sample_weight : ndarray of shape (n,), optional
        How much each row of the source counts.

    Returns
    -------
    state : State
        On the device of the configuration.
    """
    if config.tries_initial_atoms:
        trials = InitialTrials(config, source, samples, seed, communicator, sample_weight)
        D = trials.best()
    else:
        D = initial_dictionary(config, source, samples, seed, communicator)
    own = samples.rows.own
    n_elsewhere = samples.rows.n - len(own)
    ids = own if is_finite else None
    return initial_state(config, D, seed, ids, n_elsewhere, config.is_on_top(samples.n))
