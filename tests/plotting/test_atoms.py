"""Atoms as pictures, curves and spectra."""

from types import SimpleNamespace

import numpy as np
import pytest

from somf.data import Channels
from somf.plotting import plot_atoms, plot_spectra, plot_usage
from tests.helpers.plots import SPECTRAL, mosaic, tiles


@pytest.mark.parametrize("channels", [(), (1,), (2,), (3,), (7,)])
def test_atoms_with_any_number_of_channels_are_a_grid_of_colours_from_0_to_1(channels):
    atoms = np.random.default_rng(0).random((10, int(np.prod((4, 5, *channels)))))
    ax = plot_atoms(atoms, (4, 5, *channels), n_atoms=6, n_columns=3)
    pictures = tiles(ax, (4, 5), 3, 2)
    assert pictures.shape == (2, 3, 4, 5, 3)
    assert pictures.min() == 0
    assert pictures.max() == 1
    is_gray = (pictures == pictures[..., :1]).all()
    assert is_gray == (channels in [(), (1,), (2,)])


def test_a_gray_atom_without_a_sign_is_stretched_from_black_to_white_on_its_own():
    atoms = np.stack([np.arange(20.0), 1000 + np.arange(20.0)])
    ((first, second),) = tiles(plot_atoms(atoms, (4, 5), n_columns=2), (4, 5), 2)
    np.testing.assert_allclose(first[..., 0].ravel(), np.arange(20) / 19)
    np.testing.assert_allclose(first, second)


def test_if_atoms_have_signs_zero_is_the_same_gray_in_all_of_them():
    atoms = np.zeros((7, 20))  # most of them are nothing at all
    atoms[0, :3], atoms[1, :3], atoms[2, :2] = [1, 1, 1], [-2, -2, -2], [1, -0.5]
    ax = plot_atoms(atoms, (4, 5), n_columns=7)
    ((up, down, both, *nothing),) = tiles(ax, (4, 5), 7)[..., 0]
    for picture in (up, down, both):
        np.testing.assert_array_equal(picture[1:], 0.5)
    np.testing.assert_array_equal(nothing, 0.5)
    np.testing.assert_array_equal(up[0, :3], 1)
    np.testing.assert_array_equal(down[0, :3], 0)
    np.testing.assert_allclose(both[0, :2], [1, 0.25])


@pytest.mark.parametrize("shape", [(3, 3), (2, 30), (64, 64), (90, 70)])
def test_frames_and_gaps_are_the_same_part_of_a_tile_for_patches_of_any_size(shape):
    ax = plot_atoms(np.ones((1, shape[0] * shape[1])), shape, colors=["r"])
    is_red = (mosaic(ax) == [1, 0, 0]).all(axis=2)
    widths = is_red.sum(axis=1)
    frame = widths[widths > 0].min() / 2  # a row through the picture crosses it twice
    assert 1 / 40 < frame / widths.max() < 1 / 15


def test_the_same_spectrum_has_the_same_colour_in_all_atoms(components):
    atoms = components.reshape(10, *SPECTRAL).copy()
    atoms[:, 0, 0] = atoms[0, 0, 0]
    ax = plot_atoms(atoms.reshape(10, -1), SPECTRAL, n_columns=10)
    corners = tiles(ax, SPECTRAL, 10)[0, :, 0, 0]
    np.testing.assert_array_equal(corners, np.broadcast_to(corners[0], corners.shape))
    assert len(np.unique(tiles(ax, SPECTRAL, 10)[0, :, 1, 1], axis=0)) > 1


def test_long_wavelengths_are_red_and_short_ones_blue():
    atoms = np.zeros((2, 2, 2, 6))
    atoms[0, ..., :2] = 1
    atoms[1, ..., 4:] = 1
    ((short, long),) = tiles(plot_atoms(atoms.reshape(2, -1), (2, 2, 6), n_columns=2), (2, 2), 2)
    np.testing.assert_array_equal(short[0, 0], [0, 0, 1])
    np.testing.assert_array_equal(long[0, 0], [1, 0, 0])


def test_a_constant_atom_is_drawn_without_a_division_by_zero():
    assert np.isfinite(mosaic(plot_atoms(np.ones((3, 20)), (4, 5)))).all()


def test_atoms_are_drawn_in_the_given_order(components):
    order = [7, 2, 5]
    reordered = mosaic(plot_atoms(components[order], SPECTRAL))
    ax = plot_atoms(components, SPECTRAL, order=order)
    np.testing.assert_array_equal(mosaic(ax), reordered)
    assert [text.get_text() for text in ax.texts] == ["7", "2", "5"]
    assert ax.get_title() == "3 of 10 atoms"


@pytest.mark.parametrize("shape", [None, (14, 10), SPECTRAL])
def test_every_atom_has_its_number_below_it_in_the_picture(components, shape):
    ax = plot_atoms(components, shape)
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == [str(j) for j in range(10)]
    places = [text.get_position() for text in ax.texts]
    assert len(set(places)) == 10
    frame = ax.get_window_extent()
    for text in ax.texts:
        box = text.get_window_extent()
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1
    assert ax.get_title() == ""


