"""Which initial atoms a fit goes on from, if trials decide."""

import numpy as np
import pytest

from somf import NMF, MatrixFactorization
from somf.algorithm.forgetting import Adaptive
from somf.data import as_source
from somf.distributed import ALONE
from somf.training.initial_dictionary import initial_dictionary
from somf.training.initial_trials import InitialTrials
from somf.training.samples import Samples
from somf.training.start import start

X = np.random.default_rng(0).gamma(0.5, size=(60, 20))


def trials(data=X, is_finite=True, sample_weight=None):
    config, n = NMF(5)._config().for_samples(*data.shape), len(data)
    return InitialTrials(
        config, as_source(data), Samples.alone(n), 0, is_finite, ALONE, sample_weight
    )


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
    monkeypatch.setattr(InitialTrials, "learn", lambda _, D: (next(answers), D / 2))
    config = NMF(5)._config().for_samples(*X.shape)
    state = start(config, as_source(X), Samples.alone(len(X)), 0, is_finite=True)
    np.testing.assert_array_equal(state.components, atoms(init=best).T / 2)


def test_a_trial_learns():
    D = atoms(init="samples")
    before = objective(D)
    after, learned = trials().learn(D)
    assert after < 0.95 * before
    assert after == pytest.approx(objective(learned), rel=1e-2)


def test_a_trial_learns_from_samples_by_their_weights():
    D, weight = atoms(init="samples"), np.zeros(len(X))
    weight[:30] = 2.0
    _, of_some = trials(X, sample_weight=weight).learn(D.copy())
    _, of_all = trials(X).learn(D.copy())
    assert objective(of_some, X[:30]) < objective(of_all, X[:30])
    assert objective(of_some, X[30:]) > objective(of_all, X[30:])


def test_a_trial_of_an_epoch_remembers_no_more_than_the_fit_would(monkeypatch):
    told = []
    monkeypatch.setattr(Adaptive, "expect_epochs", lambda _, *n: told.append(n))
    trials().learn(atoms(init="samples"))
    trials(is_finite=False).learn(atoms(init="samples"))
    assert told == [(len(X),)]
