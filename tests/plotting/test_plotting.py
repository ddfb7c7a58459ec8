"""The pictures show what they are given."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError

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


def tiles(ax, shape, n_columns, n_rows=1):
    """Return the pictures of a grid, of shape (n_rows, n_columns, height, width, 3)."""
    picture, side = mosaic(ax), max(shape[:2])
    zoom = -(-60 // side)
    gap = zoom * side // 12
    tall, wide = picture.shape[0] // n_rows, picture.shape[1] // n_columns
    return np.array(
        [
            [
                picture[y + gap :: zoom, x + gap :: zoom][: shape[0], : shape[1]]
                for x in wide * np.arange(n_columns)
            ]
            for y in tall * np.arange(n_rows)
        ]
    )


def curves_of(lines, low, high, height):
    """Return the values of curves that were drawn between low and high in rows of one height."""
    y = np.array(lines.get_segments())[:, :, 1]
    return low + (high - low) * (1 - (y - height) / 60)


@pytest.mark.parametrize("channels", [(), (1,), (2,), (3,), (7,)])
def test_atoms_with_any_number_of_channels_become_a_grid_of_colours_from_0_to_1(channels):
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


def test_atoms_come_in_the_order_asked_for(components):
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


def test_spectra_are_means_over_the_patch_in_the_order_asked_for(components):
    ax = plot_spectra(components, SPECTRAL, n_atoms=2, order=[3, 1, 0], colors=["r"])
    first, second = ax.lines
    atoms = components.reshape(10, *SPECTRAL)
    np.testing.assert_allclose(first.get_ydata(), atoms[3].mean(axis=(0, 1)))
    np.testing.assert_allclose(second.get_ydata(), atoms[1].mean(axis=(0, 1)))
    assert first.get_color() == "r"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["atom 3", "atom 1"]


def test_a_legend_is_not_longer_than_eyes_can_follow():
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


@pytest.mark.parametrize("shape", [(4, 35), (14, 10, 1)])
def test_atoms_of_one_channel_are_one_curve_each(components, shape):
    ax = plot_spectra(components, shape, n_atoms=2)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), components[1])


def test_channels_and_atoms_are_counted_in_whole_numbers(components):
    colored = plot_spectra(components[:, :60], (4, 5, 3))
    used = plot_usage(np.eye(3))
    for ax in (colored, used):
        np.testing.assert_array_equal(ax.get_xticks() % 1, 0)


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


def test_usage_of_sparse_pca_is_the_size_of_codes_whatever_transform_returns(samples):
    model = SparsePCA(3, reduction=1, random_state=0).fit(samples)
    for is_sparse in (False, True):
        assert plot_usage(model.transform(samples, sparse=is_sparse)).get_ylabel() == (
            "mean size of codes"
        )


def test_a_perfect_reconstruction_has_a_black_error():
    samples = np.eye(20)[:6]
    model = DictionaryLearning(6, alpha=1e-9, reduction=1, init=samples).fit(samples)
    top, middle, bottom = tiles(plot_reconstructions(model, samples, (4, 5)), (4, 5), 6, 3)
    np.testing.assert_array_equal(top[..., 0].reshape(6, 20), samples)
    np.testing.assert_allclose(top, middle, atol=1e-6)
    np.testing.assert_allclose(bottom, 0, atol=1e-6)


def test_pictures_of_reconstructions_are_those_of_the_model_and_errors_what_is_missing():
    samples = np.random.default_rng(0).random((40, 20))
    model = DictionaryLearning(3, alpha=0.1, reduction=1, random_state=0).fit(samples)
    again = model.inverse_transform(model.transform(samples[:2]))
    pictures = tiles(plot_reconstructions(model, samples, (4, 5), ids=[0, 1]), (4, 5), 2, 3)
    low, high = (f(samples[:2], axis=1, keepdims=True) for f in (np.min, np.max))
    expected = [samples[:2] - low, again - low, np.abs(samples[:2] - again)]
    np.testing.assert_allclose(
        pictures[..., 0].reshape(3, 2, 20), np.clip(expected / (high - low), 0, 1), atol=1e-6
    )


def test_curves_of_reconstructions_are_the_samples_the_models_and_the_errors(model, samples):
    ids = [3, 50]
    chosen = samples[ids]
    again = model.inverse_transform(model.transform(chosen))
    ax = plot_reconstructions(model, samples, ids=ids)
    sample, reconstruction, _, error = ax.collections
    low, high = (f(chosen, axis=1, keepdims=True) for f in (np.min, np.max))
    reach = (high - low) / 2
    np.testing.assert_allclose(curves_of(sample, low, high, 5), chosen)
    np.testing.assert_allclose(curves_of(reconstruction, low, high, 5), again)
    np.testing.assert_allclose(curves_of(error, -reach, reach, 75), chosen - again, atol=1e-12)
    assert ax.get_ylim() == (140, 0)  # two rows, however small errors are


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


def test_wavelengths_may_fall(components):
    wavelengths = np.array([1.6, 1.5, 1.4, 0.7, 0.6, 0.5, 0.4])
    (line,) = plot_spectra(components, SPECTRAL, n_atoms=1, wavelengths=wavelengths).lines
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), [0, 0, 0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(np.delete(line.get_xdata(), 3), wavelengths)


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
    with pytest.raises(ValueError, match=r"patch_shape must be \(height, width\) .* got \(8,\)"):
        plot_atoms(components, 8)


def test_what_has_no_atoms_is_refused(samples):
    for draw in (plot_atoms, plot_spectra):
        with pytest.raises(ValueError, match="model must be a fitted estimator or an array"):
            draw(DictionaryLearning())
        with pytest.raises(ValueError, match="model must have finite atoms"):
            draw(np.full((3, 20), np.nan))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot_history(DictionaryLearning())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot_reconstructions(DictionaryLearning(), samples)


@pytest.mark.parametrize("codes", [DictionaryLearning(), np.ones(3), np.ones((0, 3)), "codes"])
def test_what_are_no_codes_is_refused(codes):
    with pytest.raises(ValueError, match=r"codes must be numbers of shape .* model.transform\(X\)"):
        plot_usage(codes)


@pytest.mark.parametrize("name", ["n_atoms", "n_columns"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "all"])
def test_a_number_of_atoms_that_is_none_is_named(components, name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got {value!r}"):
        plot_atoms(components, **{name: value})


@pytest.mark.parametrize("order", [[10], [-1], [], [0.5], 3])
def test_atoms_and_samples_that_do_not_exist_are_named(components, model, samples, order):
    with pytest.raises(ValueError, match="order must be a list of integers from 0 to 9, got"):
        plot_atoms(components, order=order)
    with pytest.raises(ValueError, match="ids must be a list of integers from 0 to 9, got"):
        plot_reconstructions(model, samples[:10], ids=order)
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1, got 0"):
        plot_reconstructions(model, samples, n_samples=0)


def test_atoms_of_one_feature_are_drawn_as_levels():
    _, curves = plot_atoms(np.array([[1.0], [-2.0]])).collections
    for curve in curves.get_segments():
        assert np.ptp(curve[:, 0]) > 0


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
