"""Errors at every call of a source, of validation data and of a callback: nothing is lost."""

import pytest

from somf import DictionaryLearning
from somf.callbacks import EarlyStopping
from tests.helpers.fits import StopError, Trouble, TroubledSource, assert_same_fit
from tests.helpers.problems import planted

DATA = planted(72, 12, 4, noise=0.3)[0].astype("float32")


def fail():
    raise StopError


def fit(trouble, is_in_memory, validation, record_every, **params):
    """Fit with early stopping, which depends on every record; count all calls."""
    X = TroubledSource(DATA[:60], trouble, is_in_memory)
    if validation == "source":
        validation = TroubledSource(DATA[60:], trouble, is_in_memory)
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
        assert again.n_calls <= 4  # fingerprints, callbacks
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
