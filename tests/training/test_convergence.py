"""When a fit looks at more features, remembers more, and ends."""

import json
import logging
import math
from types import SimpleNamespace

import numpy as np
import pytest

from somf import NMF, DictionaryLearning
from somf.distributed import ALONE
from somf.training.config import BATCH_SIZES
from somf.training.convergence import (
    INTERVAL,
    LEAST_WINDOW,
    LONGEST_EPOCH,
    WINDOW_PER_ATOM,
    Convergence,
)
from tests.helpers.fits import (
    StopError,
    assert_same_fit,
    fit_with_stops,
    sklearn_clone,
    stopping_at,
)
from tests.helpers.problems import planted


class FakeSolver:
    """A solver that has seen an interval of samples whose mean objective is given."""

    communicator = ALONE

    def __init__(self, can_climb=0):
        self.state = SimpleNamespace(n_samples_seen=0)
        self.forgetting = SimpleNamespace(window=math.inf)
        self.can_climb, self.objectives = can_climb, []

    def take_objectives(self):
        taken, self.objectives = self.objectives, []
        return taken

    def climb(self, batch_size):
        self.can_climb -= 1
        return self.can_climb >= 0


def watch(means, n_samples=1000, solver=None, **params):
    """Return a convergence after intervals with these mean objectives, and the solver."""
    model = DictionaryLearning(**({"n_components": 4, "patience": 2} | params))
    config = model._config().for_samples(n_samples, 10)
    convergence, solver = Convergence(config, n_samples), solver or FakeSolver()
    for mean in means:
        solver.state.n_samples_seen += convergence.interval
        solver.objectives = [mean * convergence.interval]
        assert convergence.is_due(solver.state.n_samples_seen)
        convergence.conclude(solver)
    return convergence, solver


def test_an_interval_is_an_epoch_unless_that_is_long():
    assert watch([], n_samples=1000)[0].interval == 1000
    assert watch([], n_samples=LONGEST_EPOCH + 1)[0].interval == INTERVAL


def test_a_fit_ends_when_nothing_improves_for_as_long_as_its_patience():
    falling = [1.0, 0.9, 0.8, 0.7]
    assert not watch(falling)[0].is_over
    assert not watch([*falling, 0.7])[0].is_over
    assert watch([*falling, 0.7, 0.7])[0].is_over
    assert not watch([*falling, 0.7, 0.7], patience=3)[0].is_over
    assert not watch([*falling, 0.7, 0.6, 0.6])[0].is_over  # it has to be in a row


def test_with_a_tolerance_of_zero_a_fit_never_ends_by_itself():
    assert not watch([0.7] * 20, tol=0)[0].is_over


def test_a_fit_that_stalls_climbs_before_it_ends():
    convergence, solver = watch([0.7] * 3, solver=FakeSolver(can_climb=1))
    assert solver.can_climb == 0
    assert convergence.n_stalled == 0  # the interval after it has nothing to be compared with


def test_a_fit_that_stalls_remembers_more_and_half_an_epoch_at_most():
    first = WINDOW_PER_ATOM * 20
    n = 5 * first
    convergence, solver = watch([1.0, 0.9], n_samples=int(n), n_components=20)
    assert convergence.window == first
    convergence, solver = watch([0.7] * 2, n_samples=int(n), n_components=20)
    assert convergence.window == solver.forgetting.window == 2 * first
    convergence, solver = watch([0.7] * 4, n_samples=int(n), n_components=20)
    assert convergence.window == solver.forgetting.window == n / 2
    assert watch([], n_samples=10_000, n_components=1)[0].window == LEAST_WINDOW
    assert watch([], n_samples=100)[0].window == 50


@pytest.mark.parametrize("params", [{"learning_rate": 0.9}, {"surrogate": "incremental"}])
def test_without_weights_of_its_own_choice_a_fit_has_no_window(params):
    assert watch([0.7] * 3, **params)[0].window == math.inf


def test_what_is_stored_restores_it():
    convergence, _ = watch([1.0, 0.9, 0.9])
    again, _ = watch([])
    again.restore(json.loads(json.dumps(convergence.fields())), 3000)
    assert vars(again) == vars(convergence)