def test_frames_have_their_colours_even_if_there_are_more_colours_than_atoms(components):
    ax = plot_atoms(components, SPECTRAL, n_atoms=2, n_columns=2, colors=["r", "b", "g"])
    for x, color in zip((0, mosaic(ax).shape[1] // 2), ([1, 0, 0], [0, 0, 1]), strict=True):
        np.testing.assert_array_equal(mosaic(ax)[4, x + 4], color)
    assert not (mosaic(ax) == [0, 0.5, 0]).all(axis=2).any()


def test_spectra_are_means_over_the_patch_in_the_given_order(components):
    ax = plot_spectra(components, SPECTRAL, n_atoms=2, order=[3, 1, 0], colors=["r"])
    first, second = ax.lines
    atoms = components.reshape(10, *SPECTRAL)
    np.testing.assert_allclose(first.get_ydata(), atoms[3].mean(axis=(0, 1)))
    np.testing.assert_allclose(second.get_ydata(), atoms[1].mean(axis=(0, 1)))
    assert first.get_color() == "r"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["atom 3", "atom 1"]


def test_many_curves_have_no_legend():
    ax = plot_spectra(np.random.default_rng(0).random((20, 5)), n_atoms=20)
    assert len(ax.lines) == 20
    assert ax.get_legend() is None


def test_beside_a_picture_of_many_channels_is_its_mean_spectrum(components):
    ax = plot_atoms(components, SPECTRAL, n_columns=5)
    means, spectra = (np.array(lines.get_segments()) for lines in ax.collections)
    assert means.shape == spectra.shape == (10, 7, 2)
    # Higher values are further up, where y is smaller.
    drawn, meant = -spectra[3, :, 1], components[3].reshape(SPECTRAL).mean(axis=(0, 1))
    np.testing.assert_allclose(np.corrcoef(drawn, meant)[0, 1], 1, rtol=1e-5)


def test_atoms_that_are_not_pictures_are_drawn_as_curves(components):
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


def test_a_fitted_model_has_the_shape_of_its_patches(model):
    assert not plot_atoms(model).images
    model.patch_shape_ = (4, 5)
    assert plot_atoms(model).images
    assert mosaic(plot_atoms(model)).shape == mosaic(plot_atoms(model.components_, (4, 5))).shape


def test_atoms_without_channels_are_one_curve_each(model):
    ax = plot_spectra(model, n_atoms=2)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), model.components_[1])
    assert ax.get_xlabel() == "feature"


@pytest.mark.parametrize("shape", [(4, 35), (14, 10, 1)])
def test_atoms_of_one_channel_are_one_curve_each(components, shape):
    ax = plot_spectra(components, shape, n_atoms=2)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), components[1])


def test_ticks_for_channels_and_atoms_are_integers(components):
    colored = plot_spectra(components[:, :60], (4, 5, 3))
    used = plot_usage(np.eye(3))
    for ax in (colored, used):
        np.testing.assert_array_equal(ax.get_xticks() % 1, 0)


def test_centered_spectra_of_all_atoms_sum_to_zero(components):
    ax = plot_spectra(components, SPECTRAL, n_atoms=10, centered=True)
    total = np.sum([line.get_ydata() for line in ax.lines], axis=0)
    np.testing.assert_allclose(total, 0, atol=1e-6)


def test_a_spectrum_is_not_drawn_across_a_gap_in_the_wavelengths(components):
    wavelengths = [0.4, 0.5, 0.6, 0.7, 1.4, 1.5, 1.6]
    (line,) = plot_spectra(components, SPECTRAL, n_atoms=1, wavelengths=wavelengths).lines
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), [0, 0, 0, 0, 1, 0, 0, 0])


def test_wavelengths_may_be_in_descending_order(components):
    wavelengths = np.array([1.6, 1.5, 1.4, 0.7, 0.6, 0.5, 0.4])
    (line,) = plot_spectra(components, SPECTRAL, n_atoms=1, wavelengths=wavelengths).lines
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), [0, 0, 0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(np.delete(line.get_xdata(), 3), wavelengths)


def test_a_patch_shape_that_does_not_fit_is_refused_by_name(components):
    with pytest.raises(ValueError, match=r"patch_shape must .* n_features=140 .* got \(4, 5\)"):
        plot_atoms(components, (4, 5))
    with pytest.raises(ValueError, match=r"patch_shape must be \(height, width\) .* got \(8,\)"):
        plot_atoms(components, 8)


@pytest.mark.parametrize("name", ["n_atoms", "n_columns"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "all"])
def test_a_wrong_number_of_atoms_is_refused_by_name(components, name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got {value!r}"):
        plot_atoms(components, **{name: value})


def test_atoms_of_one_feature_are_drawn_as_levels():
    _, curves = plot_atoms(np.array([[1.0], [-2.0]])).collections
    for curve in curves.get_segments():
        assert np.ptp(curve[:, 0]) > 0


def test_wavelengths_of_the_wrong_length_are_refused_by_name(components):
    with pytest.raises(ValueError, match=r"wavelengths must have shape \(7,\), got \(3,\)"):
        plot_spectra(components, SPECTRAL, wavelengths=[1, 2, 3])


def test_the_axis_has_the_wavelengths_that_the_model_knows_with_their_unit(components):
    model = SimpleNamespace(
        components_=components, channels_=Channels(tuple(range(400, 470, 10)), "nm")
    )
    ax = plot_spectra(model, SPECTRAL, n_atoms=1)
    assert ax.get_xlabel() == "wavelength (nm)"
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), range(400, 470, 10))
    ax = plot_spectra(model, SPECTRAL, n_atoms=1, wavelengths=range(7))
    assert ax.get_xlabel() == "wavelength"


def test_a_few_features_are_named_on_the_axis():
    names = np.array(["sepal length", "sepal width", "petal length"], dtype=object)
    model = SimpleNamespace(components_=np.eye(3), feature_names_in_=names)
    ax = plot_spectra(model)
    assert [label.get_text() for label in ax.get_xticklabels()] == list(names)
