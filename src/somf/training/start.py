"""What is read before the first iteration: which samples to learn from, and initial atoms."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from somf.algorithm.initialization import initial_atoms, initial_state
from somf.algorithm.state import State
from somf.data import Loader, Source, as_source
from somf.errors import DataError, ParameterError
from somf.randomness import generator
from somf.training.config import TrainingConfig
from somf.typing import Array, Ints


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
    D = initial_dictionary(config, source, ids, seed)
    return initial_state(config, D, seed, np.arange(source.shape[0]) if is_finite else None)


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
        raise ParameterError(
            "init",
            f"have n_features={source.shape[1]} columns",
            config.init,
            got=str(config.init.shape[1]),
        )
    return np.stack([config.ball.project(atom) for atom in config.init.astype(dtype)], axis=1)
