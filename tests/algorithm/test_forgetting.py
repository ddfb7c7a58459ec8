"""The weight of a minibatch in an average that forgets."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from somf.algorithm.forgetting import (
    CHUNK,
    LEAST_EXPONENT,
    LEAST_PER_ATOM,
    MOST_EXPONENT,
    NOISY_MINIBATCHES,
    NOISY_PER_ATOM,
    Adaptive,
    PowerLaw,
)
from somf.algorithm.state import FIRST_GROWTH


@pytest.mark.parametrize("seen", [40, CHUNK - 10, 3 * CHUNK])
@pytest.mark.parametrize("v", [0.76, 0.92, 0.99])
def test_the_weight_of_a_minibatch_is_that_of_its_samples_one_by_one(v, seen):
    kept = 1.0
    for s in range(seen + 1, seen + 21):
        kept *= 1 - s**-v
    weight = PowerLaw(v).weight
    assert weight(seen, 20) == pytest.approx(1 - kept)
    assert weight(0, 3) == 1.0
    parts = (1 - weight(seen, 5)) * (1 - weight(seen + 5, 15))
    assert parts == pytest.approx(1 - weight(seen, 20))


def test_the_second_sample_is_weighted_as_well_if_the_first_came_alone():
    assert PowerLaw(0.9).weight(1, 2) == pytest.approx(1 - (1 - 2**-0.9) * (1 - 3**-0.9))


def adaptive(n_remembered=0.0, growth=0.82, n_samples_seen=0, k=5):
    return Adaptive(
        SimpleNamespace(
            n_remembered=n_remembered,
            growth=growth,
            n_samples_seen=n_samples_seen,
            C=np.zeros((k, k)),
        )
    )


def test_the_first_minibatch_is_all_that_there_is():
    assert adaptive().weight(0, 7) == 1.0


@pytest.mark.parametrize("growth", [-0.7, 0.4, 0.82, 1.5])
@pytest.mark.parametrize("size", [1, 10, 250])
def test_what_is_remembered_grows_like_a_power_however_a_stream_is_cut(growth, size):
    forgetting = adaptive(500.0, growth)
    for seen in range(1000, 2000, size):
        forgetting.advance(seen, size)
    expected = min(max(500 * 2**growth, 2000**LEAST_EXPONENT), 2000**MOST_EXPONENT)
    assert forgetting.state.n_remembered == pytest.approx(expected)


@pytest.mark.parametrize("growth", [-2.0, 0.4, 0.82, 1.5])
def test_a_sample_weighs_one_over_what_is_remembered(growth):
    kept, whole, parts = 1.0, adaptive(2000.0, growth), adaptive(2000.0, growth)
    assert whole.weight(5000, 1) == pytest.approx(1 / 2000, rel=1e-3)
    for seen in range(5000, 5020):
        kept *= 1 - parts.weight(seen, 1)
        parts.advance(seen, 1)
    assert whole.weight(5000, 20) == pytest.approx(1 - kept, rel=1e-4)


def test_the_least_that_is_remembered_grows_with_the_stream():
    forgetting = adaptive(10.0, 0.4)
    forgetting.advance(9980, 20)
    assert forgetting.state.n_remembered == pytest.approx(10_000**LEAST_EXPONENT)


@pytest.mark.parametrize("growth", [5.0, 1e15])
def test_nearly_all_samples_are_remembered_at_most(growth):
    forgetting = adaptive(9000.0, growth)
    forgetting.advance(9980, 20)
    assert forgetting.state.n_remembered == pytest.approx(10_000**MOST_EXPONENT)


def test_no_more_than_an_epoch_is_remembered():
    forgetting = adaptive(90.0, 0.97)
    forgetting.expect_epochs(200)
    for seen in range(200, 5000, 20):
        forgetting.advance(seen, 20)
    assert forgetting.state.n_remembered == 200
    assert forgetting.weight(5000, 1) == pytest.approx(1 / 200)


def test_of_a_single_sample_one_is_remembered():
    forgetting = adaptive()
    forgetting.expect_epochs(1, noisy_from=1)
    forgetting.advance(0, 1)
    assert forgetting.state.n_remembered == 1
    assert forgetting.weight(1, 1) == 1.0


def test_a_stream_of_an_earlier_version_goes_on_as_it_was():
    assert adaptive().weight(10_000, 1) == pytest.approx(10_000**-0.78, rel=1e-3)
    assert math.isinf(adaptive().most)


def test_before_the_first_sample_a_file_has_no_say_in_the_growth():
    forgetting = adaptive(growth=1e15)
    forgetting.advance(0, 20)
    assert forgetting.state.n_remembered == pytest.approx(20**FIRST_GROWTH)


@pytest.mark.parametrize(
    ("share", "known", "batch_size", "expected"),
    [
        (1.0, 1.0, 10, 5 * NOISY_PER_ATOM),
        (0.5, 1.0, 10, 5 * NOISY_PER_ATOM / 2),
        (0.0, 1.0, 10, 5 * LEAST_PER_ATOM),
        (1.0, 0.25, 10, 5 * NOISY_PER_ATOM * 4),
        (1.0, 3.0, 10, 5 * NOISY_PER_ATOM),  # weights of entries
        (0.5, 1.0, 200, NOISY_MINIBATCHES * 200),
        (1.0, 1.0, 4000, 4000.0),  # no more than before
    ],
)
def test_where_noise_is_wanted_few_samples_are_remembered(share, known, batch_size, expected):
    forgetting = adaptive(4000.0, 0.9, n_samples_seen=10_000)
    forgetting.expect_epochs(10_000, noisy_from=10_000)
    forgetting.begin_noise(share, known, batch_size)
    for seen in range(10_000, 30_000, 500):
        forgetting.advance(seen, 500)
        assert forgetting.state.n_remembered == expected
    assert forgetting.weight(30_000, 1) == pytest.approx(1 / expected)


def test_after_the_noise_all_samples_count_the_same():
    forgetting = adaptive(400.0, n_samples_seen=10_000)
    forgetting.expect_epochs(4000, noisy_from=10_000, quiet_from=11_000)
    kept = 1.0
    for seen in range(10_500, 12_000, 50):
        if seen >= 11_000:
            kept *= 1 - forgetting.weight(seen, 50)
        forgetting.advance(seen, 50)
    assert forgetting.state.n_remembered == 400 + 1000
    assert kept == pytest.approx(400 / 1400, rel=2e-3)
    for seen in range(12_000, 15_000, 50):
        forgetting.advance(seen, 50)
    assert forgetting.state.n_remembered == 4000
