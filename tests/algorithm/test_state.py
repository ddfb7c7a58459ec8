"""States and what files have of them."""

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.algorithm.state import DISCARDED, State


def test_a_state_is_restored_from_its_arrays_and_numbers(toy):
    state = DictionaryLearning(4, batch_size=40, random_state=0).partial_fit(toy)._state
    again = State.restore(state.arrays(), state.counters())
    assert again.counters() == state.counters()
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)


def test_what_states_of_earlier_versions_had_is_discarded(toy):
    state = DictionaryLearning(4, batch_size=40, random_state=0).partial_fit(toy)._state
    earlier = {name: np.ones((3, 4)) for name in DISCARDED if name.startswith("witness")}
    numbers = {name: 1 for name in DISCARDED if name not in earlier}
    again = State.restore(state.arrays() | earlier, state.counters() | numbers)
    assert again.counters() == state.counters()
    with pytest.raises(TypeError):
        State.restore(state.arrays() | {"unheard_of": np.ones(3)}, state.counters())
