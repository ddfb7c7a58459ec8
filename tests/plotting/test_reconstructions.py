"""Samples beside their reconstructions."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.plotting import plot_reconstructions
from tests.helpers.plots import curves_of, tiles


def test_a_perfect_reconstruction_has_a_black_error():
    samples = np.eye(20)[:6]
    model = DictionaryLearning(6, alpha=1e-9, reduction=1, init=samples).fit(samples)
    top, middle, bottom = tiles(plot_reconstructions(model, samples, (4, 5)), (4, 5), 6, 3)
    np.testing.assert_array_equal(top[..., 0].reshape(6, 20), samples)
    np.testing.assert_allclose(top, middle, atol=1e-6)
    np.testing.assert_allclose(bottom, 0, atol=1e-6)


def test_pictures_are_the_samples_the_reconstructions_and_the_errors():
    samples = np.random.default_rng(0).random((40, 20))
    model = DictionaryLearning(3, alpha=0.1, reduction=1, random_state=0).fit(samples)
    again = model.inverse_transform(model.transform(samples[:2]))
    pictures = tiles(plot_reconstructions(model, samples, (4, 5), ids=[0, 1]), (4, 5), 2, 3)
    low, high = (f(samples[:2], axis=1, keepdims=True) for f in (np.min, np.max))
    expected = [samples[:2] - low, again - low, np.abs(samples[:2] - again)]
    np.testing.assert_allclose(
        pictures[..., 0].reshape(3, 2, 20), np.clip(expected / (high - low), 0, 1), atol=1e-6
    )


def test_curves_are_the_samples_the_reconstructions_and_the_errors(model, samples):
    ids = [3, 50]
    chosen = samples[ids]
    again = model.inverse_transform(model.transform(chosen))
    ax = plot_reconstructions(model, samples, ids=ids)
    sample, reconstruction, _, error = ax.collections
    low, high = (f(chosen, axis=1, keepdims=True) for f in (np.min, np.max))
    reach = (high - low) / 2
    np.testing.assert_allclose(curves_of(sample, low, high, 5), chosen)
    np.testing.assert_allclose(curves_of(reconstruction, low, high, 5), again, atol=1e-12)
    np.testing.assert_allclose(curves_of(error, -reach, reach, 75), chosen - again, atol=1e-12)
    assert ax.get_ylim() == (140, 0)  # two rows, however small errors are


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_each_column_has_the_relative_error_of_its_sample(model, samples, kind):
    ids = [3, 50]
    chosen = samples[ids]
    errors = chosen - model.inverse_transform(model.transform(chosen))
    relative = np.linalg.norm(errors, axis=1) / np.linalg.norm(chosen, axis=1)
    for shape in (None, (4, 5), (2, 2, 5)):
        ax = plot_reconstructions(model, kind(samples), shape, ids=ids)
        assert [label.get_text() for label in ax.get_xticklabels()] == [
            f"{error:.0%}" for error in relative
        ]


def test_a_data_frame_gives_no_warning_about_names_of_features(samples):
    frame = pytest.importorskip("pandas").DataFrame(samples).rename(columns=str)
    model = DictionaryLearning(3, random_state=0).fit(frame)
    plot_reconstructions(model, frame)


@pytest.mark.parametrize("missing", ["nan", "absent"])
@pytest.mark.parametrize("center", ["none", "both"])
def test_errors_are_those_of_known_entries(missing, center):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 12)) + 5 * (center == "both")
    known = rng.random(truth.shape) < 0.7
    X = np.where(known, truth, np.nan)
    if missing == "absent":
        X = sp.csr_array((truth[known], np.nonzero(known)), shape=truth.shape)
    params = {"alpha": 1e-4, "missing": missing, "center": center, "random_state": 0}
    model = DictionaryLearning(3, **params).fit(X)
    ax = plot_reconstructions(model, X, n_samples=5)
    errors = [int(label.get_text().rstrip("%")) for label in ax.get_xticklabels()]
    assert len(errors) == 5
    assert max(errors) < 20
