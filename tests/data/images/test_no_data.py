"""Pixels without data as unknown entries of patches."""

import numpy as np
import pytest

import somf
from somf import NMF, DictionaryLearning, ImagePatches
from somf.errors import FileRequestError, NotFiniteError, ParameterError
from tests.helpers.gpu import NEEDS_CUDA

CUBE = np.random.default_rng(0).random((12, 14, 3))
HOLES = np.random.default_rng(1).random(CUBE.shape) < 0.2
"""Dead entries, a stripe in one band, and a block without any data."""
HOLES[:, 5, 1] = True
HOLES[:5, 8:13] = True


def rows_of(image, size=3, **options):
    patches = ImagePatches(image, size, no_data="missing", **options)
    return patches.rows(np.arange(patches.shape[0]))


def expected_rows(image, size=3, center=True, scale=True):
    """Return patches, normalised by NumPy over the entries that are not NaN."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))
    rows = np.moveaxis(windows, 2, -1).reshape(-1, size * size * image.shape[2]).copy()
    for row in rows:
        known = ~np.isnan(row)
        if center and known.any():
            row[known] -= row[known].mean()
        norm = np.linalg.norm(row[known])
        if scale and norm > 1e-14:
            row[known] /= norm
    return rows


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_means_and_norms_are_those_of_the_known_entries(center, scale):
    image = np.where(HOLES, np.nan, CUBE)
    rows = rows_of(image, center=center, scale=scale)
    assert np.isnan(rows).all(axis=1).any()  # in the block
    np.testing.assert_allclose(rows, expected_rows(image, 3, center, scale), atol=1e-14)


@pytest.mark.parametrize("dtype", ["uint8", "int16", ">i2", "int64", "float16", ">f4", "float64"])
@pytest.mark.parametrize("normalise", [False, True])
def test_nan_masks_and_masked_arrays_say_the_same(dtype, normalise):
    image = (100 * CUBE).astype(dtype)
    options = {"center": normalise, "scale": normalise}
    expected = expected_rows(np.where(HOLES, np.nan, image.astype(float)), **options)
    given = [(image, {"mask": ~HOLES}), (np.ma.masked_array(image, HOLES), {})]
    if image.dtype.kind == "f":
        given.append((np.where(HOLES, np.nan, image).astype(dtype), {}))
    for picture, mask in given:
        rows = rows_of(picture, **mask, **options)
        assert rows.dtype == ImagePatches(image, 3).dtype
        np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)


def test_a_mask_of_pixels_holds_for_all_channels():
    mask = ~HOLES.all(axis=2)
    expected = rows_of(np.where(mask[:, :, None], CUBE, np.nan))
    np.testing.assert_array_equal(rows_of(CUBE, mask=mask), expected)


def test_all_that_says_no_data_counts():
    image, mask, masked = CUBE.copy(), np.ones((12, 14), dtype=bool), np.zeros_like(HOLES)
    image[1, 1, 0], mask[2, 2], masked[3, 3, 1] = np.nan, False, True
    rows = rows_of(np.ma.masked_array(image, masked), (12, 14), mask=mask).reshape(CUBE.shape)
    found = set(map(tuple, np.argwhere(np.isnan(rows)).tolist()))
    assert found == {(1, 1, 0), (2, 2, 0), (2, 2, 1), (2, 2, 2), (3, 3, 1)}


@pytest.mark.parametrize(
    ("dtype", "value"), [("int16", -9999), ("float32", -9999), ("float32", -3.4028234663852886e38)]
)
def test_single_channels_with_the_value_that_the_file_declares_are_unknown(tmp_path, dtype, value):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    image = np.where(HOLES, value, 100 * CUBE).astype(dtype)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=image).attrs["_FillValue"] = value
    rows, expected = rows_of(tmp_path / "x.h5"), rows_of(image, mask=~HOLES)
    np.testing.assert_array_equal(rows, expected)


def test_a_declared_value_with_more_digits_than_the_pixels_is_recognised(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        stored = file.create_dataset("x", data=np.where(HOLES, 0.1, 1 + CUBE).astype(np.float32))
        stored.attrs["_FillValue"] = 0.1
    assert np.isnan(rows_of(tmp_path / "x.h5", (12, 14))).sum() == HOLES.sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_patch_that_is_constant_where_it_is_known_becomes_zero_there(dtype):
    image = np.where(HOLES, np.nan, 0.1).astype(dtype)
    image[6:9, 6:9] = np.nan
    image[7, 7, 0] = 5  # a single known entry
    rows = rows_of(image)
    at = np.isnan(rows).sum(axis=1) == 26
    assert at.any()
    assert not rows[at][~np.isnan(rows[at])].any()
    np.testing.assert_array_equal(rows_of(image, 1)[~np.isnan(rows_of(image, 1))], 0)


def test_without_anything_missing_patches_are_those_without_the_option():
    for image in (CUBE, CUBE[:, :, 0], (100 * CUBE).astype(np.uint8)):
        plain = ImagePatches(image, 3)
        rows, rounding = plain.rows(np.arange(plain.shape[0])), 8 * np.finfo(plain.dtype).eps
        np.testing.assert_allclose(rows_of(image), rows, rtol=rounding, atol=rounding)


@pytest.mark.parametrize(
    "kind", [DictionaryLearning, NMF], ids=["dictionary learning", "NMF, no penalty"]
)
def test_a_fit_learns_from_known_entries_and_imputes_the_others(kind):
    image = np.where(HOLES, np.nan, CUBE)
    patches = ImagePatches(image, 3, center=False, scale=False, no_data="missing")
    model = kind(4, missing="nan", n_epochs=3, random_state=0)
    rows = patches.rows(np.arange(patches.shape[0]))
    np.testing.assert_array_equal(model.fit(patches).components_, model.fit(rows).components_)
    filled, known = model.impute(patches), ~np.isnan(rows)
    np.testing.assert_array_equal(filled[known], rows[known])
    assert np.isfinite(filled).all()
    nothing = ~known.any(axis=1)
    assert nothing.any()
    assert not model.transform(patches)[nothing].any()
    assert np.isfinite(model.objective(patches))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def test_a_model_that_takes_nan_as_an_error_names_the_option(device):
    patches = ImagePatches(CUBE, 3, mask=~HOLES, no_data="missing")
    model = DictionaryLearning(4, device=device, random_state=0)
    for call in (model.fit, model.partial_fit, lambda X: model.fit(CUBE[0], validation=X)):
        with pytest.raises(ParameterError, match="missing must be 'nan' for patches with no_data"):
            call(patches)


@pytest.mark.parametrize("center", [False, True])
def test_infinity_is_an_error_and_not_unknown(center):
    image = np.where(HOLES, np.nan, CUBE)
    image[6, 6] = np.inf
    patches = ImagePatches(image, 3, center=center, no_data="missing")
    with pytest.raises(NotFiniteError, match="infinity"):
        DictionaryLearning(4, missing="nan", random_state=0).fit(patches)


def test_large_pixels_of_single_precision_do_not_overflow():
    image = np.where(HOLES, np.nan, CUBE)
    large = rows_of((image * 1e25).astype(np.float32))
    np.testing.assert_allclose(large, rows_of(image), atol=1e-6)


def test_a_saved_model_knows_that_pixels_were_missing(tmp_path):
    np.save(tmp_path / "image.npy", np.where(HOLES, np.nan, CUBE))
    np.save(tmp_path / "mask.npy", ~HOLES)
    patches = ImagePatches(tmp_path / "image.npy", 3, mask=tmp_path / "mask.npy", no_data="missing")
    model = DictionaryLearning(4, missing="nan", n_epochs=1, random_state=0).fit(patches)
    model.save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    assert loaded.patches_ == patches.geometry
    assert loaded.patches_["no_data"] == "missing"
    np.testing.assert_array_equal(loaded.impute(patches), model.impute(patches))


def test_what_cannot_say_no_data_is_an_error(tmp_path):
    with pytest.raises(ParameterError, match="no_data must be a number or 'missing', got 'none'"):
        ImagePatches(CUBE, 3, no_data="none")
    with pytest.raises(ParameterError, match=r"shape \(12, 14\), got"):
        ImagePatches(CUBE, 3, mask=HOLES)
    with pytest.raises(ParameterError, match=r"shape \(12, 14\) or \(12, 14, 3\), got"):
        ImagePatches(CUBE, 3, mask=HOLES[:5], no_data="missing")
    np.save(tmp_path / "mask.npy", CUBE)
    with pytest.raises(FileRequestError, match=r"shape \(12, 14\) or \(12, 14, 3\) in"):
        ImagePatches(CUBE, 3, mask=tmp_path / "mask.npy", no_data="missing")
