"""Fits that are interrupted resume, bit for bit as if they had not been."""

import logging
import os
from time import sleep

import numpy as np
import pytest

import somf
from somf import NMF, Checkpoint, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.algorithm.schedule import TOP
from somf.callbacks import EarlyStopping
from somf.training import fitting
from tests.helpers.fits import (
    StopError,
    assert_same_fit,
    fit_with_stops,
    sklearn_clone,
    stopping_at,
)
from tests.helpers.problems import planted, random_csr


@pytest.mark.parametrize("kind", [MatrixFactorization, DictionaryLearning, SparsePCA, NMF])
@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
@pytest.mark.parametrize("code_estimator", ["averaged", "masked", "exact"])
def test_an_interrupted_fit_equals_an_undisturbed_one(
    toy, tmp_path, kind, masks, surrogate, code_estimator
):
    model = kind(
        5,
        reduction=2.5,
        masks=masks,
        surrogate=surrogate,
        code_estimator=code_estimator,
        batch_size=37,
        n_epochs=3,
        record_every=100,
        random_state=0,
    )
    X = np.abs(toy).astype(np.float32)
    undisturbed = sklearn_clone(model).fit(X, validation=0.2)
    # In the first epoch, at its end, in the middle of a later one, and after the last step.
    n_iter = undisturbed.n_iter_
    resumed = fit_with_stops(model, X, tmp_path / "c", [1, 3, 7, 12, n_iter], validation=0.2)
    assert_same_fit(resumed, undisturbed)


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
@pytest.mark.parametrize("code_estimator", ["averaged", "masked", "exact"])
@pytest.mark.parametrize(("n_features", "rungs"), [(3600, {0}), (100, {TOP})])
def test_an_interrupted_fit_that_lowers_its_reduction_equals_an_undisturbed_one(
    tmp_path, masks, surrogate, code_estimator, n_features, rungs
):
    X = planted(600, n_features, 4, noise=0.1)[0]
    model = DictionaryLearning(
        4,
        reduction="auto",
        masks=masks,
        surrogate=surrogate,
        code_estimator=code_estimator,
        batch_size=4,
        n_epochs=5,
        tol=0,
        random_state=0,
    )
    undisturbed = sklearn_clone(model).fit(X)
    before = sklearn_clone(model).set_params(n_epochs=1).fit(X)
    last = undisturbed.n_iter_
    resumed = fit_with_stops(model, X, tmp_path / "c", [1, 23, 25, last - 1, last])
    assert_same_fit(resumed, undisturbed)
    assert before._state.rung in rungs
    assert undisturbed._state.rung == TOP  # climbed during the fit


@pytest.mark.parametrize("kind", [DictionaryLearning, NMF])
def test_an_interrupted_fit_to_sparse_data_equals_an_undisturbed_one(tmp_path, kind):
    X = random_csr(200, 40, 0.2)
    model = kind(4, alpha=0.01, reduction=2, batch_size=30, n_epochs=2, random_state=0)
    undisturbed = sklearn_clone(model).fit(X, validation=X[:50])
    resumed = fit_with_stops(model, X, tmp_path / "c", [2, 9], validation=X[:50])
    assert_same_fit(resumed, undisturbed)


def test_an_interrupted_fit_on_two_threads_equals_an_undisturbed_one(tmp_path):
    X = planted(300, 4000, 32)[0].astype(np.float32)  # enough work to be shared
    model = DictionaryLearning(32, reduction=2, n_epochs=2, n_threads=2, random_state=0)
    undisturbed = sklearn_clone(model).fit(X)
    assert_same_fit(fit_with_stops(model, X, tmp_path / "c", [2, 5, 9]), undisturbed)


def test_without_a_seed_the_fit_resumes_with_the_seed_that_it_had(toy, tmp_path):
    model = DictionaryLearning(5, reduction=2, n_epochs=2)
    resumed = fit_with_stops(model, toy, tmp_path / "c", [2, 8], validation=0.2)
    model.random_state = FixedSeed(resumed._state.seed)
    assert_same_fit(resumed, model.fit(toy, validation=0.2))


class FixedSeed(np.random.RandomState):
    """A random state from which a given seed is drawn."""

    def __init__(self, seed):
        super().__init__(0)
        self.seed_to_draw = seed

    def randint(self, *_, **__):
        return self.seed_to_draw


def test_an_initial_dictionary_and_a_random_state_do_not_keep_a_fit_from_resuming(toy, tmp_path):
    model = DictionaryLearning(
        5, init=toy[:5].astype(np.float32), n_epochs=2, random_state=np.random.RandomState(3)
    )
    resumed = fit_with_stops(model, toy, tmp_path / "c", [4])
    model.set_params(random_state=np.random.RandomState(3))
    assert_same_fit(resumed, model.fit(toy))


def test_atoms_that_are_replaced_are_replaced_all_the_same(toy, tmp_path):
    init = np.zeros((8, 60))
    init[:2] = toy[:2]
    model = DictionaryLearning(8, init=init, reduction=2, n_epochs=4, batch_size=25, random_state=0)
    undisturbed = sklearn_clone(model).fit(toy)
    assert (undisturbed._state.patience > 300).any()
    assert_same_fit(fit_with_stops(model, toy, tmp_path / "c", [5, 12, 13, 30]), undisturbed)