def test_with_another_tolerance_it_has_not_stalled_yet():
    convergence, _ = watch([0.9, 0.9, 0.9])
    assert convergence.is_over
    again, _ = watch([], tol=1e-6)
    again.restore(convergence.fields(), 3000)
    assert not again.is_over


@pytest.mark.parametrize(
    "change",
    [
        {"first": -1},
        {"first": 9999},
        {"total": math.nan},
        {"window": 0},
        {"n_stalled": -1},
        {"batch_size": 0},
    ],
)
def test_what_cannot_be_is_not_restored(change):
    convergence, _ = watch([1.0, 0.9])
    with pytest.raises(ValueError, match=r"impossible|empty"):
        convergence.restore(convergence.fields() | change, 2000)


def test_a_default_fit_ends_by_itself_and_says_why(toy, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        model = DictionaryLearning(5, random_state=0).fit(toy)
    assert 2 * 300 < model.n_samples_seen_ < 100 * 300
    assert any("stopping after" in message for message in caplog.messages)


def test_with_a_tolerance_of_zero_a_fit_does_all_its_epochs(toy):
    assert DictionaryLearning(5, n_epochs=3, tol=0).fit(toy).n_samples_seen_ == 900


@pytest.mark.parametrize("kind", [DictionaryLearning, NMF])
def test_an_interrupted_default_fit_equals_an_undisturbed_one(toy, tmp_path, kind):
    X = np.abs(toy)
    model = kind(5, random_state=0)
    undisturbed = sklearn_clone(model).fit(X)
    last = undisturbed.n_iter_
    stops = [1, 18, 19, 20, last // 2, last - 1, last]
    assert_same_fit(fit_with_stops(model, X, tmp_path / "c", stops), undisturbed)


def test_a_fit_keeps_its_batch_size_when_it_resumes(toy, tmp_path, monkeypatch):
    model = DictionaryLearning(5, random_state=0)
    undisturbed = sklearn_clone(model).fit(toy)
    with pytest.raises(StopError):
        sklearn_clone(model).set_params(checkpoint=tmp_path / "c", callbacks=[stopping_at(4)]).fit(
            toy
        )
    monkeypatch.setitem(BATCH_SIZES, "cpu", (40, 40))  # as on another device
    resumed = sklearn_clone(model).set_params(checkpoint=tmp_path / "c").fit(toy)
    assert_same_fit(resumed, undisturbed)


def test_a_finished_fit_goes_on_with_a_smaller_tolerance(toy, tmp_path):
    first = DictionaryLearning(5, random_state=0, checkpoint=tmp_path / "c").fit(toy)
    again = DictionaryLearning(5, random_state=0, checkpoint=tmp_path / "c").fit(toy)
    assert again.n_samples_seen_ == first.n_samples_seen_
    longer = DictionaryLearning(5, tol=1e-6, random_state=0, checkpoint=tmp_path / "c").fit(toy)
    assert longer.n_samples_seen_ > first.n_samples_seen_


def test_exact_codes_with_a_partial_update_follow_masked_ones_where_there_are_many_atoms():
    X = planted(400, 8000, 96, noise=0.3)[0].astype(np.float32)
    rungs = []
    model = DictionaryLearning(
        96, alpha=0.1, batch_size=40, n_epochs=6, random_state=0, callbacks=lambda _: None
    )
    for _ in range(4):
        rungs.append(model.partial_fit(X)._state.rung)
    assert rungs == sorted(rungs)


# The batch size


@pytest.mark.parametrize(
    ("k", "n", "p", "expected"),
    [
        (64, 10_000, 300, 128),
        (4, 10_000, 300, 16),
        (1000, 10_000, 300, 256),
        (64, 200, 300, 20),
        (64, 3, 300, 1),
        (64, None, 300, 128),
        (40, 300_000, 27, 54),
        (100, 10_000, 10**6, 67),
    ],
)
def test_a_minibatch_has_two_samples_per_atom_within_limits(k, n, p, expected):
    assert DictionaryLearning(k)._config().for_samples(n, p).batch_size == expected


def test_a_batch_size_that_is_given_stays():
    assert DictionaryLearning(4, batch_size=7)._config().for_samples(100, 10).batch_size == 7
