"""The history of a fit, and the usage of atoms."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning, SparsePCA
from somf.plotting import plot_history, plot_usage


def test_usage_is_sorted_and_its_mean_is_the_density(model, samples):
    codes = model.transform(samples)
    ax = plot_usage(codes)
    bars, line = (np.asarray(line.get_ydata()) for line in ax.lines)
    np.testing.assert_allclose(bars, np.sort((codes != 0).mean(axis=0))[::-1])
    np.testing.assert_allclose(line, np.mean(codes != 0))
    sparse = plot_usage(model.transform(samples, sparse=True))
    np.testing.assert_allclose(sparse.lines[0].get_ydata(), bars)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_usage_of_dense_codes_is_their_size(kind):
    # Of 800 ones a sparse mean is not one.
    codes = 1 + np.random.default_rng(0).random((800, 6))
    ax = plot_usage(kind(codes))
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), np.sort(codes.mean(axis=0))[::-1], rtol=1e-6)
    assert ax.get_title() == "No code is zero"


def test_usage_of_sparse_pca_is_the_size_of_dense_and_sparse_codes(samples):
    model = SparsePCA(3, reduction=1, random_state=0).fit(samples)
    for is_sparse in (False, True):
        assert plot_usage(model.transform(samples, sparse=is_sparse)).get_ylabel() == (
            "mean size of codes"
        )


@pytest.mark.parametrize("x", ["compute_seconds", "wall_seconds", "n_samples_seen", "n_iter"])
def test_history_is_drawn_against_the_given_column(history, x):
    (line,) = plot_history(history, x, label="somf").lines
    assert line.get_label() == "somf"
    np.testing.assert_array_equal(line.get_xdata(), history[x])
    np.testing.assert_array_equal(line.get_ydata(), history["objective"])


def test_history_of_a_fitted_model_can_be_drawn():
    X = np.random.default_rng(0).standard_normal((60, 20))
    model = DictionaryLearning(3, reduction=2, batch_size=10, record_every=20, random_state=0)
    model.fit(X, validation=0.25)
    (line,) = plot_history(model, "n_samples_seen").lines
    assert len(line.get_xdata()) == len(model.history_["objective"])


@pytest.mark.parametrize("codes", [DictionaryLearning(), np.ones(3), np.ones((0, 3)), "codes"])
def test_malformed_codes_are_refused(codes):
    with pytest.raises(ValueError, match=r"codes must be numbers of shape .* model.transform\(X\)"):
        plot_usage(codes)


def test_a_history_without_objective_is_refused_with_a_hint(history):
    del history["objective"]
    with pytest.raises(ValueError, match=r"recorded by fit\(X\)"):
        plot_history(history)


def test_without_a_validation_set_the_history_is_that_of_minibatches(history):
    history["training_objective"] = history.pop("objective")
    ax = plot_history(history)
    assert ax.get_ylabel() == "objective of minibatches"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), history["training_objective"])


def test_an_unknown_column_is_refused_by_name(history):
    with pytest.raises(ValueError, match=r"x must be one of .* got 'objective'"):
        plot_history(history, "objective")
