"""Records, callbacks, validation, early stopping."""

import logging
import sys

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.callbacks import EarlyStopping, Progress
from tests.helpers.fits import sklearn_clone


def test_history_has_a_record_at_the_start_at_intervals_and_at_the_end(toy):
    model = DictionaryLearning(4, batch_size=10, n_epochs=2, record_every=200, random_state=0)
    history = model.fit(toy).history_
    assert history["n_samples_seen"] == [0, 200, 400, 600]
    assert history["n_iter"] == [0, 20, 40, 60]
    columns = {"n_samples_seen", "n_iter", "compute_seconds", "wall_seconds"}
    assert set(history) == columns | {"training_objective"}
    for column in ("compute_seconds", "wall_seconds"):
        assert history[column] == sorted(history[column])
    assert history["compute_seconds"][-1] <= history["wall_seconds"][-1]
    assert (model.n_iter_, model.n_samples_seen_) == (60, 600)


def test_the_last_batch_of_an_epoch_may_be_smaller(toy):
    model = DictionaryLearning(4, batch_size=70, n_epochs=2, random_state=0).fit(toy)
    assert (model.n_iter_, model.n_samples_seen_) == (10, 600)
    assert model.history_["n_samples_seen"] == [0, 70, 140, 210, 300, 600]


def test_the_first_epoch_has_more_records_unless_each_is_a_measurement(toy):
    model = DictionaryLearning(4, batch_size=3, n_epochs=2, tol=0, random_state=0)
    seen = model.fit(toy).history_["n_samples_seen"]
    assert seen == [0, 6, 12, 21, 39, 75, 150, 300, 600]
    assert model.fit(toy, validation=toy).history_["n_samples_seen"] == [0, 300, 600]


def test_the_training_objective_is_that_of_minibatches_before_they_are_learned_from(toy):
    alpha, settings = 0.1, {"batch_size": 50, "n_epochs": 1, "init": toy[:4]}
    model = DictionaryLearning(4, alpha=alpha, **settings, record_every=50, random_state=0)
    history = model.fit(toy, validation=toy).history_
    first, *means = history["training_objective"]
    assert first == means[0]
    # With random minibatches of 50, the objective before each is about that on all samples.
    np.testing.assert_allclose(means, history["objective"][:-1], rtol=0.2)
    whole = DictionaryLearning(4, alpha=alpha, **settings, record_every=300, random_state=0)
    first_again, mean = whole.fit(toy).history_["training_objective"]
    assert first_again == first
    assert mean == pytest.approx(np.mean(means), rel=1e-12)


def test_a_resumed_fit_has_the_training_objective_of_an_uninterrupted_one(toy, tmp_path):
    def fit(**options):
        model = DictionaryLearning(4, batch_size=10, n_epochs=2, random_state=0, **options)
        return model.fit(toy)

    def fail(progress):
        if progress.n_iter == 17:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(checkpoint=tmp_path / "c", callbacks=fail)
    resumed = fit(checkpoint=tmp_path / "c").history_["training_objective"]
    assert resumed == fit().history_["training_objective"]


def test_the_recorded_objective_is_that_on_the_validation_data(toy):
    model = DictionaryLearning(4, alpha=0.1, random_state=0).fit(toy[:200], validation=toy[200:])
    objective = model.history_["objective"]
    assert objective[-1] == pytest.approx(model.objective(toy[200:]), rel=1e-3)
    assert objective[-1] < objective[0]


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


def test_unused_atoms_are_counted(toy):
    counts = []

    def listen(progress):
        if progress.objective is not None:
            counts.append(progress.n_unused)

    init = np.zeros((6, 60))
    init[:2] = toy[:2]  # a zero atom is never used
    model = DictionaryLearning(6, alpha=0.1, init=init, callbacks=[listen], record_every=100)
    model.fit(toy, validation=toy)
    assert counts[0] == 4


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


def test_in_the_middle_of_a_pass_nothing_is_recorded(toy, monkeypatch):
    monkeypatch.setattr("somf.training.loop.PASS_ENTRIES", 30 * toy.shape[1])
    model = DictionaryLearning(4, batch_size=30, n_epochs=9, tol=0, record_every=60, random_state=0)
    seen = model.fit(toy, validation=toy[:50]).history_["n_samples_seen"]
    assert seen == [*range(0, 900, 60), *range(900, 2701, 300)]


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


def test_records_are_logged(toy, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy, validation=toy)
    assert "300 samples" in caplog.messages[-1]
    assert "objective" in caplog.messages[-1]


def test_without_validation_the_training_objective_is_logged(toy, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy)
    assert "training objective" in caplog.messages[-1]


def test_verbose_shows_a_progress_bar(toy, capsys):
    pytest.importorskip("rich", reason="the progress bar needs somf[progress]")
    DictionaryLearning(4, n_epochs=1, verbose=1, random_state=0).fit(toy, validation=toy)
    assert "300/300 samples" in capsys.readouterr().err


def test_a_missing_progress_bar_names_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"somf\[progress\]"):
        DictionaryLearning(4, verbose=1).fit(toy)
