"""Passes over all samples."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.algorithm.passes import begin_pass, end_pass, is_pass_due
from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.data import as_source
from somf.kernels.observed import Observed
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.problems import planted

RIDGE = {"l1_ratio": 0.0, "alpha": 0.02, "atom_alpha": 0.5}
"""Both factors have squared penalties."""


def solver_for_passes(X, kind=DictionaryLearning, weights=None, base=0, **params):
    """Return a solver that has done a step, and is about to begin a pass.

    `weights` and `base` are those of entries, and of most of them.
    """
    n, p = X.shape
    config = kind(4, **({"alpha": 0.1, "reduction": 1, "code_tol": 0} | params))._config()
    config = config.for_features(p).for_samples(n, p)
    config = replace(config, has_weights=weights is not None, base_weight=base)
    state = start(config, as_source(X), Samples.alone(n), seed=0, is_finite=True)
    solver = Solver(config, state)
    solver.step(minibatch(X[:10], None if weights is None else weights[:10], base))
    state.phase = Phase.BETWEEN
    return solver


def minibatch(X, weights, base):
    """Return samples whose entries have weights, unless these are None."""
    if weights is None:
        return X
    return Observed(weights * X, np.sqrt(weights) * X, weights - base, base)


def do_pass(solver, X, n_steps=5, weights=None, sample_weight=None):
    """Do a pass but for its end; return its mean objective."""
    assert is_pass_due(solver.state)
    begin_pass(solver, np.arange(len(X)), 0)
    solver.take_objectives()
    for batch in np.array_split(np.random.default_rng(0).permutation(len(X)), n_steps):
        assert not is_pass_due(solver.state)
        Y = minibatch(
            X[batch], None if weights is None else weights[batch], solver.state.base_weight
        )
        counts = None if sample_weight is None else sample_weight[batch]
        solver.step(Y, batch, sample_weight=counts)
    total = len(X) if sample_weight is None else sample_weight.sum()
    return sum(solver.take_objectives()) / total


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


@pytest.mark.parametrize("base", [0, 1])
def test_a_pass_sums_up_a_matrix_for_every_feature_by_the_weights_of_entries_and_samples(base):
    X = planted(50, 12, 4)[0]
    rng = np.random.default_rng(0)
    weights, counts = (rng.random(X.shape) < 0.6).astype(float), rng.integers(1, 4, 50) / 2
    params = RIDGE | {"weights": weights, "base": base}
    solver = solver_for_passes(X, MatrixFactorization, **params)
    state = solver.state
    for _ in range(2):
        do_pass(solver, X, weights=weights, sample_weight=counts)
        code = state.memory.code
        upper = np.triu_indices(4)
        pairs = (code[:, :, None] * code[:, None])[:, upper[0], upper[1]] * counts[:, None]
        np.testing.assert_allclose(state.C_by_feature, (weights - base).T @ pairs, atol=1e-12)
        np.testing.assert_allclose(state.B, (weights * X).T @ (counts[:, None] * code), atol=1e-12)
        np.testing.assert_allclose(state.n_known, counts @ weights)
        state.phase = Phase.BETWEEN
    solver.forget_samples()
    np.testing.assert_allclose(state.C_by_feature, (weights - base).T @ pairs / 50, atol=1e-12)
    np.testing.assert_allclose(state.n_known, counts @ weights / 50)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (DictionaryLearning, {}),
        (NMF, {"alpha": 0.0, "init": "samples"}),
        (SparsePCA, {"alpha": 1, "surrogate": "online"}),
        (MatrixFactorization, RIDGE),
        (MatrixFactorization, RIDGE | {"alpha_per": "entry", "l1_ratio": 0.5}),
    ],
)
def test_passes_over_known_entries_without_momentum_never_raise_the_objective(kind, params, base):
    X = np.abs(planted(60, 12, 4, noise=0.3)[0])
    rng = np.random.default_rng(1)
    weights, counts = (rng.random(X.shape) < 0.6) * rng.random(X.shape), rng.random(60)
    solver = solver_for_passes(X, kind, weights=weights, base=base, **params)
    objectives = []
    for _ in range(12):
        solver.state.n_lowered = 0
        objectives.append(do_pass(solver, X, weights=weights, sample_weight=counts))
        end_pass(solver, has_lowered=True)
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(objectives))
    assert objectives[-1] < 0.99 * objectives[0]


@pytest.mark.parametrize("has_weights", [False, True])
def test_atoms_with_a_penalty_stay_inside_of_the_ball_and_momentum_does_not_leave_it(has_weights):
    X = planted(60, 12, 4, noise=0.3)[0]
    weights = np.random.default_rng(1).random(X.shape) if has_weights else None
    solver = solver_for_passes(X, MatrixFactorization, weights=weights, **RIDGE)
    for _ in range(5):
        do_pass(solver, X, weights=weights)
        end_pass(solver, has_lowered=True)
    sizes = np.linalg.norm(solver.state.D, axis=0)
    assert (sizes < 0.9).all()
    state = solver.state
    before = state.D.copy()
    state.D_before = before - 10 * np.sign(before)  # a large step
    begin_pass(solver, np.arange(60), 0)
    np.testing.assert_allclose(np.linalg.norm(state.D, axis=0), 1)
    end_pass(solver, has_lowered=False)
    np.testing.assert_array_equal(state.D, before)


def test_two_copies_of_a_sample_and_one_of_weight_two_have_the_same_passes():
    X = planted(40, 12, 4, noise=0.3)[0]
    known = (np.random.default_rng(1).random(X.shape) < 0.7).astype(float)
    counts = np.random.default_rng(2).integers(1, 3, 40)
    often = np.repeat(np.arange(40), counts)
    one = solver_for_passes(X, MatrixFactorization, weights=known, **RIDGE)
    two = solver_for_passes(X, MatrixFactorization, weights=known, **RIDGE)
    for _ in range(6):
        lower = do_pass(one, X, weights=known, sample_weight=counts.astype(float))
        assert lower == pytest.approx(do_pass(two, X[often], weights=known[often]), rel=1e-12)
        for solver in (one, two):
            end_pass(solver, has_lowered=True)
    np.testing.assert_allclose(one.state.D, two.state.D, atol=1e-10)


def test_atoms_are_extrapolated_from_the_second_pass_on_and_restored_if_that_was_too_far():
    X = planted(60, 12, 4, noise=0.3)[0]
    solver, plain = solver_for_passes(X), []
    for i in range(3):
        do_pass(solver, X)
        is_extrapolated = (solver.state.D_before != solver.state.D).any()
        assert is_extrapolated == (i >= 1)
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
