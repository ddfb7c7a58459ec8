"""Arguments that all plots have, and matplotlib itself."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError

from somf import DictionaryLearning
from somf.plotting import plot_atoms, plot_history, plot_reconstructions, plot_spectra, plot_usage
from tests.helpers.plots import SPECTRAL


def test_plots_are_drawn_on_the_given_axes(components, history, model, samples):
    figure, axes = plt.subplots(1, 5)
    assert plot_atoms(components, SPECTRAL, ax=axes[0]) is axes[0]
    assert plot_spectra(components, SPECTRAL, ax=axes[1]) is axes[1]
    assert plot_history(history, ax=axes[2]) is axes[2]
    assert plot_usage(samples, ax=axes[3]) is axes[3]
    assert plot_reconstructions(model, samples, ax=axes[4]) is axes[4]
    assert plt.get_fignums() == [figure.number]


def test_without_matplotlib_the_extra_is_named(components, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    with pytest.raises(ImportError, match=r"pip install 'somf\[plot\]'"):
        plot_atoms(components, SPECTRAL)


@pytest.mark.parametrize("order", [[10], [-1], [], [0.5], 3])
def test_indices_out_of_range_are_refused_by_name(components, model, samples, order):
    with pytest.raises(ValueError, match="order must be a list of integers from 0 to 9, got"):
        plot_atoms(components, order=order)
    with pytest.raises(ValueError, match="ids must be a list of integers from 0 to 9, got"):
        plot_reconstructions(model, samples[:10], ids=order)
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1, got 0"):
        plot_reconstructions(model, samples, n_samples=0)


def test_a_model_without_atoms_is_refused(samples):
    for draw in (plot_atoms, plot_spectra):
        with pytest.raises(ValueError, match="model must be a fitted estimator or an array"):
            draw(DictionaryLearning())
        with pytest.raises(ValueError, match="model must have finite atoms"):
            draw(np.full((3, 20), np.nan))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot_history(DictionaryLearning())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot_reconstructions(DictionaryLearning(), samples)