def test_early_stopping_ends_an_interrupted_fit_where_it_ends_an_undisturbed_one(toy, tmp_path):
    model = DictionaryLearning(
        4, n_epochs=50, batch_size=60, callbacks=[EarlyStopping(patience=2)], random_state=0
    )
    undisturbed = sklearn_clone(model).fit(toy, validation=0.2)
    last = undisturbed.n_iter_
    assert last < 200
    # Also if the fit fails at the very iteration that is the last.
    stops = [3, last - 1, last]
    assert_same_fit(fit_with_stops(model, toy, tmp_path / "c", stops, validation=0.2), undisturbed)


def test_times_add_up_and_callbacks_get_the_progress_of_the_checkpoint(toy, tmp_path):
    heard = []
    model = DictionaryLearning(
        4, batch_size=50, n_epochs=1, callbacks=[lambda p: heard.append(p.n_iter)], record_every=50
    )
    resumed = fit_with_stops(model, toy, tmp_path / "c", [3])
    assert heard == [1, 2, 3, 3, 4, 5, 6]
    for column in ("compute_seconds", "wall_seconds"):
        assert resumed.history_[column] == sorted(resumed.history_[column])


def test_the_clock_begins_with_the_fit_and_computing_with_its_first_minibatch(toy, monkeypatch):
    prepare = fitting.start

    def start_late(*args, **kwargs):
        sleep(0.2)
        return prepare(*args, **kwargs)

    monkeypatch.setattr(fitting, "start", start_late)
    history = DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy).history_
    assert history["wall_seconds"][0] >= 0.2
    assert history["compute_seconds"][0] == 0


def test_a_finished_fit_is_not_done_again(toy, tmp_path, caplog):
    model = DictionaryLearning(4, n_epochs=2, random_state=0, checkpoint=tmp_path / "c").fit(toy)
    content = (tmp_path / "c").read_bytes()
    with caplog.at_level(logging.INFO, logger="somf"):
        again = DictionaryLearning(4, n_epochs=2, random_state=0, checkpoint=tmp_path / "c")
        again.fit(toy)
    assert_same_fit(again, model)
    assert again.history_ == model.history_
    assert "nothing is left to do" in caplog.text
    assert (tmp_path / "c").read_bytes() == content


def test_more_epochs_continue_a_finished_fit(toy, tmp_path):
    params = {"reduction": 2, "random_state": 0, "n_components": 4}
    DictionaryLearning(**params, n_epochs=1, checkpoint=tmp_path / "c").fit(toy)
    more = DictionaryLearning(**params, n_epochs=3, checkpoint=tmp_path / "c").fit(toy)
    assert_same_fit(more, DictionaryLearning(**params, n_epochs=3).fit(toy))
    with pytest.raises(ValueError, match="n_epochs must not be less than the checkpoint has done"):
        DictionaryLearning(**params, n_epochs=2, checkpoint=tmp_path / "c").fit(toy)


def test_what_changes_no_result_may_change(toy, tmp_path):
    params = {"n_components": 4, "n_epochs": 2, "random_state": 0, "n_threads": 1}
    with pytest.raises(StopError):
        DictionaryLearning(
            **params, checkpoint=tmp_path / "c", callbacks=[stopping_at(5)], record_every=100
        ).fit(toy)
    changed = params | {"n_threads": 2, "random_state": None, "record_every": 50}
    checkpoint = Checkpoint(str(tmp_path / "c"), every_samples=100)
    resumed = DictionaryLearning(**changed, checkpoint=checkpoint).fit(toy)
    expected = DictionaryLearning(**params).fit(toy)
    np.testing.assert_allclose(resumed.components_, expected.components_, atol=1e-12)


def test_a_checkpoint_is_a_model_as_far_as_it_has_come(toy, tmp_path):
    model = DictionaryLearning(
        4,
        reduction=2,
        batch_size=50,
        random_state=0,
        checkpoint=tmp_path / "c",
        callbacks=[stopping_at(3)],
    )
    with pytest.raises(StopError):
        model.fit(toy, validation=0.1)
    loaded = somf.load(tmp_path / "c")
    assert (loaded.n_iter_, loaded.n_samples_seen_) == (3, 150)
    assert loaded.checkpoint is None
    assert loaded.transform(toy).shape == (300, 4)
    assert len(loaded._state.memory.ids) == 150  # nothing is written of samples not seen yet
    loaded.partial_fit(toy, sample_ids=np.arange(300))
    assert len(loaded._state.memory.ids) == 300


def test_links_and_changes_of_directory_do_not_lose_the_checkpoint(toy, tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "c").symlink_to(tmp_path / "disk" / "c")
    monkeypatch.chdir(tmp_path / "here")
    DictionaryLearning(
        4, checkpoint=Checkpoint("c", every_samples=1), callbacks=lambda _: os.chdir(tmp_path)
    ).fit(toy)
    assert sorted(os.listdir(tmp_path / "disk")) == ["c", "c.previous"]
    assert os.listdir(tmp_path / "here") == ["c"]


def test_what_is_remembered_of_samples_goes_back_into_a_scratch_file(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 1000)
    model = DictionaryLearning(4, reduction=2, n_epochs=2, random_state=0)
    undisturbed = sklearn_clone(model).fit(toy)
    resumed = fit_with_stops(model, toy, tmp_path / "c", [2, 8])
    assert_same_fit(resumed, undisturbed)
    assert isinstance(resumed._state.memory.code, np.memmap)
    assert not isinstance(resumed._state.D, np.memmap)
