"""β and G of a minibatch."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.algorithm.masks import BlockMasks
from somf.algorithm.memory import SampleMemory
from somf.algorithm.regression import BlockGrams, Regression, StoredGrams
from somf.algorithm.solver import Solver
from somf.data import as_source
from somf.kernels import reference
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.problems import listed


@pytest.fixture
def solver(toy):
    config = DictionaryLearning(10, reduction=3)._config()
    return Solver(
        config,
        start(
            config,
            as_source(toy),
            Samples.alone(len(toy)),
            0,
            is_finite=True,
        ),
    )


def blank_memory(solver, ids):
    return SampleMemory.blank(ids, solver.gram_cache.statistic_size, reference, solver.state.C)


def test_block_grams_give_the_stored_gram_while_the_dictionary_does_not_change(solver, toy):
    state, ids = solver.state, np.arange(20)
    X = toy[:20][:, state.permutation]
    stored = StoredGrams(state, reference, keep_all=False)
    memories = [blank_memory(solver, ids), blank_memory(solver, ids)]
    memories[1].gram = np.zeros((20, 100))
    state.memory = memories[0]
    estimates = [
        Regression("averaged", 0.92, state, reference, book) for book in (solver.gram_cache, stored)
    ]
    for t in range(7):
        subset = solver.masks.draw(t, solver.reduction)
        # Samples with different histories: every third one is visited only now and then.
        visited = ids if t % 3 == 0 else ids[ids % 3 != 0]
        by_blocks, by_matrix = (
            regression.estimate(X[visited], subset, memory, visited)
            for regression, memory in zip(estimates, memories, strict=True)
        )
        estimates[0].age(len(visited))
        np.testing.assert_allclose(by_blocks.grams, by_matrix.grams, atol=1e-12)
        np.testing.assert_allclose(by_blocks.beta, by_matrix.beta, atol=1e-12)
        np.testing.assert_allclose(by_blocks.sq_norm, by_matrix.sq_norm, atol=1e-12)


def test_exact_regression_is_that_of_all_features(solver, toy):
    state = solver.state
    for t in range(5):
        solver.step(toy[t * 20 : t * 20 + 20][:, state.permutation])
    X = toy[:20][:, state.permutation]
    exact = Regression("exact", 0.92, state, reference, solver.gram_cache)
    problem = exact.estimate(
        X,
        solver.masks.draw(0, solver.reduction),
        blank_memory(solver, np.arange(20)),
        np.arange(20),
    )
    np.testing.assert_allclose(problem.beta, X @ state.D, atol=1e-12)
    np.testing.assert_allclose(problem.grams[0], state.D.T @ state.D, atol=1e-12)
    np.testing.assert_allclose(problem.sq_norm, (X * X).sum(axis=1))


def test_masked_regression_is_that_of_the_subset(solver, toy):
    state = solver.state
    X = toy[:20][:, state.permutation]
    subset = solver.masks.draw(1, solver.reduction)
    masked = Regression("masked", 0.92, state, reference, solver.gram_cache)
    problem = masked.estimate(X, subset, blank_memory(solver, np.arange(20)), np.arange(20))
    X_s, D_s = X[:, listed(subset)], state.D[listed(subset)]
    np.testing.assert_allclose(problem.beta, subset.scale * X_s @ D_s, atol=1e-12)
    np.testing.assert_allclose(problem.grams[0], subset.scale * D_s.T @ D_s, atol=1e-12)
    np.testing.assert_allclose(problem.sq_norm, subset.scale * (X_s**2).sum(axis=1))


def test_averages_follow_the_weights_of_the_paper(solver, toy):
    state, slots, v = solver.state, np.array([4]), 0.92
    X = toy[4:5][:, state.permutation]
    memory = blank_memory(solver, np.arange(len(toy)))
    averaged = Regression("averaged", v, state, reference, solver.gram_cache)
    expected = np.zeros((1, 10))
    for c in range(1, 6):
        subset = solver.masks.draw(c, solver.reduction)
        gamma = c ** -(2.5 - 2 * v)
        seen = subset.scale * X[:, listed(subset)] @ state.D[listed(subset)]
        expected = (1 - gamma) * expected + gamma * seen
        problem = averaged.estimate(X, subset, memory, slots)
        np.testing.assert_allclose(problem.beta, expected, atol=1e-12)
    assert memory.n_visits[4] == 5
    assert memory.n_visits.sum() == 5


def test_block_grams_stay_current_while_the_dictionary_changes(toy):
    config = DictionaryLearning(10, reduction=3.5)._config()
    state = start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)
    solver = Solver(config, state)
    for t in range(20):
        solver.step(toy[:10][:, state.permutation] * (1 + t))
    masks = BlockMasks(60, 3.5, state.seed)
    for gram, norms, rows in zip(state.grams, state.norms, masks.blocks, strict=True):
        np.testing.assert_allclose(gram, state.D[rows].T @ state.D[rows], atol=1e-12)
        np.testing.assert_allclose(norms, (state.D[rows] ** 2).sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("code_estimator", ["masked", "averaged", "exact"])
def test_sparse_samples_give_the_same_regression(solver, toy, code_estimator):
    X = np.where(np.abs(toy[:20]) > 0.1, toy[:20], 0)
    regression = Regression(code_estimator, 0.92, solver.state, reference, solver.gram_cache)
    dense, sparse = (
        regression.estimate(
            given,
            solver.masks.draw(0, solver.reduction),
            blank_memory(solver, np.arange(20)),
            np.arange(20),
        )
        for given in (X, sp.csc_array(X))
    )
    np.testing.assert_allclose(sparse.beta, dense.beta, atol=1e-12)
    np.testing.assert_allclose(sparse.grams, dense.grams, atol=1e-12)
    np.testing.assert_allclose(sparse.sq_norm, dense.sq_norm, atol=1e-12)


def test_the_past_uses_aged_grams_and_the_present_current_ones(solver):
    book = solver.gram_cache
    assert isinstance(book, BlockGrams)
    everything = book.of_all()[None]
    G = book.expand(everything)
    book.age(1.0)
    solver.state.grams *= 2
    past_and_present = book.expand_averages(0.25 * everything, 0.75 * everything)
    np.testing.assert_allclose(past_and_present, (0.25 + 0.75 * 2) * G)
    book.age(0.5)
    np.testing.assert_allclose(book.expand_averages(everything, 0 * everything), 1.5 * G)


def test_aged_grams_are_the_mean_over_the_first_pass(solver, toy):
    state = solver.state
    seen = []
    for start_ in range(0, 300, 50):
        seen.append(state.grams.copy())
        batch = np.arange(start_, start_ + 50)
        solver.step(toy[batch][:, state.permutation], batch)
    np.testing.assert_allclose(state.aged_grams, np.mean(seen, axis=0), atol=1e-12)


def test_samples_without_a_memory_do_not_age_the_averages_of_others(solver, toy):
    state = solver.state
    solver.step(toy[:50][:, state.permutation], np.arange(50))
    before = state.aged_grams.copy()
    solver.step(toy[:50][:, state.permutation])
    np.testing.assert_array_equal(state.aged_grams, before)
    assert state.n_averaged == 50
