"""Checks of states that come from files."""

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.algorithm.phases import Phase
from somf.algorithm.state_check import _all_finite, check_state


@pytest.mark.parametrize("shape", [(7,), (7, 2), (7, 2, 3), (7, 50)])
def test_an_entry_that_is_not_finite_is_found_wherever_it_is(monkeypatch, shape):
    monkeypatch.setattr("somf.algorithm.state_check.ENTRIES_AT_ONCE", 6)
    assert _all_finite(np.ones(shape))
    for row in range(7):
        array = np.ones(shape)
        array.reshape(7, -1)[row, -1] = np.nan
        assert not _all_finite(array)
    assert _all_finite(np.ones((7, 0)))
    assert _all_finite(np.ones((0, 3)))


@pytest.mark.parametrize(
    ("params", "phase", "complaint"),
    [
        ({}, 4, "in phase 4"),
        ({}, Phase.INCREMENTAL, "remembers no samples"),
        ({"learning_rate": 0.9}, Phase.PASS, "in phase 1"),
    ],
)
def test_a_phase_that_a_fit_cannot_have_reached_is_found(toy, params, phase, complaint):
    model = DictionaryLearning(4, n_epochs=1, random_state=0, **params).fit(toy)
    check_state(model._config(), model._state, 60, toy.dtype)
    model._state.phase = phase
    with pytest.raises(ValueError, match=complaint):
        check_state(model._config(), model._state, 60, toy.dtype)


IMPOSSIBLE = {
    "more than was seen": {"n_remembered": 1e6},
    "less than nothing": {"n_remembered": -1.0},
    "no number": {"n_remembered": float("nan")},
    "growth without a limit": {"growth": 1e300},
    "growth that is no number": {"growth": float("nan")},
    "a window of the future": {"window_start": 10**6},
    "moves without a time": {"window_start": 0},
    "a ladder of no kind": {"is_settled": 2},
    "no rows": {"rows_before": np.zeros((0, 0))},
    "too many rows": {"rows_before": np.zeros((64, 4))},
    "a move of other rows": {"last_move": np.zeros((3, 4))},
    "moves that are infinite": {"last_move": np.full((60, 4), np.inf)},
    "atoms that are nowhere": {"rows_before": np.full((60, 4), np.nan)},
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_memory_that_a_stream_cannot_have_is_found(toy, change):
    model = DictionaryLearning(4, batch_size=40, random_state=0).partial_fit(toy)
    check_state(model._config(), model._state, 60, toy.dtype)
    for name, value in change.items():
        setattr(model._state, name, value)
    with pytest.raises(ValueError, match=r"impossible|must be|counters"):
        check_state(model._config(), model._state, 60, toy.dtype)
