"""Before the first iteration: initial atoms, and a state that has seen nothing."""

import logging
import math
import tempfile
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.algorithm.config import Config
from somf.algorithm.dictionary import Dictionary
from somf.algorithm.masks import masks_for
from somf.algorithm.memory import SampleMemory
from somf.algorithm.regression import gram_cache_for
from somf.algorithm.schedule import TOP
from somf.algorithm.state import State
from somf.kernels import kernels_for
from somf.kernels.pairs import n_pairs
from somf.penalties import AtomBall
from somf.randomness import generator
from somf.scratch import scratch_zeros
from somf.typing import Array, Ints, Matrix

logger = logging.getLogger("somf")

LEAST_PATIENCE = 1000
"""Samples in a row that may leave an atom unused, at least."""

PATIENCE_PER_ATOM = 10
"""The same for every atom of the dictionary: an atom that one sample in a hundred uses stays."""


EXTRA_DIRECTIONS = 10
"""Directions of the randomized SVD beyond those that are wanted."""

POWER_ITERATIONS = 3
"""Power iterations of the randomized SVD. More gave no better atoms."""


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


def non_negative_parts(samples: Matrix, n_components: int, seed: int) -> Array:
    """Return the non-negative parts of singular vectors (NNDSVD, Boutsidis and Gallopoulos, 2008).

    A singular pair (u, v) has two non-negative parts, max(u, 0) max(v, 0)ᵀ and the same with −u and
    −v. The larger of them gives an atom. So the atoms differ from each other from the beginning,
    and together they span what the samples have in common.

    Parameters
    ----------
    samples : ndarray or csc_array of shape (m, p)
    n_components : int
    seed : int
        Of the randomized SVD (Halko, Martinsson and Tropp, 2011).

    Returns
    -------
    parts : ndarray of shape (min(m, p, k), p)
        In the order of the singular values; those of a singular value of zero mean nothing.
    """
    X = _scaled(samples)
    U, V = _singular_vectors(X, min(n_components, *X.shape), seed)
    sizes = [
        np.linalg.norm(np.maximum(sign * U, 0), axis=0)
        * np.linalg.norm(np.maximum(sign * V, 0), axis=0)
        for sign in (1, -1)
    ]
    return np.ascontiguousarray(np.maximum(np.where(sizes[0] >= sizes[1], V, -V), 0).T)


def _singular_vectors(X: Matrix, n_parts: int, seed: int) -> tuple[Array, Array]:
    """Return the first left and right singular vectors of a matrix, as (m, k) and (p, k).

    No matrix that is decomposed has more rows than X has samples or features, whichever are fewer.
    """
    is_wide = X.shape[0] <= X.shape[1]
    short, long = (X, X.T) if is_wide else (X.T, X)
    width = min(n_parts + EXTRA_DIRECTIONS, short.shape[0])
    Q = generator(seed, "svd").standard_normal((short.shape[0], width)).astype(X.dtype)
    for _ in range(POWER_ITERATIONS):
        Q, _ = np.linalg.qr(short @ (long @ Q))
    image = long @ Q
    # In float64, since it has the squares of the singular values.
    squares, W = np.linalg.eigh(image.T.astype(np.float64) @ image)
    first = np.argsort(-squares)[:n_parts]
    W = W[:, first].astype(X.dtype)
    sizes = np.linalg.norm(image @ W, axis=0)
    found = Q @ W, image @ (W / np.where(sizes > 0, sizes, 1))
    return found if is_wide else found[::-1]


def _scaled(samples: Matrix) -> Matrix:
    """Return samples times a power of two, so that no product overflows."""
    entries = samples.data if isinstance(samples, sp.csc_array) else samples
    largest = float(np.abs(entries).max(initial=0.0))
    # The factor itself would overflow where entries are subnormal.
    scaled = np.ldexp(entries, -math.frexp(largest)[1])
    if isinstance(samples, sp.csc_array):
        return sp.csc_array((scaled, samples.indices, samples.indptr), shape=samples.shape)
    return scaled


