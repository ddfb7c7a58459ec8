"""The largest of many numbers, found by their bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.largest import largest_outside, steepest

NUMBERS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=70)
"""Also infinite ones, zeros of both signs, and those too small for the usual exponents."""


@jit
def position(g, a, positive):
    return largest_outside(g, a, positive)


@jit
def value(g, a, l2, positive):
    return steepest(g, a, l2, positive)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("positive", [False, True])
@settings(deadline=None)
@given(numbers=NUMBERS, data=st.data())
def test_the_largest_outside_of_the_support_is_that_of_numpy(numbers, dtype, positive, data):
    g = np.array(numbers, dtype)
    a = np.array([data.draw(st.sampled_from([0.0, -0.0, 1.5])) for _ in numbers], dtype)
    sizes = np.where(a == 0, g if positive else abs(g), 0)
    found = position(g, a, positive)
    if sizes.max() > 0:
        assert sizes[found] == sizes.max()
    else:
        assert found == -1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("positive", [False, True])
@settings(deadline=None)
@given(numbers=NUMBERS)
def test_the_steepest_slope_is_that_of_numpy(numbers, dtype, positive):
    g = np.array(numbers, dtype)
    a = np.full_like(g, 0.25)
    tilted = g - dtype(0.5) * a
    largest = (tilted if positive else abs(tilted)).max()
    np.testing.assert_allclose(value(g, a, 0.5, positive), max(largest, 0), rtol=1e-6)


def test_an_entry_that_is_not_a_number_is_no_reason_to_enter():
    g = np.array([1.0, np.nan, 3.0])
    assert not abs(g[position(g, np.zeros(3), False)]) > 0.0
