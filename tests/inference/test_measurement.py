"""One pass over data gives all that several would."""

import numpy as np
import pytest

from somf import DictionaryLearning
from tests.helpers.sources import WatchedSource


@pytest.fixture(scope="module")
def model(toy):
    return DictionaryLearning(8, reduction=2, random_state=0).fit(toy)


@pytest.mark.parametrize("with_gap", [False, True])
def test_a_measurement_is_what_separate_passes_find(model, toy, with_gap):
    found = model.measure(toy, with_gap=with_gap)
    codes = model.transform(toy)
    assert found.n_samples == 300
    assert found.objective == pytest.approx(model.objective(toy), rel=1e-5)
    np.testing.assert_allclose(found.size, np.abs(codes).mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.usage, (codes != 0).mean(axis=0), atol=0.01)
    assert found.n_samples_with @ np.arange(9) == pytest.approx(found.density * 300 * 8)
    if with_gap:
        assert found.stationarity_gap == pytest.approx(model.stationarity_gap(toy))
    else:
        assert found.stationarity_gap is None


def test_every_sample_is_read_once(model, toy):
    source = WatchedSource(toy)
    model.measure(source)
    assert source.n_rows == 300
