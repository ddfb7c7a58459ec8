"""Signals of HyperSpy, and its decomposition by estimators of somf."""

import numpy as np
import pytest

pytest.importorskip("hyperspy", reason="HyperSpy comes with the extra 'hyperspy'")

import hyperspy.api as hs

from somf import NMF, ImagePatches
from somf.data import as_source

pytestmark = pytest.mark.filterwarnings("ignore")  # of HyperSpy and its libraries

RANDOM = np.random.default_rng(0)
CUBE = RANDOM.random((12, 10, 3)) @ RANDOM.random((3, 40))


@pytest.fixture
def signal():
    signal = hs.signals.Signal1D(CUBE.copy())
    along = signal.axes_manager.signal_axes[0]
    along.name, along.units, along.offset, along.scale = "Energy", "eV", 100, 0.5
    return signal


def model():
    return NMF(3, n_epochs=100, random_state=0)


def test_the_algorithm_of_a_decomposition_may_be_an_estimator(signal):
    estimator = signal.decomposition(
        algorithm=model(), output_dimension=3, return_info=True, print_info=False
    )
    assert estimator.components_.shape == (3, 40)
    rebuilt = signal.get_decomposition_model().data
    assert np.linalg.norm(rebuilt - CUBE) < 0.05 * np.linalg.norm(CUBE)
    factors = signal.get_decomposition_factors()
    assert factors.axes_manager.signal_axes[0].units == "eV"


def test_a_lazy_signal_is_learned_from_by_partial_fit(signal):
    lazy = signal.as_lazy()
    lazy.decomposition(algorithm=model(), output_dimension=3, print_info=False)
    assert lazy.get_decomposition_loadings().data.shape == (3, 12, 10)


def test_a_signal_is_a_matrix_of_pixels_and_channels(signal):
    for each in (signal, signal.as_lazy()):
        source = as_source(each)
        np.testing.assert_array_equal(source.rows(np.arange(120)), CUBE.reshape(120, 40))
        assert source.channels.title == "Energy (eV)"
        assert source.feature_names[:2] == ["100 eV", "100.5 eV"]
    assert np.shares_memory(as_source(signal).X, signal.data)


def test_a_spectrum_image_is_cut_into_patches(signal):
    for each in (signal, signal.as_lazy()):
        patches = ImagePatches(each, 3)
        np.testing.assert_array_equal(
            patches.rows(np.arange(5)), ImagePatches(CUBE, 3).rows(np.arange(5))
        )
        assert patches.channels.unit == "eV"
