"""Maps of codes and of errors."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="plots come with the extra 'plot'")

from matplotlib import pyplot as plt

from somf import NMF, DictionaryLearning, ImagePatches, SparsePCA
from somf.errors import ParameterError
from somf.plotting import plot_atoms, plot_code_maps, plot_residual_map
from somf.plotting.maps import WITHOUT_DATA, _colored
from somf.plotting.pictures import patch_shape_of


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    yield [rng.random((12, 14)), rng.random((9, 20))]
    plt.close("all")


def test_there_is_a_map_with_its_number_for_the_most_used_atoms(images):
    patches = ImagePatches(images[0], 3)
    model = DictionaryLearning(8, alpha=0.1, n_epochs=1, random_state=0).fit(patches)
    ax = plot_code_maps(model, patches, n_atoms=5)
    used = np.count_nonzero(model.transform(patches), axis=0)
    shown = [int(text.get_text()) for text in ax.texts]
    assert len(set(shown)) == 5
    assert used[shown].tolist() == sorted(used.tolist(), reverse=True)[:5]
    assert ax.get_title() == "codes of 5 of 8 atoms"
    chosen = plot_code_maps(model, patches, order=[7, 2])
    assert [text.get_text() for text in chosen.texts] == ["7", "2"]


def test_zero_has_one_color_and_missing_patches_another():
    values = np.array([[0.0, 2.0, np.nan], [0.0, 1.0, 0.5]])
    positive, signed = _colored(values), _colored(np.where(values == 1, -1, values))
    for picture in (positive, signed):
        np.testing.assert_array_equal(picture[0, 0], picture[1, 0])
        np.testing.assert_array_equal(picture[0, 2], WITHOUT_DATA)
    assert positive[0, 0].max() < 0.1
    assert signed[0, 0].min() > 0.9


def test_the_error_of_one_of_several_images_is_drawn(images):
    patches = ImagePatches(images, 2)
    model = DictionaryLearning(4, alpha=0.1, n_epochs=1, random_state=0).fit(patches)
    codes = model.transform(patches)
    ax = plot_residual_map(model, patches, codes=codes, image=1)
    expected = patches.residual_map(codes, model.components_)[1]
    np.testing.assert_array_equal(ax.images[0].get_array(), expected)
    with pytest.raises(ParameterError, match="image must be a list of integers from 0 to 1"):
        plot_residual_map(model, patches, image=2)
    with pytest.raises(ParameterError, match="patches must be an ImagePatches"):
        plot_residual_map(model, codes)


def test_planes_of_atoms_of_volumes_are_one_below_the_other():
    volume = np.random.default_rng(0).random((6, 8, 9, 3))
    model = NMF(3, n_epochs=1).fit(ImagePatches(volume, (2, 3, 4), center=False))
    assert patch_shape_of(model, None, 72) == (6, 4, 3)
    (ax,) = plot_atoms(model).figure.axes
    assert len(ax.texts) == 3
    plt.close("all")


def test_of_a_volume_the_plane_in_the_middle_is_drawn():
    volume = np.random.default_rng(0).random((5, 8, 9))
    patches = ImagePatches(volume, (2, 2, 2), center=False)
    model = NMF(3, n_epochs=1, random_state=0).fit(patches)
    ax = plot_residual_map(model, patches)
    assert ax.images[0].get_array().shape == (8, 9)
    assert len(plot_code_maps(model, patches).texts) == 3
    plt.close("all")


def test_a_residual_map_of_a_model_that_subtracts_means_is_refused():
    patches = ImagePatches(np.random.default_rng(0).random((8, 9, 4)), 1, center=False, scale=False)
    model = SparsePCA(2, alpha=0.1, center="features", n_epochs=1, random_state=0).fit(patches)
    with pytest.raises(ParameterError, match="model must have center='none'"):
        plot_residual_map(model, patches)