def initial_state(
    config: Config,
    D: Array,
    seed: int,
    sample_ids: Ints | None,
    n_elsewhere: int = 0,
    is_on_top: bool = False,
) -> State:
    """Return a state with these atoms that has seen no sample.

    Parameters
    ----------
    config : Config
    D : ndarray of shape (p, k)
        Initial atoms inside the ball, features in the order of the data.
    seed : int
    sample_ids : ndarray of shape (n,), or None
        All samples of a finite data set that this rank has; None for a stream.
    n_elsewhere : int
        How many samples other ranks have.
    is_on_top : bool
        Whether all iterations look at everything (see `somf.algorithm.schedule`), so that features
        can stay in their order.

    Returns
    -------
    state : State
        On the device of the configuration.
    """
    p, k = D.shape
    kernels, masks = kernels_for(config.device), masks_for(config, p, seed)
    if is_on_top:
        masks.unite()
    R, order = len(masks.blocks), None if is_on_top else masks.permutation
    state = State(
        seed=seed,
        n_iter=0,
        n_samples_seen=0,
        n_averaged=0,
        rung=TOP if is_on_top else 0,
        is_settled=int(is_on_top),
        permutation=order,
        D=np.ascontiguousarray(D if order is None else D[order]),
        B=np.zeros_like(D, order="C"),
        C=np.zeros((k, k), dtype=D.dtype),
        C_by_feature=zero_triangles(p if config.has_weights else 0, k, D.dtype),
        n_known=np.zeros(p if config.atom_alpha > 0 else 0, dtype=D.dtype),
        norms=np.zeros((R, k), dtype=D.dtype),
        grams=np.zeros((R, k, k), dtype=D.dtype),
        aged_grams=np.zeros((R, k, k), dtype=D.dtype),
        last_used=np.zeros(k, dtype=np.int64),
        patience=np.full(k, _patience(k, sample_ids, n_elsewhere)),
        n_users=np.zeros(k, dtype=np.int64),
        memory=None,
        offsets=np.zeros(0, dtype=D.dtype),
        base_weight=config.base_weight,
    ).on_device(kernels)
    gram_cache = gram_cache_for(config, state, kernels, masks)
    gram_cache.recompute()
    dictionary = Dictionary(state, kernels, config.ball, masks.blocks)
    dictionary.update_norms(range(R), gram_cache.grams_of_blocks)
    averages = config.estimator_in_use == "averaged" and not is_on_top
    if averages or config.surrogate == "incremental":
        ids = np.empty(0, dtype=np.int64) if sample_ids is None else sample_ids
        gram_size = gram_cache.statistic_size if averages else 0
        state.memory = SampleMemory.blank(ids, gram_size, kernels, state.C, n_elsewhere)
    return state


def zero_triangles(p: int, k: int, dtype: np.dtype[Any]) -> Array:
    """Return zeros for C_f of every feature, in a scratch file if they are large.

    Parameters
    ----------
    p, k : int
        Features and atoms; without features there are no columns, either.
    dtype : numpy.dtype

    Returns
    -------
    C_by_feature : ndarray of shape (p, k (k + 1) / 2), or (0, 0)
    """
    zeros = scratch_zeros((p, n_pairs(k) if p else 0), dtype, in_order=True)
    if isinstance(zeros, np.memmap):
        logger.info(
            "a matrix for each of %d features takes %.1f GB, in a scratch file in %r",
            p,
            zeros.nbytes / 1e9,
            tempfile.gettempdir(),
        )
    return np.asarray(zeros)  # Numba knows the type of a memmap less quickly


def _patience(k: int, sample_ids: Ints | None, n_elsewhere: int) -> int:
    """Return how many samples in a row may leave an atom unused before it is replaced.

    A sample may be the first of an epoch and the last of the next one, so that two epochs of a
    finite data set prove that none of its samples uses an atom.
    """
    patience = max(LEAST_PATIENCE, PATIENCE_PER_ATOM * k)
    if sample_ids is None:
        return patience
    return min(patience, 2 * (len(sample_ids) + n_elsewhere))
