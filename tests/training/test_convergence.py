"""When a fit looks at more features, and ends."""

import json
import logging
import math
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from somf import NMF, DictionaryLearning, load
from somf.algorithm.forgetting import LEAST_PER_ATOM, NOISY_PER_ATOM
from somf.algorithm.passes import begin_pass
from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.distributed import ALONE
from somf.training.config import BATCH_SIZES
from somf.training.convergence import (
    INTERVAL,
    LEAST_COMPARED,
    LONGEST_EPOCH,
    MOST_CODES,
    ONLINE_EPOCHS,
    ONLINE_SAMPLES,
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
        self.state = SimpleNamespace(
            n_samples_seen=0, phase=Phase.ONLINE, n_lowered=0, forget_moves=lambda: None
        )
        self.can_climb, self.objectives = can_climb, []

    def take_objectives(self):
        taken, self.objectives = self.objectives, []
        return taken

    def climb(self, batch_size):
        self.can_climb -= 1
        return self.can_climb >= 0


STREAM = {"learning_rate": 0.9}
"""Parameters of a fit without passes over all samples."""


def end_pass(solver, has_lowered):
    """Stand for the end of a pass of a solver that has no atoms."""
    solver.state.phase = Phase.BETWEEN
    solver.state.n_lowered = solver.state.n_lowered + 1 if has_lowered else 0


def watch(means, n_samples=1000, solver=None, **params):
    """Return a convergence after intervals with these mean objectives, and the solver."""
    model = DictionaryLearning(**({"n_components": 4, "patience": 2} | params))
    config = model._config().for_samples(n_samples, 10)
    convergence, solver = Convergence(config, n_samples), solver or FakeSolver()
    for mean in means:
        if solver.state.phase == Phase.BETWEEN:
            solver.state.phase = Phase.PASS
        solver.state.n_samples_seen += convergence.interval
        solver.objectives = [mean * convergence.interval]
        assert convergence.is_due(solver.state.n_samples_seen)
        with mock.patch("somf.training.convergence.end_pass", end_pass):
            convergence.conclude(solver)
    return convergence, solver


def test_an_interval_is_an_epoch_unless_that_is_long():
    assert watch([], n_samples=1000)[0].interval == 1000
    assert watch([], n_samples=LONGEST_EPOCH + 1)[0].interval == INTERVAL


def test_a_fit_ends_when_nothing_improves_for_as_long_as_its_patience():
    falling = [1.0, 0.9, 0.8, 0.7]
    assert not watch(falling, **STREAM)[0].is_over
    assert not watch([*falling, 0.7], **STREAM)[0].is_over
    assert watch([*falling, 0.7, 0.7], **STREAM)[0].is_over
    assert not watch([*falling, 0.7, 0.7], patience=3, **STREAM)[0].is_over
    assert not watch([*falling, 0.7, 0.6, 0.6], **STREAM)[0].is_over  # it has to be in a row


def test_with_a_tolerance_of_zero_a_fit_never_ends_by_itself():
    assert not watch([0.7] * 20, tol=0)[0].is_over


def test_a_fit_that_stalls_climbs_before_it_ends():
    convergence, solver = watch([0.7] * 3, solver=FakeSolver(can_climb=1), **STREAM)
    assert solver.can_climb == 0
    assert solver.state.is_settled
    assert convergence.n_stalled == 0  # the interval after it has nothing to be compared with


def phases(means, **params):
    """Return the phase of a fit after intervals with these mean objectives."""
    return watch(means, **params)[1].state.phase


def test_passes_begin_after_three_epochs():
    assert phases([1.0, 0.9]) == Phase.ONLINE
    assert phases([1.0, 1.1]) == Phase.ONLINE
    assert phases([1.0, 0.9, 0.8]) == Phase.BETWEEN
    assert phases([1.0, 0.9, 0.8, 0.7, 0.6, 0.5]) == Phase.BETWEEN


def test_a_fit_that_stalls_before_its_passes_goes_on_to_them():
    convergence, solver = watch([1.0, 1.0, 1.0], patience=1)
    assert not convergence.is_over
    assert solver.state.phase == Phase.BETWEEN
    assert not watch([1.0, 1.0], patience=1)[0].is_over


def test_passes_begin_after_fewer_epochs_that_are_long():
    assert phases([1.0], n_samples=ONLINE_SAMPLES - 1) == Phase.ONLINE
    assert phases([1.0], n_samples=ONLINE_SAMPLES) == Phase.BETWEEN


def test_passes_look_at_all_features():
    solver = FakeSolver(can_climb=2)
    watch([1.0, 0.9, 0.8], solver=solver)
    assert solver.can_climb < 0


def test_passes_end_when_the_objective_hardly_changes_over_several_of_them():
    online, n = [1.0, 1.0], LEAST_COMPARED
    falling = [0.9 - 0.01 * i for i in range(2 * n)]
    assert not watch([*online, *falling])[0].is_over
    assert not watch([*online, *falling, *[falling[-1]] * (n - 1)])[0].is_over
    assert watch([*online, *falling, *[falling[-1]] * n])[0].is_over
    assert not watch([*online, *falling, *[falling[-1]] * n], patience=n + 1)[0].is_over
    assert not watch([*online, *falling, *[falling[-1]] * n], tol=0)[0].is_over


def test_a_pass_with_momentum_that_raises_the_objective_is_taken_back_and_not_compared():
    falling = [1.0, 1.0, 1.0, 0.9, 0.8, 0.7]
    convergence, solver = watch(falling)
    assert solver.state.n_lowered == 3
    raised, solver = watch([*falling, 0.75])
    assert solver.state.n_lowered == 0
    assert raised.recent == convergence.recent
    again, solver = watch([*falling, 0.75, 0.71])  # without momentum a rise is rounding
    assert solver.state.n_lowered == 1
    assert again.recent[-1] == 0.71


@pytest.mark.parametrize(
    "params",
    [
        STREAM,
        {"reduction": 2},
        {"surrogate": "incremental"},
        {"n_samples": LONGEST_EPOCH + 1, "n_components": 1},
        {"n_samples": LONGEST_EPOCH, "n_components": MOST_CODES // LONGEST_EPOCH + 1},
    ],
)
def test_there_are_no_passes_where_codes_are_too_many_or_parameters_say_otherwise(params):
    assert phases([0.7] * 12, **params) == Phase.ONLINE


def test_what_is_stored_restores_it():
    convergence, _ = watch([1.0, 0.9, 0.9])
    again, _ = watch([])
    again.restore(json.loads(json.dumps(convergence.fields())), 3000)
    assert vars(again) == vars(convergence)


def test_with_another_tolerance_it_has_not_stalled_yet():
    convergence, _ = watch([0.9, 0.9, 0.9], **STREAM)
    assert convergence.is_over
    again, _ = watch([], tol=1e-6, **STREAM)
    again.restore(convergence.fields(), 3000)
    assert not again.is_over


@pytest.mark.parametrize(
    "change",
    [
        {"first": -1},
        {"first": 9999},
        {"total": math.nan},
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
    assert any("per pass, on average over the last 5" in message for message in caplog.messages)


def test_a_stream_that_ends_says_why(caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        watch([1.0, 1.0, 1.0, 1.0], **STREAM)
    assert any("in each of the last 2 intervals" in message for message in caplog.messages)


def test_a_fit_that_has_done_passes_goes_on_as_a_stream(toy, tmp_path):
    phases, path = [], tmp_path / "c"
    model = DictionaryLearning(5, random_state=0, checkpoint=path).fit(toy)
    from_checkpoint = load(path)
    for one in (model, from_checkpoint):
        phases.append(one._state.phase)
        one.partial_fit(toy[:40])
        assert (one._state.phase, one._state.memory) == (Phase.ONLINE, None)
    assert phases == [Phase.ONLINE, Phase.BETWEEN]
    np.testing.assert_array_equal(model.components_, from_checkpoint.components_)


def test_a_fit_that_ends_between_passes_goes_on_with_more_epochs(toy, tmp_path):
    model = DictionaryLearning(5, random_state=0, checkpoint=tmp_path / "c")
    whole = sklearn_clone(model).set_params(checkpoint=tmp_path / "whole").fit(toy)
    ended = set()
    # With fewer epochs there would be no noise.
    for n_epochs in range(ONLINE_EPOCHS + LEAST_COMPARED, whole.n_samples_seen_ // 300 + 1):
        model.set_params(n_epochs=n_epochs).fit(toy)
        ended.add(load(tmp_path / "c")._state.phase)
    np.testing.assert_array_equal(model.components_, whole.components_)
    assert ended == {Phase.BETWEEN}


# Noise before passes


@pytest.mark.parametrize(
    ("n", "n_epochs", "noisy"),
    [
        (1000, ONLINE_EPOCHS + LEAST_COMPARED, range(2001, 3000)),
        (1000, ONLINE_EPOCHS + LEAST_COMPARED - 1, range(0)),  # no time for passes
        (ONLINE_SAMPLES, 100, range(ONLINE_SAMPLES // 2 + 1, ONLINE_SAMPLES)),
        (LONGEST_EPOCH + 1, 100, range(0)),  # no passes
    ],
)
def test_atoms_are_noisy_in_the_epoch_before_the_passes(n, n_epochs, noisy):
    config = DictionaryLearning(4, n_epochs=n_epochs)._config().for_samples(n, 10)
    convergence = Convergence(config, n)
    assert convergence.noisy == noisy
    if noisy:  # the last third averages it out
        length = noisy.stop - noisy.start
        assert noisy.stop - convergence.quiet_from == pytest.approx(length / 3, abs=1)


@pytest.mark.parametrize("params", [STREAM, {"reduction": 4}])
def test_fits_without_passes_have_no_noise(params):
    config = DictionaryLearning(4, **params)._config().for_samples(1000, 10)
    assert Convergence(config, 1000).noisy == range(0)


def test_few_samples_are_remembered_for_a_part_of_the_epoch_before_the_passes(toy, caplog):
    remembered = {}

    def note(progress):
        remembered[progress.n_samples_seen] = solvers[0].state.n_remembered

    solvers, begin = [], Solver.__init__
    with mock.patch.object(
        Solver, "__init__", lambda self, *args: (begin(self, *args), solvers.append(self))[0]
    ):
        model = DictionaryLearning(2, batch_size=10, random_state=0, callbacks=note)
        with caplog.at_level(logging.INFO, logger="somf"):
            model.fit(toy)
    within = [N for n, N in remembered.items() if 610 <= n <= 800]
    assert len(set(within)) == 1
    assert LEAST_PER_ATOM * 2 <= within[0] <= NOISY_PER_ATOM * 2
    assert within[0] < remembered[600]
    assert remembered[900] == within[0] + 100
    assert any("noise moves atoms" in message for message in caplog.messages)


def test_a_fit_that_remembers_little_anyway_does_not_speak_of_noise(toy, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        DictionaryLearning(20, random_state=0).fit(toy)
    assert not any("noise moves atoms" in message for message in caplog.messages)


def test_noise_does_not_begin_where_it_would_be_averaged_out(toy, tmp_path):
    def remembered(n_epochs, n_samples):
        model = DictionaryLearning(2, batch_size=10, n_epochs=n_epochs, random_state=0)
        model.set_params(checkpoint=tmp_path / "c", callbacks=stopping_at(n_samples // 10))
        with pytest.raises(StopError):
            model.fit(toy)
        return load(tmp_path / "c")._state.n_remembered

    before = remembered(5, 850)  # no time for noise
    assert before > NOISY_PER_ATOM * 2
    assert remembered(100, 890) >= before


@pytest.mark.parametrize("kind", [DictionaryLearning, NMF])
def test_a_fit_that_is_interrupted_while_atoms_are_noisy_resumes_bit_for_bit(toy, tmp_path, kind):
    model = kind(5, alpha=0.1, batch_size=20, random_state=0)
    undisturbed = sklearn_clone(model).fit(np.abs(toy))
    stops = [30, 31, 37, 44, 46]
    assert_same_fit(fit_with_stops(model, np.abs(toy), tmp_path / "c", stops), undisturbed)


def test_with_a_tolerance_of_zero_a_fit_does_all_its_epochs(toy):
    assert DictionaryLearning(5, n_epochs=3, tol=0).fit(toy).n_samples_seen_ == 900


@pytest.mark.parametrize("kind", [DictionaryLearning, NMF])
def test_an_interrupted_default_fit_equals_an_undisturbed_one(toy, tmp_path, monkeypatch, kind):
    X = np.abs(toy)
    model, begin = kind(5, random_state=0), []
    monkeypatch.setattr("somf.training.loop.PASS_ENTRIES", 6000)  # three minibatches
    with monkeypatch.context() as patch:
        patch.setattr(
            "somf.training.loop.begin_pass",
            lambda s, *rows: (begin.append(s.state.n_iter), begin_pass(s, *rows)),
        )
        undisturbed = sklearn_clone(model).fit(X)
    last = undisturbed.n_iter_
    assert begin[1] == begin[0] + 3
    within_passes = [begin[0] + i for i in (0, 1, 2, 3, 4, 13, 14, 15)]
    stops = sorted({1, 18, 19, 20, *within_passes, last - 1, last})
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


@pytest.mark.parametrize(
    ("k", "n", "p", "share", "expected"),
    [
        (20, 20_000, 765, 0.25, 160),
        (50, 10**6, 20_000, 0.01, 512),
        (50, 3424, 20_000, 0.01, 342),
        (5, 10_000, 100, 0.1, 16),  # the update is cheap
        (50, None, 20_000, 0.0, 512),
        (100, None, 10**6, 0.001, 512),
        (30, None, 200, 3.0, 60),  # every entry is stored three times
    ],
)
def test_a_minibatch_of_sparse_samples_has_as_many_entries_within_limits(k, n, p, share, expected):
    assert DictionaryLearning(k)._config().for_samples(n, p, share).batch_size == expected


def test_a_gpu_makes_sparse_samples_dense_and_has_room_for_them():
    config = replace(DictionaryLearning(100)._config(), device="cuda")
    assert config.for_samples(None, 20_000, 0.01).batch_size == 2048
    assert config.for_samples(None, 10**6, 0.001).batch_size == 256


def test_a_batch_size_that_is_given_stays():
    assert DictionaryLearning(4, batch_size=7)._config().for_samples(100, 10).batch_size == 7
