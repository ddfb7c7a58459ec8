"""One pass over data gives all that several would."""

import numpy as np
import pytest
import scipy.sparse as sp

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


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_explained_variance_is_that_of_the_reconstructions(model, toy, kind):
    X = toy + 3.0  # the mean counts for nothing
    found = model.measure(kind(X), with_gap=False)
    error = X - model.inverse_transform(model.transform(X))
    variance = 1 - (error**2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert found.explained_variance == pytest.approx(variance, rel=1e-4)
    size = np.linalg.norm(error) / np.linalg.norm(X)
    assert found.relative_error == pytest.approx(size, rel=1e-5)


def test_the_explained_variance_is_over_known_entries(toy):
    X = toy.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    model = DictionaryLearning(4, alpha=0.05, missing="nan", n_epochs=2, random_state=0).fit(X)
    error = X - model.inverse_transform(model.transform(X))
    variance = 1 - np.nansum(error**2) / np.nansum((X - np.nanmean(X, axis=0)) ** 2)
    found = model.measure(X, with_gap=False)
    assert found.explained_variance == pytest.approx(variance, rel=1e-4)


def test_samples_that_are_all_the_same_have_no_variance_to_explain(model):
    assert np.isnan(model.measure(np.zeros((3, 60)), with_gap=False).explained_variance)
