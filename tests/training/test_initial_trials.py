"""Which initial atoms a fit goes on from, if trials decide."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from somf import NMF, MatrixFactorization
from somf.data import as_source, loader_for
from somf.data.sources.arrays import ArraySource
from somf.distributed import ALONE
from somf.training import initial_trials
from somf.training.initial_dictionary import SVD_SAMPLES, initial_dictionary
from somf.training.initial_trials import CANDIDATES, TRIAL_SAMPLES, InitialTrials
from somf.training.samples import Samples
from somf.training.start import start

X = np.random.default_rng(0).gamma(0.5, size=(60, 20))


def trials(data=X, sample_weight=None):
    config, n = NMF(5)._config().for_samples(*data.shape), len(data)
    return InitialTrials(config, as_source(data), Samples.alone(n), 0, ALONE, sample_weight)


def learned(D, data=X, sample_weight=None):
    """Return the objective of a trial from atoms, and the atoms that it learns."""
    trial, n = trials(data, sample_weight), len(data)
    state = trial.state_with(D.copy())
    minibatches = trial.read(n - min(n, trial.size()), n, state.permutation)
    trial.learn(state, minibatches)
    return trial.objective(state, minibatches), state.components.T


def atoms(init):
    return initial_dictionary(NMF(5, init=init)._config(), as_source(X), Samples.alone(len(X)), 0)


def objective(D, data=X):
    """Return the objective of atoms that learn from nothing more."""
    return NMF(5, init=D.T, n_epochs=1).fit(np.zeros((1, 20))).objective(data)


def test_in_nmf_without_a_penalty_a_trial_chooses_the_initial_atoms():
    general = MatrixFactorization(5, alpha=0, init="auto", positive_code=True, positive_atoms=True)
    for model in (NMF(5), general):
        assert model._config().tries_initial_atoms
    for model in (NMF(5, alpha=0.1), NMF(5, alpha="auto"), NMF(5, init="samples")):
        assert not model._config().tries_initial_atoms


@pytest.mark.parametrize(
    ("objectives", "best"),
    [
        ((1.0, 0.999, 0.998), "random"),
        ((1.0, 0.9, 0.899), "samples"),
        ((1.0, 0.999, 0.9), "nndsvd"),
        ((1.0, 0.9, 0.8), "nndsvd"),
    ],
)
def test_a_fit_goes_on_from_the_trial_that_did_better(monkeypatch, objectives, best):
    answers = iter(objectives)

    def learn(_trials, state, _minibatches):
        state.D /= 2

    monkeypatch.setattr(InitialTrials, "learn", learn)
    monkeypatch.setattr(InitialTrials, "objective", lambda *_: next(answers))
    config = NMF(5)._config().for_samples(*X.shape)
    state = start(config, as_source(X), Samples.alone(len(X)), 0, is_finite=True)
    np.testing.assert_array_equal(state.components, atoms(init=best).T / 4)


def test_a_trial_learns():
    D = atoms(init="samples")
    before = objective(D)
    after, D = learned(D)
    assert after < 0.95 * before
    assert after == pytest.approx(objective(D), rel=1e-2)


def test_a_trial_learns_from_samples_by_their_weights():
    D, weight = atoms(init="samples"), np.zeros(len(X))
    weight[:30] = 2.0
    _, of_some = learned(D, sample_weight=weight)
    _, of_all = learned(D)
    assert objective(of_some, X[:30]) < objective(of_all, X[:30])
    assert objective(of_some, X[30:]) > objective(of_all, X[30:])


def test_the_objective_of_a_trial_counts_samples_by_their_weights():
    weight = np.arange(60) % 3.0
    found, D = learned(atoms(init="samples"), sample_weight=weight)
    assert found == pytest.approx(objective(D, np.repeat(X, weight.astype(int), axis=0)), 1e-2)
    assert abs(found / objective(D) - 1) > 0.02


def test_where_no_sample_of_a_trial_counts_all_of_them_judge_it():
    D = atoms(init="samples")
    found, _ = learned(D, sample_weight=np.zeros(60))
    assert found == pytest.approx(objective(D), rel=1e-2)


def test_trials_learn_from_the_last_samples_of_the_first_epoch():
    data, n = np.tile(X, (12, 1)), TRIAL_SAMPLES
    samples = Samples.alone(len(data))
    order = samples.order(loader_for("cpu", as_source(data), data.dtype), 0, 0)
    other = data.copy()
    other[order[:-n]] = 0
    D = atoms(init="samples")
    for found, again in zip(learned(D, data), learned(D, other), strict=True):
        np.testing.assert_array_equal(found, again)


def test_trials_hold_no_more_samples_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(initial_trials, "TRIAL_ENTRIES", 30 * 20)
    assert trials().size() == 30
    monkeypatch.setattr(initial_trials, "TRIAL_ENTRIES", 1)
    assert trials().size() == trials().config.batch_size < 30


class CountingSource(ArraySource):
    """Counts the rows that are read."""

    n_read = 0

    def view(self, ids):
        self.n_read += len(ids)
        return super().view(ids)


@pytest.mark.parametrize(("n", "n_of_trials"), [(60, 60), (700, 700), (1300, 1000)])
def test_the_samples_of_trials_are_read_once(n, n_of_trials):
    data = np.tile(X, (22, 1))[:n]
    source = CountingSource(data)
    replace(trials(data), source=source).best()
    n_samples, n_for_svd = 5, min(n, SVD_SAMPLES)
    assert source.n_read == n_samples + n_for_svd + n_of_trials


@pytest.mark.parametrize(("n", "is_better"), [(500, False), (700, True), (1300, True)])
def test_the_atoms_of_the_best_trial_learn_from_the_samples_before_those_of_the_trials(
    monkeypatch, n, is_better
):
    monkeypatch.setattr(initial_trials, "CANDIDATES", ("samples",))
    data = np.tile(X, (22, 1))[:n]
    _, of_trial = learned(atoms(init="samples"), data)
    monkeypatch.setattr(initial_trials, "initial_dictionary", lambda *_: atoms(init="samples"))
    result = trials(data).best()
    assert (objective(result) < objective(of_trial)) == is_better
    assert np.array_equal(result, of_trial) != is_better
    other = data.copy()
    order = Samples.alone(n).order(loader_for("cpu", as_source(data), data.dtype), 0, 0)
    other[order[: -2 * TRIAL_SAMPLES]] = 0  # none of these
    np.testing.assert_array_equal(trials(other).best(), result)


def test_a_fit_keeps_nothing_of_its_trials(monkeypatch):
    states, state_with = [], InitialTrials.state_with

    def noted(self, D):
        state = state_with(self, D)
        states.append(weakref.ref(state))
        return state

    monkeypatch.setattr(InitialTrials, "state_with", noted)
    gc.disable()
    try:
        trials().best()
        assert len(states) == len(CANDIDATES) + 1
        assert not any(state() for state in states)
    finally:
        gc.enable()


def test_the_objective_of_a_trial_whose_samples_are_reproduced_is_not_below_zero():
    data = X[:3]
    for init in CANDIDATES:
        D = initial_dictionary(NMF(5, init=init)._config(), as_source(data), Samples.alone(3), 0)
        assert learned(D.astype(np.float64), data)[0] >= 0


def test_a_fit_tells_its_trials_what_samples_weigh(monkeypatch):
    told = []

    def best(self):
        told.append((self.sample_weight.tolist(), self.samples.ids.tolist()))
        return atoms(init="samples")

    monkeypatch.setattr(InitialTrials, "best", best)
    weight = np.r_[0.0, np.ones(59)]
    NMF(5, n_epochs=1).fit(X, sample_weight=weight)
    NMF(5).partial_fit(X, sample_weight=weight)
    assert told == 2 * [(weight.tolist(), list(range(1, 60)))]


@pytest.mark.parametrize("init", ["samples", "nndsvd"])
def test_samples_that_do_not_count_are_no_initial_atoms_of_a_stream(init):
    data, weight = np.r_[np.eye(1, 20).repeat(50, axis=0), X], np.r_[np.zeros(50), np.ones(60)]
    model = NMF(5, init=init, alpha=0.1, random_state=0).partial_fit(data, sample_weight=weight)
    again = NMF(5, init=init, alpha=0.1, random_state=0).partial_fit(X)
    assert not np.isclose(model.components_[:, 0], 1.0).any()
    assert model.objective(X) == pytest.approx(again.objective(X), rel=0.1)
