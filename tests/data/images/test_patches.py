"""Patches of images: geometry, masks, normalisation, errors."""

import numpy as np
import pytest

from somf import DictionaryLearning, ImagePatches
from somf.errors import NotFiniteError, ParameterError
from tests.helpers.source_contract import SourceContract

IMAGE = np.random.default_rng(0).random((20, 30))
CUBE = np.random.default_rng(0).random((20, 30, 5))


@pytest.mark.parametrize("image", [IMAGE, CUBE], ids=["image", "cube"])
@pytest.mark.parametrize(("size", "stride"), [(4, 1), ((3, 5), 2), ((20, 30), 1), (1, (7, 11))])
def test_patches_are_windows_of_the_image(image, size, stride):
    patches = ImagePatches(image, size, stride=stride, center=False, scale=False)
    height, width = patches.patch_shape[:2]
    rows = patches.rows(np.arange(patches.shape[0]))
    for row, (top, left) in zip(rows, patches.positions, strict=True):
        window = image[top : top + height, left : left + width]
        np.testing.assert_array_equal(row.reshape(patches.patch_shape), window)
    step = np.broadcast_to(stride, 2)
    expected = len(range(0, 21 - height, step[0])) * len(range(0, 31 - width, step[1]))
    assert patches.shape == (expected, window.size)


def test_normalised_patches_have_no_mean_and_unit_norm():
    rows = ImagePatches(CUBE, 4).rows(np.arange(50))
    np.testing.assert_allclose(rows.mean(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [1.0, 0.1, 1e6 / 3])
def test_a_constant_patch_becomes_zero(value, dtype):
    patches = ImagePatches(np.full((9, 9, 20), value, dtype=dtype), 8)
    assert not patches.rows(np.arange(4)).any()


def test_patches_with_missing_pixels_are_left_out():
    mask = np.ones((20, 30), dtype=bool)
    mask[10, 15] = False
    patches = ImagePatches(IMAGE, (4, 3), mask=mask)
    complete = ImagePatches(IMAGE, (4, 3))
    assert complete.shape[0] - patches.shape[0] == 4 * 3
    for top, left in patches.positions:
        assert mask[top : top + 4, left : left + 3].all()


@pytest.mark.parametrize("image", [IMAGE, CUBE], ids=["image", "cube"])
def test_masked_pixels_are_no_data(image):
    masked = np.ma.masked_array(image)
    masked[(10, 15, 2)[: image.ndim]] = np.ma.masked
    mask = np.ones((20, 30), dtype=bool)
    mask[3, 4] = False
    patches = ImagePatches(masked, (4, 3), mask=mask)
    mask[10, 15] = False
    expected = ImagePatches(image, (4, 3), mask=mask)
    np.testing.assert_array_equal(patches.positions, expected.positions)
    np.testing.assert_array_equal(patches.rows(np.arange(9)), expected.rows(np.arange(9)))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("uint8", "float32"),
        ("int16", "float32"),
        (">i2", "float32"),
        (">u4", "float64"),
        ("float16", "float32"),
        ("float32", "float32"),
        (">f4", "float32"),
        ("float64", "float64"),
    ],
)
def test_normalised_patches_are_floats_of_sufficient_precision(given, expected):
    image = (CUBE * 200).astype(given)
    patches = ImagePatches(image, 4)
    assert patches.dtype == expected
    rows = patches.rows(np.arange(3))
    assert rows.dtype == expected
    wanted = ImagePatches(image.astype(float), 4).rows(np.arange(3))
    np.testing.assert_allclose(rows, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.ones(5), 2), "image must be an array of shape"),
        (([[1.0, 2.0], [3.0, 4.0]], 2), "image must be an array of shape"),
        ((np.ones((5, 5)) * 1j, 2), "image must be real"),
        ((np.ones((5, 5)), 6), "patch_size must fit into the image"),
        ((np.ones((5, 5)), 0), "patch_size must be one, two or three integers of at least 1"),
        ((np.ones((5, 5)), 2.5), "patch_size must be one, two or three integers .* got 2.5"),
        ((np.ones((5, 5)), None), "patch_size must be one, two or three integers .* got None"),
        ((np.ones((5, 5), dtype=np.longdouble), 2), "image must be float64 at most"),
        ((np.ones((5, 5)), (1, 2, 3)), r"image must be an array of shape \(depth, height, width\)"),
        ((np.ones((5, 5)), (1, 2, 3, 4)), "patch_size must be one, two or three integers"),
        ((np.ones((5, 5, 5, 5)), 2), "give patch_size three numbers"),
        (([], 2), "image must be an image, or a list of at least one"),
        ((np.ones((5, 5)), 2, 0), "stride must be one or two integers of at least 1"),
        ((np.ones((5, 5)), 2, 1, np.ones((5, 5))), "mask must be a boolean array"),
        ((np.ones((5, 5)), 2, 1, np.ones((4, 5), bool)), r"mask must be a boolean array of shape"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_arguments_get_a_clear_error(args, message):
    with pytest.raises(ParameterError, match=message):
        ImagePatches(*args)


def test_an_image_without_a_complete_patch_is_refused_by_fit():

    patches = ImagePatches(IMAGE, 4, mask=np.zeros((20, 30), dtype=bool))
    with pytest.raises(ValueError, match="0 sample"):
        DictionaryLearning(3).fit(patches)


class TestImagePatches(SourceContract):
    def image(self, folder, image):
        return image

    def make(self, folder):
        image = np.random.default_rng(0).random((6, 7, 2))
        patches = np.array(
            [image[i : i + 3, j : j + 2].ravel() for i in range(4) for j in range(6)]
        )
        patches -= patches.mean(axis=1, keepdims=True)
        patches /= np.linalg.norm(patches, axis=1, keepdims=True)
        return ImagePatches(self.image(folder, image), (3, 2)), patches


class TestPatchesOfAFile(TestImagePatches):
    def image(self, folder, image):
        np.save(folder / "image.npy", image)
        return folder / "image.npy"


class TestPatchesOfSeveralFiles(SourceContract):
    def make(self, folder):
        rng = np.random.default_rng(0)
        images = [rng.random((5, 5)), rng.random((3, 6))]
        for i, image in enumerate(images):
            np.save(folder / f"{i}.npy", image)
        patches = ImagePatches(str(folder / "*.npy"), 2, center=False, scale=False)
        windows = [np.lib.stride_tricks.sliding_window_view(image, (2, 2)) for image in images]
        return patches, np.concatenate([window.reshape(-1, 4) for window in windows])


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("value", [np.inf, 1e25], ids=["infinite", "too large for its square"])
def test_a_pixel_that_cannot_be_normalised_is_an_error_and_not_a_patch_of_zeros(center, value):
    image = np.random.default_rng(0).random((12, 12)).astype(np.float32)
    image[5, 6] = value
    patches = ImagePatches(image, 4, center=center)
    with pytest.raises(NotFiniteError):
        DictionaryLearning(3, n_epochs=1).fit(patches)
