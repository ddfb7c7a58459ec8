"""Passes over all samples."""

from itertools import pairwise

import numpy as np
import pytest

from somf import NMF, DictionaryLearning, SparsePCA
from somf.algorithm.passes import begin_pass, end_pass, is_pass_due
from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.data import as_source
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.problems import planted


def solver_for_passes(X, kind=DictionaryLearning, **params):
    """Return a solver that has done a step, and is about to begin a pass."""
    n, p = X.shape
    config = kind(4, **({"alpha": 0.1, "reduction": 1, "code_tol": 0} | params))._config()
    config = config.for_features(p).for_samples(n, p)
    state = start(config, as_source(X), Samples.alone(n), seed=0, is_finite=True)
    solver = Solver(config, state)
    solver.step(X[:10])
    state.phase = Phase.BETWEEN
    return solver


def do_pass(solver, X, n_steps=5):
    """Do a pass but for its end; return its mean objective."""
    assert is_pass_due(solver.state)
    begin_pass(solver, np.arange(len(X)), 0)
    solver.take_objectives()
    for batch in np.array_split(np.random.default_rng(0).permutation(len(X)), n_steps):
        assert not is_pass_due(solver.state)
        solver.step(X[batch], batch)
    return sum(solver.take_objectives()) / len(X)


def test_a_pass_leaves_atoms_alone_and_sums_up_the_codes_of_all_samples():
    X = planted(50, 12, 4)[0]
    solver = solver_for_passes(X)
    state, before = solver.state, solver.state.D.copy()
    for _ in range(2):  # codes of the first are the start of those of the second
        do_pass(solver, X)
        np.testing.assert_array_equal(state.D, before)
        code = state.memory.code
        np.testing.assert_allclose(state.B, X.T @ code, atol=1e-12)
        np.testing.assert_allclose(state.C, code.T @ code, atol=1e-12)
        state.phase = Phase.BETWEEN

    solver.forget_samples()
    assert (state.phase, state.memory) == (Phase.ONLINE, None)
    np.testing.assert_allclose(state.B, X.T @ code / 50, atol=1e-12)
    np.testing.assert_allclose(state.C, code.T @ code / 50, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "params"), [(DictionaryLearning, {}), (NMF, {"alpha": 0.0}), (SparsePCA, {"alpha": 1})]
)
def test_passes_without_momentum_never_raise_the_objective(kind, params):
    X = np.abs(planted(60, 12, 4, noise=0.3)[0])
    solver, objectives = solver_for_passes(X, kind, surrogate="online", **params), []
    for _ in range(12):
        solver.state.n_lowered = 0
        objectives.append(do_pass(solver, X))
        end_pass(solver, has_lowered=True)
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(objectives))
    assert objectives[-1] < 0.99 * objectives[0]


def test_atoms_are_extrapolated_from_the_second_change_on_and_restored_if_that_was_too_far():
    X = planted(60, 12, 4, noise=0.3)[0]
    solver, plain = solver_for_passes(X), []
    for i in range(3):
        do_pass(solver, X)
        is_extrapolated = (solver.state.D_before != solver.state.D).any()
        assert is_extrapolated == (i == 2)
        end_pass(solver, has_lowered=True)
        plain.append(solver.state.D.copy())
    do_pass(solver, X)
    end_pass(solver, has_lowered=False)
    np.testing.assert_allclose(solver.state.D, plain[-1], atol=1e-12)
    do_pass(solver, X)
    np.testing.assert_array_equal(solver.state.D, solver.state.D_before)


def test_a_fit_that_ends_within_a_pass_has_the_atoms_before_they_were_extrapolated():
    X = planted(60, 12, 4, noise=0.3)[0]
    solver = solver_for_passes(X)
    for _ in range(3):
        do_pass(solver, X)
        end_pass(solver, has_lowered=True)
    expected = solver.state.D.copy()
    do_pass(solver, X)
    assert np.abs(solver.state.D - expected).max() > 1e-6
    solver.forget_samples()
    np.testing.assert_allclose(solver.state.D, expected, atol=1e-12)
    assert solver.state.D_before.size == 0


def test_a_pass_does_not_depend_on_its_minibatches():
    X = planted(60, 12, 4, noise=0.3)[0]
    one, other = solver_for_passes(X), solver_for_passes(X)
    for _ in range(4):
        for solver, n_steps in ((one, 1), (other, 7)):
            do_pass(solver, X, n_steps)
            end_pass(solver, has_lowered=True)
    np.testing.assert_allclose(one.state.D, other.state.D, atol=1e-10)


def test_a_checkpoint_of_an_earlier_version_with_codes_of_all_samples_goes_on_as_an_average():
    X = planted(50, 12, 4)[0]
    solver = solver_for_passes(X)
    do_pass(solver, X)
    solver.state.phase = Phase.INCREMENTAL
    code = solver.state.memory.code
    state = Solver(solver.config, solver.state).state
    assert (state.phase, state.memory) == (Phase.ONLINE, None)
    np.testing.assert_allclose(state.C, code.T @ code / 50, atol=1e-12)
