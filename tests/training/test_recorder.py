"""What is recorded of a fit, and when."""

import logging

import numpy as np
import pytest

from somf import DictionaryLearning


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


def test_in_the_middle_of_a_pass_nothing_is_recorded(toy, monkeypatch):
    monkeypatch.setattr("somf.training.loop.PASS_ENTRIES", 30 * toy.shape[1])
    model = DictionaryLearning(4, batch_size=30, n_epochs=9, tol=0, record_every=60, random_state=0)
    seen = model.fit(toy, validation=toy[:50]).history_["n_samples_seen"]
    assert seen == [*range(0, 900, 60), *range(900, 2701, 300)]


def test_records_are_logged(toy, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy, validation=toy)
    assert "300 samples" in caplog.messages[-1]
    assert "objective" in caplog.messages[-1]


def test_without_validation_the_training_objective_is_logged(toy, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy)
    assert "training objective" in caplog.messages[-1]
