"""Refinement of a dictionary on samples in memory."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF, DictionaryLearning
from somf.penalties import AtomBall, CodePenalty
from somf.training.refinement import refine

NON_NEGATIVE = CodePenalty(0.0, 1.0, True), AtomBall(0.0, True)
SPARSE = CodePenalty(0.1, 1.0, False), AtomBall(0.0, False)


def counts(dtype=np.float64):
    rng = np.random.default_rng(0)
    mean = rng.gamma(0.3, 3.0, (150, 4)) @ rng.gamma(0.3, 3.0, (4, 20))
    return rng.poisson(mean).astype(dtype)


def start(k, dtype=np.float64):
    return np.abs(np.random.default_rng(1).standard_normal((20, k))).astype(dtype)


@pytest.mark.parametrize(("problem", "model"), [(NON_NEGATIVE, NMF), (SPARSE, DictionaryLearning)])
def test_a_refined_dictionary_is_stationary(problem, model):
    X, (penalty, ball) = counts() / 10, problem
    refined = refine(X, start(4), penalty, ball, tol=1e-12, max_passes=2000, n_threads=1)
    at_end = model(4, alpha=penalty.alpha, n_epochs=1, init=refined.D.T, random_state=0).fit(X[:4])
    at_end.components_ = np.ascontiguousarray(refined.D.T)
    assert refined.n_passes < 2000
    assert refined.objective == pytest.approx(at_end.objective(X), rel=1e-9)
    assert at_end.stationarity_gap(X) < 1e-4 * refined.objective
    np.testing.assert_allclose(refined.code, at_end.transform(X), atol=1e-4)


def test_sparse_and_dense_samples_give_the_same_dictionary():
    X, D = counts(), start(4)
    dense = refine(X, D, *NON_NEGATIVE, tol=1e-6, max_passes=20, n_threads=1)
    sparse = refine(sp.csr_array(X), D, *NON_NEGATIVE, tol=1e-6, max_passes=20, n_threads=1)
    np.testing.assert_allclose(sparse.D, dense.D, rtol=1e-6, atol=1e-9)
    assert sparse.n_passes == dense.n_passes


def test_more_passes_never_end_higher():
    X, D = counts(np.float32), start(5, np.float32)
    before = D.copy()
    found = [
        refine(X, D, *NON_NEGATIVE, tol=0.0, max_passes=n, n_threads=1) for n in (1, 2, 5, 15, 60)
    ]
    objectives = [refined.objective for refined in found]
    assert (np.diff(objectives) <= 1e-6 * objectives[0]).all()
    assert found[-1].D.dtype == found[-1].code.dtype == np.float32
    assert (found[-1].D >= 0).all()
    np.testing.assert_array_equal(D, before)


def test_momentum_gets_further_than_as_many_passes_without_it():
    X, D = counts(), start(4)
    plain = D
    for _ in range(40):
        plain = refine(X, plain, *NON_NEGATIVE, tol=0.0, max_passes=1, n_threads=1).D
    alternating = refine(X, plain, *NON_NEGATIVE, tol=0.0, max_passes=1, n_threads=1)
    refined = refine(X, D, *NON_NEGATIVE, tol=0.0, max_passes=40, n_threads=1)
    assert refined.objective < alternating.objective


def test_samples_that_are_explained_exactly_end_the_refinement():
    X = np.outer(np.arange(1.0, 9.0), np.ones(3))
    refined = refine(X, np.eye(3)[:, :1] + 1, *NON_NEGATIVE, tol=1e-6, max_passes=500, n_threads=1)
    assert refined.objective < 1e-12
    assert refined.n_passes < 500
