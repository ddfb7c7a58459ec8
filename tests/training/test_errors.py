"""Errors at every call of a source, of validation data and of a callback: nothing is lost."""

import os

import numpy as np
import pytest

import somf
from somf import Checkpoint, DictionaryLearning
from somf.callbacks import EarlyStopping
from somf.data import epoch_order
from tests.helpers.fits import StopError, Trouble, assert_same_fit, full_disk
from tests.helpers.problems import planted
from tests.helpers.sources import WatchedSource, failing_at

DATA = planted(72, 12, 4, noise=0.3)[0].astype("float32")


def fail():
    raise StopError


def fit(trouble, is_in_memory, validation, record_every, **params):
    """Fit with early stopping, which depends on every record; count all calls."""
    X = WatchedSource(DATA[:60], trouble.call, is_in_memory)
    if validation == "source":
        validation = WatchedSource(DATA[60:], trouble.call, is_in_memory)
    model = DictionaryLearning(
        3,
        reduction=2,
        batch_size=20,
        n_epochs=12,
        record_every=record_every,
        # Trouble before and after the decision to stop.
        callbacks=[trouble.call, EarlyStopping(patience=2, min_improvement=0.05), trouble.call],
        random_state=0,
        **params,
    )
    return model.fit(X, validation=validation)


@pytest.mark.parametrize("is_in_memory", [True, False], ids=["memory", "readahead"])
@pytest.mark.parametrize("validation", [0.2, "source"])
@pytest.mark.parametrize("record_every", [None, 25])
def test_a_fit_that_failed_at_any_call_ends_as_if_it_had_not(
    tmp_path, is_in_memory, validation, record_every
):
    how = (is_in_memory, validation, record_every)
    undisturbed = fit(count := Trouble(fail), *how)
    assert undisturbed.n_samples_seen_ < 12 * 48  # it has stopped early
    n_failures = 0
    for n in range(1, count.n_calls + 3):  # two more: checkpoints need fingerprints
        path = tmp_path / f"c{n}"
        try:
            fit(Trouble(fail, n), *how, checkpoint=path)
        except StopError:
            n_failures += 1
        else:  # what was read ahead is not needed after the last iteration
            assert not is_in_memory or n > count.n_calls
        assert_same_fit(fit(Trouble(fail), *how, checkpoint=path), undisturbed)
        # The checkpoint has every record: nothing has to be measured again.
        assert_same_fit(fit(again := Trouble(fail), *how, checkpoint=path), undisturbed)
        assert again.n_calls <= 5  # fingerprints, callbacks, how good a fit in memory is
    assert n_failures > count.n_calls / 2


def test_a_fit_that_failed_at_every_call_in_turn_ends_as_if_it_had_not(tmp_path):
    how = (False, "source", 25)
    undisturbed = fit(Trouble(fail), *how)
    for n in range(1, 1000):
        try:
            model = fit(Trouble(fail, n), *how, checkpoint=tmp_path / "c")
        except StopError:
            continue
        break
    assert n > 5
    assert_same_fit(model, undisturbed)


def test_an_error_of_validation_data_writes_a_checkpoint(toy, tmp_path):
    # The first read is for the fingerprint, the next two are records.
    validation = WatchedSource(toy[:50], failing_at(4, StopError))
    model = DictionaryLearning(4, batch_size=30, record_every=90, checkpoint=tmp_path / "c")
    with pytest.raises(StopError) as caught:
        model.fit(toy, validation=validation)
    assert str(tmp_path / "c") in caught.value.__notes__[0]
    assert somf.load(tmp_path / "c").n_iter_ == 6


def with_nan(toy, params, position):
    """Return data with a NaN in the row that a fit visits at some position, and the row."""
    seed = DictionaryLearning(**params).fit(toy)._state.seed
    row = epoch_order(np.arange(300), seed, 0)[position]
    X = toy.copy()
    X[row, 3] = np.nan
    return X, row


NAN = {"n_components": 4, "batch_size": 10, "init": "random", "random_state": 0}


@pytest.mark.parametrize("position", [0, 155, 299])
def test_a_row_that_is_not_finite_is_named_and_what_was_learned_before_is_kept(
    toy, tmp_path, position, monkeypatch
):
    monkeypatch.setattr("somf.training.identity.SAMPLED_ROWS", 1)
    X, row = with_nan(toy, NAN, position)
    params = NAN | {"checkpoint": tmp_path / "c"}
    with pytest.raises(ValueError, match=f"X must be finite, got NaN in row {row}") as caught:
        DictionaryLearning(**params).fit(X)
    (note,) = caught.value.__notes__
    assert str(tmp_path / "c") in note
    assert somf.load(tmp_path / "c").n_iter_ == position // 10
    # Mended, the data is the same as far as can be seen, and the fit resumes with that very batch.
    resumed = DictionaryLearning(**params).fit(toy)
    assert_same_fit(resumed, DictionaryLearning(**NAN).fit(toy))


def test_an_error_of_a_source_leaves_a_checkpoint_of_the_state_before(toy, tmp_path):
    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    source = WatchedSource(toy, failing_at(7, OSError("the disk is gone")))
    with pytest.raises(OSError, match="the disk is gone"):
        DictionaryLearning(**params, checkpoint=tmp_path / "c").fit(source)
    # One call for the fingerprint, one for the initial atoms, four steps.
    assert somf.load(tmp_path / "c").n_iter_ == 4
    resumed = DictionaryLearning(**params, checkpoint=tmp_path / "c").fit(source)
    assert_same_fit(resumed, DictionaryLearning(**params).fit(toy))


def test_an_error_in_the_middle_of_a_step_does_not_get_into_the_checkpoint(
    toy, tmp_path, monkeypatch
):
    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    checkpoint = Checkpoint(tmp_path / "c", every_samples=30)
    update = somf.algorithm.dictionary.Dictionary.update

    def fails(self, *arguments):
        if self.state.n_iter == 3:
            raise MemoryError
        update(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(somf.algorithm.dictionary.Dictionary, "update", fails)
        with pytest.raises(MemoryError):
            DictionaryLearning(**params, checkpoint=checkpoint).fit(toy)
    resumed = DictionaryLearning(**params, checkpoint=checkpoint).fit(toy)
    assert_same_fit(resumed, DictionaryLearning(**params).fit(toy))


def test_what_goes_wrong_while_an_error_is_dealt_with_does_not_hide_the_error(
    toy, tmp_path, monkeypatch
):
    X, row = with_nan(toy, NAN, 155)

    def fill_the_disk(_):
        monkeypatch.setattr(os, "fsync", full_disk)

    model = DictionaryLearning(**NAN, checkpoint=tmp_path / "c", callbacks=fill_the_disk)
    with (
        pytest.warns(RuntimeWarning, match="No space left"),
        pytest.raises(ValueError, match=f"NaN in row {row}") as caught,
    ):
        model.fit(X)
    assert "could not be written" in caught.value.__notes__[0]
