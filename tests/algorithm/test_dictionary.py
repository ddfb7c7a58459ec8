"""Initial atoms, partial updates, replacement."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning, MatrixFactorization
from somf.algorithm.initialization import initial_atoms
from somf.algorithm.solver import Solver
from somf.data import as_source
from somf.penalties import AtomBall
from somf.training.samples import Rows, Samples
from somf.training.start import start
from tests.helpers.problems import listed

BALLS = pytest.mark.parametrize(
    "ball", [AtomBall(m, s) for m in (0, 0.5, 1) for s in (False, True)]
)


@BALLS
def test_initial_atoms_are_samples_on_the_border_of_the_ball(ball, toy):
    D = initial_atoms(toy[:4], 4, ball, seed=0)
    np.testing.assert_allclose(ball.norm(D), 1)
    expected = np.maximum(toy[:4], 0) if ball.positive else toy[:4]
    cosines = (D.T * expected).sum(axis=1) / np.linalg.norm(D, axis=0)
    np.testing.assert_allclose(cosines, np.linalg.norm(expected, axis=1))


@BALLS
def test_random_directions_take_the_place_of_missing_and_zero_samples(ball):
    samples = np.zeros((3, 20))
    samples[1] = 1.0
    D = initial_atoms(samples, 6, ball, seed=0)
    np.testing.assert_allclose(ball.norm(D), 1)
    assert np.linalg.matrix_rank(D) == 6
    assert not ball.positive or (D >= 0).all()


def test_given_atoms_are_moved_into_the_ball(toy):
    init = np.diag([2.0] * 60)[:10] + 0.0
    init[1] *= 0.1
    model = DictionaryLearning(10, init=init)
    state = start(
        model._config(),
        as_source(toy),
        Rows.alone(len(toy)).among(np.arange(10)),
        0,
        is_finite=True,
    )
    np.testing.assert_allclose(state.components, np.minimum(init, 1.0))


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("mu", [0, 0.5, 1])
def test_a_partial_update_freezes_the_other_rows_and_respects_the_budget(toy, mu, masks):
    config = MatrixFactorization(10, atom_l1_ratio=mu, reduction=3, masks=masks)._config()
    state = start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)
    solver = Solver(config, state)
    state.B[:], state.C[:] = np.random.default_rng(0).standard_normal((60, 10)), np.eye(10)
    for t in range(5):
        before, subset = state.D.copy(), solver.masks.draw(t, solver.reduction)
        solver.dictionary.update(subset, state.C)
        solver.dictionary.update_norms(subset.blocks, None)
        frozen = np.delete(np.arange(60), listed(subset))
        np.testing.assert_array_equal(state.D[frozen], before[frozen])
        assert np.abs(state.D - before).max() > 0
        assert config.ball.norm(state.D).max() <= 1 + 1e-12
        np.testing.assert_allclose(state.norms.sum(axis=0), config.ball.norm(state.D))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSC"])
def test_unused_atoms_become_the_worst_coded_samples(toy, sparse):
    config = DictionaryLearning(10, reduction=2)._config()
    state = start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)
    solver = Solver(config, state)
    X = toy[:5][:, state.permutation]
    state.n_samples_seen = 1000
    state.last_used[:] = 1000
    state.last_used[[3, 7]] = 0
    patience = state.patience.copy()
    state.memory.n_visits[:] = 4
    objective = np.array([0.0, 2.0, 0.0, 3.0, 1.0])
    replaced = solver.dictionary.replace_unused(sp.csc_array(X) if sparse else X, objective)
    assert replaced.tolist() == [3, 7]
    np.testing.assert_allclose(state.D[:, 3], X[3])
    np.testing.assert_allclose(state.D[:, 7], X[1])
    assert state.patience[3] == 2 * patience[3]
    assert state.patience[0] == patience[0]
    assert not state.memory.n_visits.any()
    assert state.n_averaged == 0
    assert not solver.dictionary.replace_unused(X, objective).size


def test_atoms_that_found_no_sample_are_tried_again(toy):
    config = DictionaryLearning(10, reduction=2)._config()
    state = start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)
    solver = Solver(config, state)
    X = toy[:, state.permutation]
    state.n_samples_seen = 1000
    patience = state.patience.copy()
    for n, size in enumerate((4, 4, 2)):
        assert solver.dictionary.replace_unused(X[4 * n : 4 * n + 4], np.ones(4)).size == size
    np.testing.assert_array_equal(state.patience, 2 * patience)


def test_a_replacement_during_a_step_keeps_grams_and_norms_current(toy):
    config = DictionaryLearning(10, alpha=10, reduction=2)._config()  # so that none is used
    state = start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)
    solver = Solver(config, state)
    state.last_used[1:] = -(10**6)
    solver.step(toy[:20][:, state.permutation], np.arange(20))
    assert (state.patience > state.patience.min()).any()
    np.testing.assert_allclose(state.grams.sum(axis=0), state.D.T @ state.D, atol=1e-12)
    np.testing.assert_allclose(state.norms.sum(axis=0), (state.D**2).sum(axis=0), atol=1e-12)


def test_zero_samples_do_not_become_atoms(toy):
    config = DictionaryLearning(10, reduction=2)._config()
    state = start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)
    solver = Solver(config, state)
    state.n_samples_seen = 10**6
    before = state.D.copy()
    assert not solver.dictionary.replace_unused(np.zeros((5, 60)), np.zeros(5)).size
    np.testing.assert_array_equal(state.D, before)
