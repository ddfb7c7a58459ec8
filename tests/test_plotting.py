"""The pictures show what they are given."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib import pyplot as plt

from somf import DictionaryLearning, SparsePCA
from somf.plotting import (
    plot_atoms,
    plot_history,
    plot_reconstructions,
    plot_spectra,
    plot_usage,
)

mpl.use("Agg")

SPECTRAL = (4, 5, 7)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def components():
    return np.random.default_rng(0).standard_normal((10, 4 * 5 * 7)).astype(np.float32)


@pytest.fixture
def history():
    return {
        "n_samples_seen": [0, 50, 100],
        "n_iter": [0, 1, 2],
        "compute_seconds": [0.0, 0.5, 1.0],
        "wall_seconds": [0.1, 0.7, 1.3],
        "objective": [3.0, 2.0, 1.5],
    }


@pytest.fixture
def samples():
    return np.random.default_rng(0).standard_normal((60, 20))


@pytest.fixture
def model(samples):
    return DictionaryLearning(3, alpha=0.5, reduction=2, random_state=0).fit(samples)


def mosaic(ax):
    return np.asarray(ax.images[0].get_array())


@pytest.mark.parametrize("channels", [(), (1,), (2,), (3,), (7,)])
def test_atoms_with_any_number_of_channels_become_a_grid_of_colours_from_0_to_1(channels):
    atoms = np.random.default_rng(0).standard_normal((10, int(np.prod((4, 5, *channels)))))
    picture = mosaic(plot_atoms(atoms, (4, 5, *channels), n_atoms=6, n_columns=3))
    spectrum = 7 if channels == (7,) else 0
    assert picture.shape == (2 * (4 + 4), 3 * (5 + 4 + spectrum), 3)
    assert picture.min() == 0
    assert picture.max() == 1


def test_a_gray_atom_is_stretched_from_black_to_white_on_its_own():
    atoms = np.stack([np.arange(20.0), 1000 + np.arange(20.0)])
    first, second = np.hsplit(mosaic(plot_atoms(atoms, (4, 5), n_columns=2)), 2)
    np.testing.assert_allclose(first[2:-2, 2:-2, 0].ravel(), np.arange(20) / 19)
    np.testing.assert_allclose(first, second)


def test_the_same_spectrum_has_the_same_colour_in_all_atoms(components):
    atoms = components.reshape(10, *SPECTRAL).copy()
    atoms[:, 0, 0] = atoms[0, 0, 0]
    picture = mosaic(plot_atoms(atoms.reshape(10, -1), SPECTRAL, n_columns=10))
    corners = picture[2, 2 :: 5 + 4 + 7]
    np.testing.assert_array_equal(corners, np.broadcast_to(corners[0], corners.shape))


def test_long_wavelengths_are_red_and_short_ones_blue():
    atoms = np.zeros((2, 2, 2, 6))
    atoms[0, ..., :2] = 1
    atoms[1, ..., 4:] = 1
    picture = mosaic(plot_atoms(atoms.reshape(2, -1), (2, 2, 6), n_columns=2))
    np.testing.assert_array_equal(picture[2, 2], [0, 0, 1])
    np.testing.assert_array_equal(picture[2, 2 + 6 + 3], [1, 0, 0])


def test_a_constant_atom_is_drawn_without_a_division_by_zero():
    assert np.isfinite(mosaic(plot_atoms(np.ones((3, 20)), (4, 5)))).all()


def test_atoms_come_in_the_order_asked_for(components):
    order = [7, 2, 5]
    reordered = mosaic(plot_atoms(components[order], SPECTRAL))
    np.testing.assert_array_equal(mosaic(plot_atoms(components, SPECTRAL, order=order)), reordered)


def test_frames_have_their_colours_even_if_there_are_more_colours_than_atoms(components):
    ax = plot_atoms(components, SPECTRAL, n_atoms=2, n_columns=2, colors=["r", "b", "g"])
    np.testing.assert_array_equal(mosaic(ax)[1, 1], [1, 0, 0])
    np.testing.assert_array_equal(mosaic(ax)[1, 1 + 9 + 7], [0, 0, 1])


def test_spectra_are_means_over_the_patch_in_the_order_asked_for(components):
    ax = plot_spectra(components, SPECTRAL, n_atoms=2, order=[3, 1, 0], colors=["r"])
    first, second = ax.lines
    atoms = components.reshape(10, *SPECTRAL)
    np.testing.assert_allclose(first.get_ydata(), atoms[3].mean(axis=(0, 1)))
    np.testing.assert_allclose(second.get_ydata(), atoms[1].mean(axis=(0, 1)))
    assert first.get_color() == "r"


def test_beside_a_picture_of_many_channels_is_its_mean_spectrum(components):
    ax = plot_atoms(components, SPECTRAL, n_columns=5)
    means, spectra = (np.array(lines.get_segments()) for lines in ax.collections)
    assert means.shape == spectra.shape == (10, 7, 2)
    # Higher values are further up, where y is smaller.
    drawn, meant = -spectra[3, :, 1], components[3].reshape(SPECTRAL).mean(axis=(0, 1))
    np.testing.assert_allclose(np.corrcoef(drawn, meant)[0, 1], 1, rtol=1e-5)


def test_atoms_that_are_no_pictures_are_drawn_as_curves(components):
    ax = plot_atoms(components, n_atoms=4)
    _, curves = ax.collections
    assert not ax.images
    assert len(curves.get_segments()) == 4


def test_a_long_curve_keeps_its_peaks():
    atoms = np.zeros((1, 10_000))
    atoms[0, 7_003] = -1
    _, curves = plot_atoms(atoms).collections
    (curve,) = curves.get_segments()
    assert len(curve) < 1000
    assert np.ptp(curve[:, 1]) > 0


def test_a_fitted_model_knows_the_shape_of_its_patches(model):
    assert not plot_atoms(model).images
    model.patch_shape_ = (4, 5)
    assert plot_atoms(model).images
    assert mosaic(plot_atoms(model)).shape == mosaic(plot_atoms(model.components_, (4, 5))).shape


def test_features_that_are_no_spectrum_are_one_curve_each(model):
    ax = plot_spectra(model, n_atoms=2)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), model.components_[1])
    assert ax.get_xlabel() == "feature"


def test_usage_is_sorted_and_its_mean_is_the_density(model, samples):
    codes = model.transform(samples)
    ax = plot_usage(codes)
    bars, line = (np.asarray(line.get_ydata()) for line in ax.lines)
    np.testing.assert_allclose(bars, np.sort((codes != 0).mean(axis=0))[::-1])
    np.testing.assert_allclose(line, np.mean(codes != 0))
    sparse = plot_usage(model.transform(samples, sparse=True))
    np.testing.assert_allclose(sparse.lines[0].get_ydata(), bars)


def test_usage_of_dense_codes_is_their_size(samples):
    codes = SparsePCA(3, reduction=1, random_state=0).fit_transform(samples)
    ax = plot_usage(codes)
    np.testing.assert_allclose(
        ax.lines[0].get_ydata(), np.sort(np.abs(codes).mean(axis=0))[::-1], rtol=1e-6
    )


def test_a_perfect_reconstruction_has_a_black_error():
    samples = np.eye(20)[:6]
    model = DictionaryLearning(6, alpha=1e-9, reduction=1, init=samples).fit(samples)
    top, middle, bottom = np.vsplit(mosaic(plot_reconstructions(model, samples, (4, 5))), 3)
    np.testing.assert_allclose(top, middle, atol=1e-6)
    for tile in np.hsplit(bottom, 6):
        np.testing.assert_allclose(tile[2:-2, 2:-2], 0, atol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_reconstructions_name_the_error_of_every_sample_asked_for(model, samples, kind):
    ids = [3, 50]
    chosen = samples[ids]
    errors = chosen - model.inverse_transform(model.transform(chosen))
    relative = np.linalg.norm(errors, axis=1) / np.linalg.norm(chosen, axis=1)
    for shape in (None, (4, 5), (2, 2, 5)):
        ax = plot_reconstructions(model, kind(samples), shape, ids=ids)
        assert [label.get_text() for label in ax.get_xticklabels()] == [
            f"{error:.0%}" for error in relative
        ]


def test_reconstructions_of_a_data_frame_know_its_names(samples):
    frame = pytest.importorskip("pandas").DataFrame(samples).rename(columns=str)
    model = DictionaryLearning(3, random_state=0).fit(frame)
    plot_reconstructions(model, frame)


def test_centered_spectra_of_all_atoms_sum_to_zero(components):
    ax = plot_spectra(components, SPECTRAL, n_atoms=10, centered=True)
    total = np.sum([line.get_ydata() for line in ax.lines], axis=0)
    np.testing.assert_allclose(total, 0, atol=1e-6)


def test_a_spectrum_is_not_drawn_across_a_gap_in_the_wavelengths(components):
    wavelengths = [0.4, 0.5, 0.6, 0.7, 1.4, 1.5, 1.6]
    (line,) = plot_spectra(components, SPECTRAL, n_atoms=1, wavelengths=wavelengths).lines
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), [0, 0, 0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize("x", ["compute_seconds", "wall_seconds", "n_samples_seen", "n_iter"])
def test_history_is_drawn_against_the_column_asked_for(history, x):
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


def test_pictures_are_drawn_where_the_caller_wants_them(components, history, model, samples):
    figure, axes = plt.subplots(1, 5)
    assert plot_atoms(components, SPECTRAL, ax=axes[0]) is axes[0]
    assert plot_spectra(components, SPECTRAL, ax=axes[1]) is axes[1]
    assert plot_history(history, ax=axes[2]) is axes[2]
    assert plot_usage(samples, ax=axes[3]) is axes[3]
    assert plot_reconstructions(model, samples, ax=axes[4]) is axes[4]
    assert plt.get_fignums() == [figure.number]


def test_a_patch_shape_that_does_not_fit_is_named(components):
    with pytest.raises(ValueError, match=r"patch_shape must .* n_features=140 .* got \(4, 5\)"):
        plot_atoms(components, (4, 5))
    with pytest.raises(ValueError, match=r"patch_shape must be \(height, width, channels\)"):
        plot_spectra(components, (14, 10))


def test_what_has_no_atoms_is_refused():
    with pytest.raises(ValueError, match="model must be a fitted estimator or an array"):
        plot_atoms(DictionaryLearning())


def test_wavelengths_of_the_wrong_length_are_named(components):
    with pytest.raises(ValueError, match=r"wavelengths must have shape \(7,\), got \(3,\)"):
        plot_spectra(components, SPECTRAL, wavelengths=[1, 2, 3])


def test_a_history_without_objective_says_how_to_measure_it(history):
    del history["objective"]
    with pytest.raises(ValueError, match=r"fit\(X, validation=\.\.\.\)"):
        plot_history(history)


def test_an_unknown_horizontal_axis_is_named(history):
    with pytest.raises(ValueError, match=r"x must be one of .* got 'objective'"):
        plot_history(history, "objective")


def test_without_matplotlib_the_extra_is_named(components, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    with pytest.raises(ImportError, match=r"pip install 'somf\[plot\]'"):
        plot_atoms(components, SPECTRAL)
