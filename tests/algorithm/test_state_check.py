"""Checks of states that come from files."""

import numpy as np
import pytest

from somf.algorithm.state_check import _all_finite


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
