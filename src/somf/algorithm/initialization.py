"""Before the first iteration: initial atoms, and a state that has seen nothing."""

import numpy as np

from somf.algorithm.config import Config
from somf.algorithm.dictionary import Dictionary
from somf.algorithm.masks import masks_for
from somf.algorithm.memory import SampleMemory
from somf.algorithm.regression import gram_cache_for, remembered_gram_size
from somf.algorithm.state import State
from somf.kernels import kernels_for
from somf.penalties import AtomBall
from somf.randomness import generator
from somf.typing import Array, Ints

LEAST_PATIENCE = 1000
"""Samples in a row that may leave an atom unused, at least."""

PATIENCE_PER_ATOM = 10
"""The same for every atom of the dictionary: an atom that one sample in a hundred uses stays."""


def initial_atoms(samples: Array, n_components: int, ball: AtomBall, seed: int) -> Array:
    """Return samples as initial atoms, and random directions where there are too few samples.

    Parameters
    ----------
    samples : ndarray of shape (m, p)
        At most `n_components` are used; those that are zero are not.
    n_components : int
    ball : AtomBall
    seed : int

    Returns
    -------
    D : ndarray of shape (p, k)
        Atoms on the border of the ball.
    """
    p = samples.shape[1]
    D = np.zeros((p, n_components), dtype=samples.dtype)
    D[:, : len(samples)] = samples[:n_components].T
    D = ball.normalise(D)
    empty = np.flatnonzero(~D.any(axis=0))
    if empty.size:
        rng = generator(seed, "atoms")
        directions = rng.standard_normal((p, empty.size)).astype(D.dtype)
        D[:, empty] = ball.normalise(np.abs(directions) if ball.positive else directions)
    return D


def initial_state(config: Config, D: Array, seed: int, sample_ids: Ints | None) -> State:
    """Return a state with these atoms that has seen no sample.

    Parameters
    ----------
    config : Config
    D : ndarray of shape (p, k)
        Initial atoms inside the ball, features in the order of the data.
    seed : int
    sample_ids : ndarray of shape (n,), or None
        All samples of a finite data set; None for a stream.

    Returns
    -------
    state : State
        On the device of the configuration.
    """
    p, k = D.shape
    kernels, masks = kernels_for(config.device), masks_for(config, p, seed)
    R = len(masks.blocks)
    state = State(
        seed=seed,
        n_iter=0,
        n_samples_seen=0,
        n_averaged=0,
        rung=0,
        permutation=masks.permutation,
        D=np.ascontiguousarray(D if masks.permutation is None else D[masks.permutation]),
        B=np.zeros_like(D, order="C"),
        C=np.zeros((k, k), dtype=D.dtype),
        norms=np.zeros((R, k), dtype=D.dtype),
        grams=np.zeros((R, k, k), dtype=D.dtype),
        aged_grams=np.zeros((R, k, k), dtype=D.dtype),
        last_used=np.zeros(k, dtype=np.int64),
        patience=np.full(k, _patience(k, sample_ids)),
        n_users=np.zeros(k, dtype=np.int64),
        memory=None,
    ).on_device(kernels)
    gram_cache = gram_cache_for(config, state, kernels, masks)
    gram_cache.recompute()
    dictionary = Dictionary(state, kernels, config.ball, masks.blocks)
    dictionary.update_norms(range(R), gram_cache.grams_of_blocks)
    if config.remembers_samples:
        ids = np.empty(0, dtype=np.int64) if sample_ids is None else sample_ids
        gram_size = remembered_gram_size(config, gram_cache)
        state.memory = SampleMemory.blank(ids, gram_size, kernels, state.C)
    return state


def _patience(k: int, sample_ids: Ints | None) -> int:
    """Return how many samples in a row may leave an atom unused before it is replaced.

    A pass over all samples of a finite data set proves that none of them uses an atom.
    """
    patience = max(LEAST_PATIENCE, PATIENCE_PER_ATOM * k)
    return patience if sample_ids is None else min(patience, len(sample_ids))
