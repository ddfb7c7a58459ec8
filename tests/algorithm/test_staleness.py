"""How much of the past is worth to be remembered."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF, DictionaryLearning, load
from somf.algorithm.forgetting import LEAST_EXPONENT, N_WITNESSES, Pace
from somf.algorithm.solver import Solver
from somf.algorithm.staleness import ABRUPT, BALANCE, LEAST_BATCHES
from somf.data import as_source
from somf.kernels.observed import Observed
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.problems import planted


def solver_for(X, **params):
    """Return a solver that has seen nothing."""
    config = DictionaryLearning(5, alpha=0.1, batch_size=40, **params)._config()
    state = start(config, as_source(X), Samples.alone(X.shape[0]), 0, is_finite=True)
    return Solver(config, state)


def rows(solver, X):
    """Return samples as the solver wants them."""
    order = solver.state.permutation
    return np.ascontiguousarray(X if order is None else X[:, order])


def objective(X, D, code, alpha=0.1):
    return 0.5 * ((X - code @ D.T) ** 2).sum() + alpha * np.abs(code).sum()


@pytest.fixture
def data():
    return planted(400, 60, 5)[0]


def test_witnesses_are_samples_of_a_minibatch_with_their_codes(data):
    solver = solver_for(data)
    X = rows(solver, data[:40])
    solver.step(X)
    state = solver.state
    np.testing.assert_array_equal(state.witnesses, X[:N_WITNESSES])
    found = objective(state.witnesses, state.D, state.witness_codes)
    for _ in range(20):
        change = 1e-3 * np.random.default_rng(0).standard_normal(state.witness_codes.shape)
        assert objective(state.witnesses, state.D, state.witness_codes + change) > found
    assert state.compared_at == 40


def test_staleness_is_what_old_codes_lose_and_noise_a_share_of_the_residuals(data):
    solver = solver_for(data)
    for i in range(2):
        solver.step(rows(solver, data[40 * i : 40 * i + 40]))
    state, old = solver.state, np.array(solver.state.witness_codes)
    stale, noise = solver.staleness.measure(solver.regression)
    new, X = state.witness_codes, state.witnesses
    lost = objective(X, state.D, old) - objective(X, state.D, new)
    assert stale == pytest.approx(lost, rel=1e-2)
    assert stale > 0
    residual = 0.5 * ((X - new @ state.D.T) ** 2).sum()
    assert noise == pytest.approx(residual * 5 / state.n_remembered, rel=1e-2)


def test_the_staleness_is_measured_when_what_is_remembered_has_been_replaced(data):
    solver, taken = solver_for(data), []
    for i in range(60):
        solver.step(rows(solver, data[40 * (i % 10) : 40 * (i % 10) + 40]))
        if solver.state.compared_at not in taken:
            taken.append(solver.state.compared_at)
    ages = np.diff(taken)
    assert ages.min() >= LEAST_BATCHES * 40
    assert len(taken) >= 4
    assert list(ages) == sorted(ages)


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_memory_grows_slowly_while_staleness_is_more_than_a_share_of_the_noise(
    data, monkeypatch, share
):
    solver = solver_for(data)
    solver.step(rows(solver, data[:40]))
    monkeypatch.setattr(solver.staleness, "measure", lambda _: (share * BALANCE, 1.0))
    for i in range(1, 4):
        solver.step(rows(solver, data[40 * i : 40 * i + 40]))
    assert solver.state.pace == (Pace.SLOW if share > 1 else Pace.FAST)


def test_atoms_that_rest_have_no_staleness(data):
    solver = solver_for(data)
    solver.step(rows(solver, data[:40]))
    stale, noise = solver.staleness.measure(solver.regression)
    assert stale < 1e-3 * noise


def test_sparse_samples_are_witnesses_like_dense_ones():
    X = np.abs(planted(200, 60, 5)[0]) * (np.random.default_rng(0).random((200, 60)) < 0.3)
    params = {"alpha": 0.1, "reduction": 1, "init": "samples", "random_state": 0}
    dense, sparse = (NMF(4, **params).partial_fit(kind) for kind in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse._state.witnesses, dense._state.witnesses)
    np.testing.assert_allclose(sparse._state.witness_codes, dense._state.witness_codes, atol=1e-6)
    assert sparse._state.pace == dense._state.pace


def test_a_stream_goes_on_from_a_file_with_its_witnesses(data, tmp_path):
    params = {"alpha": 0.1, "batch_size": 20, "random_state": 0}
    model = DictionaryLearning(5, **params).partial_fit(data[:200])
    model.save(tmp_path / "m", state=True)
    again = load(tmp_path / "m")
    for one in (model, again):
        one.partial_fit(data[200:])
    assert model._state.n_remembered == again._state.n_remembered
    np.testing.assert_array_equal(model._state.witnesses, again._state.witnesses)
    np.testing.assert_array_equal(model.components_, again.components_)


@pytest.mark.parametrize("n_epochs", [1, 8])
def test_after_a_fit_no_samples_are_kept(data, n_epochs):
    model = DictionaryLearning(5, n_epochs=n_epochs, tol=0, random_state=0).fit(data)
    assert model._state.witnesses.size == model._state.witness_codes.size == 0


def test_a_stream_may_go_on_with_weights_of_the_paper(data, tmp_path):
    model = DictionaryLearning(5, batch_size=20, random_state=0).partial_fit(data)
    model.set_params(learning_rate=0.9).partial_fit(data)
    assert model._state.witnesses.size == 0
    model.save(tmp_path / "m", state=True)
    load(tmp_path / "m").set_params(learning_rate="auto").partial_fit(data)


def test_where_more_memory_removes_nothing_there_is_no_noise(data):
    solver = solver_for(data)
    solver.step(rows(solver, data[:40]))
    solver.forgetting.most = solver.state.n_remembered
    assert solver.staleness.measure(solver.regression)[1] == 0


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_less_is_known_the_more_noise_there_is(data, share):
    holes = np.random.default_rng(0).random(data.shape) > share
    solver = solver_for(np.where(holes, 0.0, data), missing="nan")
    X, weights = rows(solver, np.where(holes, 0.0, data)), rows(solver, 1.0 - holes)
    solver.step(Observed(X[:40], X[:40], weights[:40], 0))
    state = solver.state
    np.testing.assert_array_equal(state.witness_weights, weights[:N_WITNESSES])
    noise = solver.staleness.measure(solver.regression)[1]
    left = state.witness_weights * (state.witnesses - state.witness_codes @ state.D.T)
    known = state.witness_weights.mean()
    expected = 0.5 * (left**2).sum() * 5 / state.n_remembered / known
    assert noise == pytest.approx(expected, rel=1e-2)


def test_witnesses_of_weighted_entries_are_coded_by_their_weights(data):
    weights = np.random.default_rng(0).uniform(0.5, 2, data.shape)
    model = DictionaryLearning(5, reduction=1, batch_size=40, random_state=0)
    state = model.partial_fit(data[:40], weights=weights[:40])._state
    np.testing.assert_allclose(state.witness_weights, weights[:N_WITNESSES])
    np.testing.assert_allclose(state.witnesses, (weights * data)[:N_WITNESSES])


def test_after_a_change_of_the_stream_most_is_forgotten(monkeypatch, data):
    solver = solver_for(data)
    solver.step(rows(solver, data[:40]))
    solver.state.n_remembered, before = 1000.0, solver.state.pace
    monkeypatch.setattr(solver.staleness, "measure", lambda _: (0.0, 0.0))
    solver.state.n_samples_seen = 10_000
    solver.staleness.follow(rows(solver, data[:40]), solver.regression, 40)
    assert solver.state.pace == before  # empty samples tell nothing
    assert solver.state.n_remembered == 1000.0
    monkeypatch.setattr(solver.staleness, "measure", lambda _: (1.01 * ABRUPT, 1.0))
    solver.state.n_samples_seen, solver.state.n_remembered = 20_000, 9000.0
    solver.staleness.follow(rows(solver, data[:40]), solver.regression, 40)
    assert solver.state.n_remembered == pytest.approx(20_000**LEAST_EXPONENT)


@pytest.mark.parametrize("params", [{"learning_rate": 0.9}, {"surrogate": "incremental"}])
def test_there_are_no_witnesses_where_the_weights_are_given(data, params):
    state = DictionaryLearning(5, random_state=0, **params).partial_fit(data)._state
    assert state.witnesses.size == 0
    assert state.n_remembered == 0
