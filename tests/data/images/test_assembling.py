"""Patches put together to images: values, coverage, kinds of files, georeferencing, errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import ImagePatches
from somf.data.images import assembling
from somf.errors import OutputExistsError, ParameterError

RNG = np.random.default_rng(0)
SHAPES = {
    "image": ((11, 13), 4, 1),
    "cube": ((11, 13, 3), (3, 5), (2, 3)),
    "volume": ((6, 7, 8), (2, 3, 4), 1),
    "volume with channels": ((6, 7, 8, 2), (2, 3, 4), (1, 2, 2)),
}


def codes_and_atoms(patches, k=5):
    return RNG.standard_normal((patches.shape[0], k)), RNG.standard_normal((k, patches.shape[1]))


def plain_reconstruction(image, patches, codes, atoms):
    """Return the image that patches make, and how many cover a pixel; one patch at a time."""
    total, count = np.zeros(image.shape), np.zeros(image.shape)
    for row, corner in zip(codes @ atoms, patches.positions, strict=True):
        at = tuple(
            slice(c, c + n) for c, n in zip(corner, patches.patch_shape[: len(corner)], strict=True)
        )
        patch = image[at].astype(float)
        mean = patch.mean() if patches.center else 0
        norm = np.linalg.norm(patch - mean) if patches.scale else 1
        total[at] += row.reshape(patches.patch_shape) * norm + mean
        count[at] += 1
    return total, count


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, False), (True, False)])
def test_a_pixel_is_the_mean_of_the_patches_that_cover_it(kind, center, scale, monkeypatch):
    monkeypatch.setattr(assembling, "BAND_ENTRIES", 60)  # several bands, each of several chunks
    monkeypatch.setattr(assembling, "CHUNK_ENTRIES", 200)
    shape, size, stride = SHAPES[kind]
    image = RNG.random(shape)
    patches = ImagePatches(image, size, stride=stride, center=center, scale=scale)
    codes, atoms = codes_and_atoms(patches)
    total, count = plain_reconstruction(image, patches, codes, atoms)
    expected = np.where(count > 0, total / np.maximum(count, 1), image)
    np.testing.assert_allclose(patches.reconstruct(codes, atoms), expected, atol=1e-12)
    nothing = patches.reconstruct(codes, atoms, fill=np.nan)
    np.testing.assert_array_equal(np.isnan(nothing), count == 0)


def test_exact_codes_give_the_image_back_also_around_pixels_without_data():
    image = RNG.random((12, 14)).astype(np.float32)
    image[5, 6] = -1
    patches = ImagePatches(image, 3, no_data=-1)
    rows = patches.rows(np.arange(patches.shape[0]))
    again = patches.reconstruct(rows, np.eye(9, dtype=np.float32))
    assert again.dtype == np.float32
    np.testing.assert_allclose(again, image, atol=1e-6)  # the pixel without data stays what it is


def test_codes_may_be_sparse_or_in_a_file(tmp_path):
    patches = ImagePatches(RNG.random((9, 10)), 3)
    codes, atoms = codes_and_atoms(patches)
    codes[codes < 0.5] = 0
    expected = patches.reconstruct(codes, atoms)
    np.save(tmp_path / "codes.npy", codes)
    sp.save_npz(tmp_path / "codes.npz", sp.csr_array(codes))
    for given in (sp.csr_array(codes), tmp_path / "codes.npy", str(tmp_path / "codes.npz")):
        np.testing.assert_allclose(patches.reconstruct(given, atoms), expected, atol=1e-12)


def test_several_images_of_different_sizes_are_each_put_together(tmp_path):
    images = [RNG.random((9, 10)), RNG.random((12, 7)), RNG.random((8, 8))]
    patches = ImagePatches(images, 3)
    rows = patches.rows(np.arange(patches.shape[0]))
    alone = [ImagePatches(image, 3) for image in images]
    each = [part.rows(np.arange(part.shape[0])) for part in alone]
    np.testing.assert_array_equal(rows, np.concatenate(each))
    ids = RNG.permutation(patches.shape[0])
    np.testing.assert_array_equal(patches.rows(ids), rows[ids])
    outs = [tmp_path / f"{i}.npy" for i in range(3)]
    again = patches.reconstruct(rows, np.eye(9), out=outs)
    for image, found, out in zip(images, again, outs, strict=True):
        np.testing.assert_allclose(found, image, atol=1e-12)
        np.testing.assert_array_equal(np.load(out), found)
    assert [m.shape for m in patches.map(rows[:, 0])] == [(7, 8), (10, 5), (6, 6)]
    with pytest.raises(ParameterError, match="out must be a list with one for each of the 3"):
        patches.reconstruct(rows, np.eye(9), out=outs[0])


@pytest.mark.parametrize("kind", [".npy", ".zarr", ".tif", ".hdr"])
@pytest.mark.parametrize("channels", [(), (5,)], ids=["image", "cube"])
def test_a_file_of_any_kind_holds_what_an_array_would(tmp_path, kind, channels):
    pytest.importorskip("tifffile", reason="files of images come with the extra 'images'")
    image = RNG.random((9, 10, *channels)).astype(np.float32)
    patches = ImagePatches(image, 3)
    codes, atoms = codes_and_atoms(patches)
    expected = patches.reconstruct(codes, atoms)
    path = tmp_path / f"image{kind}"
    found = patches.reconstruct(codes, atoms, out=path)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(np.reshape(found, image.shape), expected)
    reread = ImagePatches(path, 3, center=False, scale=False)
    np.testing.assert_array_equal(reread.rows(np.arange(2))[0], expected[:3, :3].ravel())
    with pytest.raises(OutputExistsError, match="out must not exist yet"):
        patches.reconstruct(codes, atoms, out=path)
    assert not list(tmp_path.glob("*.part"))


def test_a_volume_is_written_to_a_stack_and_read_from_it(tmp_path):
    pytest.importorskip("tifffile", reason="TIFF comes with the extra 'images'")
    volume = RNG.random((6, 7, 8)).astype(np.float32)
    patches = ImagePatches(volume, (2, 3, 4))
    rows = patches.rows(np.arange(patches.shape[0]))
    found = patches.reconstruct(rows, np.eye(24, dtype=np.float32), out=tmp_path / "stack.tif")
    np.testing.assert_allclose(found, volume, atol=1e-5)
    reread = ImagePatches(tmp_path / "stack.tif", (2, 3, 4))
    np.testing.assert_allclose(reread.rows(np.arange(3)), rows[:3], atol=1e-5)
    assert patches.map(rows).shape == (5, 5, 5, 24)


def test_georeferencing_of_a_tiff_is_kept(tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="TIFF comes with the extra 'images'")
    image = RNG.integers(0, 1000, (9, 10, 4)).astype(np.uint16)
    tags = [
        (33550, "d", 3, (30.0, 30.0, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, 5e5, 4e6, 0.0), True),
        (34735, "H", 4, (1, 1, 0, 0), True),
        (42113, "s", 0, "0", True),
    ]
    path = tmp_path / "scene.tif"
    tifffile.imwrite(path, image, planarconfig="contig", photometric="minisblack", extratags=tags)
    patches = ImagePatches(path, 3)
    codes, atoms = codes_and_atoms(patches)
    patches.reconstruct(codes, atoms, out=tmp_path / "again.tif")
    with tifffile.TiffFile(tmp_path / "again.tif") as file:
        kept = file.pages[0].tags
        assert kept[33922].value == (0.0, 0.0, 0.0, 5e5, 4e6, 0.0)
        assert kept[33550].value == (30.0, 30.0, 0.0)
        assert kept[42113].value == "0"


def test_map_info_and_wavelengths_of_an_envi_image_are_kept(tmp_path):
    envi = pytest.importorskip("spectral.io.envi", reason="ENVI comes with the extra 'images'")
    about = {"wavelength": ["400.0", "500.0"], "map info": ["UTM", "1", "1", "5e5", "4e6"]}
    image = RNG.random((9, 10, 2)).astype(np.float32)
    envi.save_image(str(tmp_path / "scene.hdr"), image, metadata=about)
    patches = ImagePatches(tmp_path / "scene.hdr", 1, center=False, scale=False)
    found = patches.reconstruct(
        image.reshape(-1, 2), np.eye(2, dtype=np.float32), out=tmp_path / "again.hdr"
    )
    np.testing.assert_array_equal(found, image)
    kept = envi.read_envi_header(str(tmp_path / "again.hdr"))
    assert (kept["wavelength"], kept["map info"]) == (about["wavelength"], about["map info"])


def test_integers_are_rounded_and_clipped(tmp_path):
    pil = pytest.importorskip("PIL.Image", reason="PNG comes with the extra 'images'")
    image = RNG.integers(0, 256, (6, 7, 3)).astype(np.uint8)
    patches = ImagePatches(image, 1, center=False, scale=False)
    codes = image.reshape(-1, 3) * 1.5 - 60.6
    expected = np.clip(np.rint(image * 1.5 - 60.6), 0, 255)
    patches.reconstruct(codes, np.eye(3), out=tmp_path / "image.png")
    np.testing.assert_array_equal(np.array(pil.open(tmp_path / "image.png")), expected)
    assert patches.reconstruct(codes, np.eye(3)).dtype == np.float32
    given = np.empty((6, 7, 3), dtype=np.int16)
    assert patches.reconstruct(codes, np.eye(3), out=given) is given
    np.testing.assert_array_equal(given, np.rint(image * 1.5 - 60.6))


def test_a_residual_map_has_the_distance_of_every_pixel_from_its_reconstruction():
    image = RNG.random((9, 10, 3))
    image[4, 4, 1] = np.nan
    patches = ImagePatches(image, 3, stride=2, no_data="missing")
    codes, atoms = codes_and_atoms(patches)
    error = (image - patches.reconstruct(codes, atoms))[:, :-1]
    expected = np.sqrt(np.nanmean(error**2, axis=2))
    found = patches.residual_map(codes, atoms)
    np.testing.assert_allclose(found[:, :-1], expected, rtol=1e-5)
    assert np.isnan(found[:, -1]).all()  # the stride does not reach the last column


def test_codes_of_pixels_become_maps():
    scene, mask = RNG.random((5, 6, 4)), np.ones((5, 6), dtype=bool)
    mask[2, 3] = False
    patches = ImagePatches(scene, 1, mask=mask, center=False, scale=False)
    codes = scene[mask][:, :2]
    maps = patches.map(sp.csr_array(codes))
    np.testing.assert_array_equal(maps[mask], codes)
    assert np.isnan(maps[2, 3]).all()
    np.testing.assert_array_equal(patches.map(codes[:, 1]), maps[..., 1])
    with pytest.raises(ParameterError, match="values must have a row for each of the 29 patches"):
        patches.map(codes[1:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": np.ones((5, 5))}, r"codes must have shape \(56, 5\)"),
        ({"components": np.ones((5, 8))}, r"components must have shape \(n_components, 9\)"),
        ({"out": "image.bmp"}, "out must be a file of kind .npy, .zarr, .tif"),
        ({"out": "image.png"}, "out must not be .png for float64"),
        ({"out": np.empty((3, 3))}, r"out must be of the shape of the image, \(9, 10\)"),
        ({"fill": "zero"}, "fill must be a number or 'original'"),
        ({"fill": np.nan, "dtype": "uint8"}, "fill must be finite for integers"),
        ({"dtype": "complex64"}, "dtype must be a real type"),
        ({"dtype": "float32", "out": np.empty((9, 10))}, "dtype must be that of out, float64"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_arguments_get_a_clear_error(change, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("PIL", reason="PNG comes with the extra 'images'")
    patches = ImagePatches(RNG.random((9, 10)), 3)
    codes, atoms = codes_and_atoms(patches)
    with pytest.raises(ParameterError, match=message):
        patches.reconstruct(**({"codes": codes, "components": atoms} | change))


def test_images_of_other_channels_are_refused_by_name(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((8, 8, 3)))
    np.save(tmp_path / "b.npy", np.ones((8, 8)))
    with pytest.raises(ParameterError, match=r"image must have the channels .* got 1 in '.*b.npy'"):
        ImagePatches(str(tmp_path / "*.npy"), 3)
    with pytest.raises(ParameterError, match="patch_size must fit into the image") as caught:
        ImagePatches([np.ones((8, 8)), np.ones((2, 8))], 3)
    assert caught.value.__notes__ == ["Image 1."]
