"""Subsets of features: how often, how many, and in which order."""

from itertools import combinations, islice, pairwise

import numpy as np
import pytest

from somf.algorithm.masks import MOST_INDICATORS, BernoulliMasks, BlockMasks, Indicators
from somf.kernels import kernels_for
from tests.helpers.problems import listed

KINDS = pytest.mark.parametrize("kind", [BlockMasks, BernoulliMasks])
REDUCTIONS = pytest.mark.parametrize("reduction", [1.0, 1.5, 2.0, 3.7, 12.0])


@KINDS
@REDUCTIONS
def test_every_feature_is_in_one_out_of_r_subsets(kind, reduction):
    masks = kind(60, reduction, seed=0)
    n_iter = 6000
    count = np.zeros(60)
    for t in range(n_iter):
        count[listed(masks.draw(t, reduction))] += 1
    spread = 5 * np.sqrt(n_iter / reduction)
    np.testing.assert_allclose(count, n_iter / reduction, atol=spread if reduction > 1 else 0)


@REDUCTIONS
def test_a_cycle_of_block_masks_visits_each_feature_once(reduction):
    masks = BlockMasks(61, reduction, seed=0)
    seen = np.zeros(61, dtype=int)
    cycle = 0
    for t in range(200):
        if t == int((cycle + 1) * reduction):
            cycle += 1
            assert (seen == cycle).all()
        seen[listed(masks.draw(t, reduction))] += 1
        assert seen.max() <= cycle + 1


@REDUCTIONS
def test_block_masks_are_unions_of_at_least_two_blocks(reduction):
    masks = BlockMasks(60, reduction, seed=0)
    for t in range(50):
        subset = masks.draw(t, reduction)
        assert len(subset.blocks) >= min(2, len(masks.blocks))
        expected = np.concatenate([np.arange(60)[masks.blocks[g]] for g in subset.blocks])
        np.testing.assert_array_equal(listed(subset), expected)


@REDUCTIONS
@pytest.mark.parametrize(
    ("kind", "n_features"), [(BlockMasks, 60), (BlockMasks, 13), (BernoulliMasks, 60)]
)
def test_sums_over_subsets_are_unbiased(kind, reduction, n_features):
    masks = kind(n_features, reduction, seed=0)
    total = np.zeros(n_features)
    for t in range(6000):
        subset = masks.draw(t, reduction)
        total[listed(subset)] += subset.scale
    np.testing.assert_allclose(total / 6000, 1, atol=5 * np.sqrt(reduction / 6000))


@KINDS
def test_masks_are_a_pure_function_of_seed_iteration_and_reduction(kind):
    one, two, other = kind(40, 3.0, seed=1), kind(40, 3.0, seed=1), kind(40, 3.0, seed=2)
    for t in (7, 3, 100):
        np.testing.assert_array_equal(listed(one.draw(t, 3.0)), listed(two.draw(t, 3.0)))
    assert any(
        not np.array_equal(listed(one.draw(t, 3.0)), listed(other.draw(t, 3.0))) for t in range(9)
    )


@KINDS
def test_a_mask_depends_on_its_own_reduction_alone(kind):
    masks, fresh = kind(40, 12.0, seed=1), kind(40, 12.0, seed=1)
    for t in range(20):
        masks.draw(t, 12.0)
    for reduction in (6.0, 3.0, 1.5):
        np.testing.assert_array_equal(
            listed(masks.draw(20, reduction)), listed(fresh.draw(20, reduction))
        )


@KINDS
@pytest.mark.parametrize("reduction", [12.0, 6.0, 3.0, 1.5, 1.0])
def test_weaker_reductions_than_the_strongest_are_as_even_and_unbiased(kind, reduction):
    masks = kind(61, 12.0, seed=0)
    count, total = np.zeros(61), np.zeros(61)
    for t in range(6000):
        subset = masks.draw(t, reduction)
        count[listed(subset)] += 1
        total[listed(subset)] += subset.scale
    spread = 5 * np.sqrt(6000 / reduction) if reduction > 1 else 0
    np.testing.assert_allclose(count, 6000 / reduction, atol=spread)
    np.testing.assert_allclose(total / 6000, 1, atol=5 * np.sqrt(reduction / 6000))


def test_blocks_that_touch_are_one_run_of_rows():
    masks = BlockMasks(60, 12.0, seed=0)
    assert masks.draw(0, 1.0).rows == (slice(0, 60),)
    for t in range(50):
        rows = masks.draw(t, 3.0).rows
        assert all(a.stop < b.start for a, b in pairwise(rows))


def test_indicators_of_very_many_subsets_are_not_all_kept():
    kernels = kernels_for("cpu")
    indicators = Indicators(24, np.dtype(np.float32), kernels)
    for blocks in islice(combinations(range(24), 4), 2 * MOST_INDICATORS):
        np.testing.assert_array_equal(np.flatnonzero(indicators.of(blocks)), blocks)
    assert len(indicators._known) <= MOST_INDICATORS


@KINDS
def test_a_subset_is_never_empty(kind):
    masks = kind(3, 3.0, seed=0)
    assert all(listed(masks.draw(t, 3.0)).size >= 1 for t in range(200))


def test_the_permutation_of_block_masks_is_a_permutation():
    np.testing.assert_array_equal(np.sort(BlockMasks(40, 2.0, seed=0).permutation), np.arange(40))
    assert BlockMasks(40, 1.0, seed=0).permutation is None


def test_features_are_dealt_to_blocks_at_random_and_lie_in_order_inside_them():
    masks = BlockMasks(4000, 4.0, seed=0)
    owner = np.empty(4000, dtype=int)
    for number, block in enumerate(masks.blocks):
        features = masks.permutation[block]
        assert (np.diff(features) > 0).all()
        owner[features] = number
    # Neighbours share one of eight blocks in an eighth of all cases.
    assert 0.08 < (owner[1:] == owner[:-1]).mean() < 0.17
