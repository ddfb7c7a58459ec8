"""Models that are saved and loaded."""

import numpy as np
import pytest

import somf
from somf import NMF, DictionaryLearning, ImagePatches, MatrixFactorization, SparsePCA
from somf.algorithm.schedule import TOP
from tests.helpers.problems import planted


@pytest.mark.parametrize("kind", [MatrixFactorization, DictionaryLearning, SparsePCA, NMF])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loaded_model_gives_identical_codes(kind, dtype, toy, tmp_path):
    X = np.abs(toy).astype(dtype)
    model = kind(5, alpha=0.2, reduction=2.5, random_state=3).fit(X, validation=0.1)
    model.save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    assert type(loaded) is kind
    assert loaded.get_params() == model.get_params() | {"callbacks": []}
    assert loaded.history_ == model.history_
    assert (loaded.n_iter_, loaded.n_samples_seen_) == (model.n_iter_, model.n_samples_seen_)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.transform(X).dtype == dtype


def test_parameters_that_are_arrays_or_objects_survive_or_are_dropped(toy, tmp_path):
    model = DictionaryLearning(
        np.int64(5),
        alpha=np.float32(0.25),
        init=toy[:5],
        dtype=np.float32,
        callbacks=[lambda _: None],
        random_state=np.random.RandomState(0),
    ).fit(toy)
    model.save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    np.testing.assert_array_equal(loaded.init, toy[:5])
    assert (loaded.n_components, loaded.alpha, loaded.dtype) == (5, 0.25, "float32")
    assert (loaded.callbacks, loaded.random_state) == ([], None)


def test_names_of_features_survive(toy, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(toy, columns=[f"band {i}" for i in range(60)])
    DictionaryLearning(5, random_state=0).fit(frame).save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    loaded.transform(frame)


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_partial_fit_continues_from_a_saved_state_as_if_it_had_not_been_saved(
    toy, tmp_path, masks, surrogate
):
    model = DictionaryLearning(
        5, reduction=2, masks=masks, surrogate=surrogate, n_epochs=1, random_state=0
    )
    model.fit(toy[:200])
    model.save(tmp_path / "model.somf", state=True)
    loaded = somf.load(tmp_path / "model.somf")
    ids = np.arange(100, 300)
    for each in (model, loaded):
        each.partial_fit(toy[ids], sample_ids=ids)
    np.testing.assert_array_equal(loaded.components_, model.components_)
    assert loaded.n_samples_seen_ == 400


@pytest.mark.parametrize(("n_features", "rung"), [(3600, 0), (100, TOP)])  # kept, and given up
def test_a_reduction_goes_on_from_a_file(tmp_path, n_features, rung):
    X = planted(600, n_features, 4, noise=0.1)[0]
    model = DictionaryLearning(4, reduction="auto", n_epochs=1, batch_size=4, random_state=0)
    model.fit(X)
    model.save(tmp_path / "model.somf", state=True)
    loaded = somf.load(tmp_path / "model.somf")
    assert loaded.reduction == "auto"
    assert loaded._state.rung == model._state.rung == rung
    for each in (model, loaded):
        each.partial_fit(X)
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_partial_fit_does_not_continue_without_the_state(toy, tmp_path):
    DictionaryLearning(5, random_state=0).fit(toy).save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    with pytest.raises(ValueError, match="loaded without its state"):
        loaded.partial_fit(toy)
    loaded.fit(toy).partial_fit(toy)


def test_a_loaded_model_may_be_saved_again(toy, tmp_path):
    DictionaryLearning(5, random_state=0).fit(toy).save(tmp_path / "one")
    somf.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with pytest.raises(ValueError, match="has no state to save"):
        somf.load(tmp_path / "one").save(tmp_path / "three", state=True)


def test_a_model_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        DictionaryLearning(5).save(tmp_path / "model.somf")
    assert not list(tmp_path.iterdir())


def test_parameters_that_do_not_fit_the_model_are_not_saved(toy, tmp_path):
    model = DictionaryLearning(5, random_state=0).fit(toy)
    with pytest.raises(ValueError, match="n_components must be that of the fit, 5"):
        model.set_params(n_components=6).save(tmp_path / "model.somf")
    with pytest.raises(ValueError, match="reduction must stay"):
        model.set_params(n_components=5, reduction=8).save(tmp_path / "model.somf", state=True)
    assert not list(tmp_path.iterdir())


def test_how_patches_were_cut_out_is_part_of_the_model(tmp_path):
    image = np.random.default_rng(0).integers(0, 99, (20, 22, 3), dtype=np.uint8)
    np.save(tmp_path / "image.npy", image)
    np.save(tmp_path / "mask.npy", image[:, :, 0] != 3)
    options = {"stride": 2, "scale": False, "no_data": 3, "mask": tmp_path / "mask.npy"}
    patches = ImagePatches(tmp_path / "image.npy", (4, 5), **options)
    model = DictionaryLearning(5, random_state=0).fit(patches)
    model.save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    assert loaded.patch_shape_ == model.patch_shape_ == patches.patch_shape == (4, 5, 3)
    assert loaded.patches_ == model.patches_ == patches.geometry
    assert loaded.patches_ == {
        "patch_size": (4, 5),
        "stride": (2, 2),
        "center": True,
        "scale": False,
        "no_data": 3.0,
        "images": [
            {
                "shape": (20, 22, 3),
                "dtype": "uint8",
                "path": str(tmp_path / "image.npy"),
                "dataset": None,
                "mask": str(tmp_path / "mask.npy"),
            }
        ],
    }


@pytest.mark.parametrize(
    ("images", "size", "shape"),
    [
        ([np.ones((9, 8, 3)), np.ones((7, 12, 3))], 4, (4, 4, 3)),
        (np.ones((6, 7, 8)), (2, 3, 4), (2, 3, 4)),
    ],
    ids=["several images", "volume"],
)
def test_a_model_keeps_the_geometry_of_several_images_and_of_volumes(images, size, shape, tmp_path):
    patches = ImagePatches(images, size, center=False)
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(patches)
    model.save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    assert loaded.patch_shape_ == shape
    assert loaded.patches_ == patches.geometry


def test_a_model_of_patches_that_is_fitted_to_rows_forgets_the_patches(toy):
    image = np.random.default_rng(0).random((20, 20))
    model = DictionaryLearning(5, random_state=0).partial_fit(ImagePatches(image, 4))
    assert model.patch_shape_ == (4, 4)
    model.fit(toy)
    assert not hasattr(model, "patches_")
    assert not hasattr(model, "patch_shape_")
