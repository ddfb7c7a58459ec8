"""Initial atoms of NMF from singular vectors, and the state that a fit begins with."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.algorithm.initialization import (
    LEAST_PATIENCE,
    PATIENCE_PER_ATOM,
    initial_state,
    non_negative_parts,
)


@pytest.fixture
def positive():
    rng = np.random.default_rng(0)
    return rng.gamma(0.5, size=(50, 6)) @ rng.gamma(0.5, size=(6, 30)) + 0.1 * rng.random((50, 30))


@pytest.mark.parametrize("is_wide", [False, True])
def test_parts_are_the_larger_non_negative_parts_of_singular_pairs(positive, is_wide):
    X = positive.T if is_wide else positive
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    parts = non_negative_parts(X, 6, seed=0)
    for u, v, part in zip(U.T, Vt, parts, strict=False):
        halves = [(np.maximum(s * u, 0), np.maximum(s * v, 0)) for s in (1, -1)]
        _, larger = max(halves, key=lambda h: np.linalg.norm(h[0]) * np.linalg.norm(h[1]))
        np.testing.assert_allclose(part, larger, atol=1e-3)


def test_blocks_of_features_that_never_meet_are_separate_parts():
    X = np.zeros((30, 12))
    for i, size in enumerate((3.0, 2.0, 1.0)):
        X[10 * i : 10 * i + 10, 4 * i : 4 * i + 4] = size
    supports = non_negative_parts(X, 3, seed=0) > 1e-6
    np.testing.assert_array_equal(supports, np.repeat(np.eye(3, dtype=bool), 4, axis=1))


def test_parts_of_sparse_samples_are_those_of_the_same_dense_ones(positive):
    positive[positive < 1] = 0
    dense = non_negative_parts(positive, 5, seed=0)
    sparse = non_negative_parts(sp.csc_array(positive), 5, seed=0)
    np.testing.assert_allclose(sparse, dense, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e34])
def test_parts_do_not_depend_on_the_scale_of_samples(positive, scale):
    X = np.round(positive).astype(np.float32)  # such numbers are exact even if they are subnormal
    unit = np.float32(scale)
    parts = non_negative_parts(X * unit, 4, seed=0)
    assert parts.dtype == np.float32
    np.testing.assert_allclose(parts, non_negative_parts(X, 4, seed=0), atol=1e-3)


def test_there_are_at_most_as_many_parts_as_samples_or_features(positive):
    assert non_negative_parts(positive[:3], 6, seed=0).shape == (3, 30)
    assert non_negative_parts(positive[:, :4], 6, seed=0).shape == (4, 4)


def test_samples_of_zero_have_finite_parts():
    assert np.isfinite(non_negative_parts(np.zeros((10, 5)), 3, seed=0)).all()


@pytest.mark.parametrize(("n", "n_elsewhere"), [(3, 0), (3, 4), (10**6, 0)])
def test_an_atom_is_unused_after_two_epochs_without_a_user_or_after_many_samples(n, n_elsewhere):
    D = np.eye(20, 10)
    patience = max(LEAST_PATIENCE, 10 * PATIENCE_PER_ATOM)
    assert 2 * 7 < patience < 2 * 10**6
    state = initial_state(DictionaryLearning(10)._config(), D, 0, np.arange(n), n_elsewhere)
    assert (state.patience == min(patience, 2 * (n + n_elsewhere))).all()
    stream = initial_state(DictionaryLearning(10)._config(), D, 0, None)
    assert (stream.patience == patience).all()
