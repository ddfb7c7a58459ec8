"""Callbacks, validation, early stopping."""

import sys

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.callbacks import EarlyStopping, Progress
from tests.helpers.fits import sklearn_clone


def test_the_last_batch_of_an_epoch_may_be_smaller(toy):
    model = DictionaryLearning(4, batch_size=70, n_epochs=2, random_state=0).fit(toy)
    assert (model.n_iter_, model.n_samples_seen_) == (10, 600)
    assert model.history_["n_samples_seen"] == [0, 70, 140, 210, 300, 600]


def test_a_held_out_fraction_is_not_learned_from(toy):
    X = toy.copy()
    model = DictionaryLearning(4, reduction=4, n_epochs=3, tol=0, random_state=0, init="random")
    model.fit(X, validation=0.2)
    assert model.n_samples_seen_ == 3 * 240
    visited = model._state.memory.n_visits > 0
    assert visited.sum() == 240
    # Other held-out samples change the measurement but nothing that is learned.
    X[~visited] += 0.1
    again = sklearn_clone(model).fit(X, validation=0.2)
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.history_["objective"] != model.history_["objective"]


@pytest.mark.parametrize("validation", [0.0, 1.0, 1.5, -0.5, 1e-9, 10, True, np.float32(2)])
def test_a_fraction_must_leave_samples_on_both_sides(toy, validation):
    with pytest.raises(ValueError, match="validation must be a fraction"):
        DictionaryLearning(4).fit(toy, validation=validation)


def test_validation_data_must_have_the_features_of_the_data(toy):
    with pytest.raises(ValueError, match="validation must have 60 features like X, got 59"):
        DictionaryLearning(4).fit(toy, validation=toy[:, 1:])


def test_callbacks_hear_of_every_iteration(toy):
    heard = []

    def listen(progress):
        heard.append((progress.n_iter, progress.n_samples_seen, progress.objective is not None))

    DictionaryLearning(4, batch_size=100, n_epochs=2, callbacks=[listen]).fit(toy, validation=toy)
    assert heard == [
        (1, 100, False),
        (2, 200, False),
        (3, 300, True),
        (4, 400, False),
        (5, 500, False),
        (6, 600, True),
    ]


def test_a_callback_may_end_the_fit(toy):
    model = DictionaryLearning(4, batch_size=10, callbacks=lambda progress: progress.n_iter == 7)
    model.fit(toy, validation=toy)
    assert model.n_iter_ == 7
    assert model.history_["n_iter"] == [0, 7]


def test_early_stopping_waits_for_its_patience():
    stopping = EarlyStopping(patience=2, min_improvement=0.01)

    def answer(*objectives):
        return stopping(Progress(objective=objectives[-1], history={"objective": [*objectives]}))

    assert not answer(1.0)
    assert not answer(1.0, 1.0)
    assert answer(1.0, 1.0, 1.0)
    assert answer(1.0, 0.995, 0.995)
    assert not answer(1.0, 1.0, 0.9)
    assert not stopping(Progress(objective=None, history={"objective": [1.0, 1.0, 1.0]}))


def test_early_stopping_neither_ends_a_fit_while_atoms_are_noisy_nor_looks_back_after_it():
    stopping, seen, noisy = EarlyStopping(patience=1), [0, 100, 200, 300, 400, 500], range(101, 301)

    def answer(*objectives):
        n = len(objectives)
        history = {"objective": [*objectives], "n_samples_seen": seen[:n]}
        progress = Progress(objective=objectives[-1], history=history, noisy=noisy)
        progress.n_samples_seen = seen[n - 1]
        return stopping(progress)

    assert answer(2.0, 2.0)
    assert not answer(2.0, 1.0, 1.5)
    assert not answer(2.0, 1.0, 1.5, 1.5)
    assert not answer(2.0, 1.0, 1.5, 1.5, 1.2)
    assert answer(2.0, 1.0, 1.5, 1.5, 1.2, 1.2)
    assert not answer(2.0, 1.0, 1.5, 1.5, 1.2, 1.1)


def test_early_stopping_does_not_end_a_fit_before_its_first_pass_is_over(toy, monkeypatch):
    monkeypatch.setattr("somf.training.loop.PASS_ENTRIES", 30 * toy.shape[1])
    stopping = EarlyStopping(patience=1, min_improvement=0.9)
    model = DictionaryLearning(4, batch_size=30, callbacks=[stopping], random_state=0)
    model.set_params(record_every=150, init=model.fit(toy, validation=toy).components_)
    assert model.n_samples_seen_ == 300  # after the first epoch, without noise
    patient = EarlyStopping(patience=5, min_improvement=0.9)
    assert model.set_params(callbacks=[patient]).fit(toy, validation=toy).n_samples_seen_ >= 1200


def test_early_stopping_ends_a_fit_that_makes_no_progress(toy):
    stopping = EarlyStopping(patience=2)
    model = DictionaryLearning(4, n_epochs=500, callbacks=[stopping], random_state=0)
    model.fit(toy, validation=0.2)
    assert model.n_samples_seen_ < 500 * 240


def test_early_stopping_without_validation_data_is_an_error(toy):
    with pytest.raises(ValueError, match="validation must be given for EarlyStopping"):
        DictionaryLearning(4, callbacks=[EarlyStopping()]).fit(toy)


def test_verbose_shows_a_progress_bar(toy, capsys):
    pytest.importorskip("rich", reason="the progress bar needs somf[progress]")
    DictionaryLearning(4, n_epochs=1, verbose=1, random_state=0).fit(toy, validation=toy)
    assert "300/300 samples" in capsys.readouterr().err


def test_a_missing_progress_bar_names_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"somf\[progress\]"):
        DictionaryLearning(4, verbose=1).fit(toy)
