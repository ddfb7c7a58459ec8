"""Random numbers as a function of seed, purpose and position."""

import numpy as np
import pytest

from somf.randomness import generator


@pytest.mark.parametrize(
    "arguments", [(0, "mask", 0), (2**31 - 2, "features"), (5, "order", 2**32), (5, "x", 2**40, 3)]
)
def test_the_seed_is_the_list_of_all_numbers_and_letters(arguments):
    seed, purpose, *position = arguments
    expected = np.random.default_rng([seed, *purpose.encode(), *position])
    np.testing.assert_array_equal(generator(*arguments).random(3), expected.random(3))
