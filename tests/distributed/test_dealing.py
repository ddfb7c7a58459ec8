"""Which samples a rank has, and when it is the turn of each of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from somf.distributed.dealing import edges_of, parts, turns


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any))
def test_every_position_of_an_epoch_is_the_turn_of_one_rank(counts):
    counts = np.array(counts)
    positions = [turns(counts, rank) for rank in range(len(counts))]
    np.testing.assert_array_equal(np.sort(np.concatenate(positions)), np.arange(counts.sum()))
    for own in positions:
        assert (np.diff(own) > 0).all()


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.integers(1, 200))
def test_every_rank_has_its_part_of_every_beginning_to_within_one_sample(counts, position):
    counts = np.array(counts)
    position = min(position, counts.sum())
    for rank in range(len(counts)):
        fair = position * counts[rank] / counts.sum()
        assert abs(parts(counts, rank, np.array([position]))[0] - fair) <= 1 + len(counts) / 4


@pytest.mark.parametrize(("n", "size"), [(10, 4), (131, 4), (4, 4), (7, 1)])
def test_runs_of_rows_differ_by_one_row_at_most(n, size):
    lengths = np.diff(edges_of(n, size))
    assert lengths.sum() == n
    assert lengths.max() - lengths.min() <= 1
