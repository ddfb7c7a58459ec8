"""Images of every kind of file, and files that are damaged or of another kind."""

import sys

import numpy as np
import pytest

from somf import DictionaryLearning, ImagePatches
from somf.data.images.files import open_image
from somf.errors import (
    DamagedFileError,
    FileRequestError,
    MissingFileError,
    NotFiniteError,
    SeveralDatasetsError,
    UnknownKindError,
)
from tests.helpers.files import write_hdf5, write_zarr

CUBE = np.random.default_rng(0).integers(1, 60_000, (9, 11, 4), dtype=np.uint16)
CHANNELS = {"photometric": "minisblack", "planarconfig": "contig"}
PHOTO = np.random.default_rng(0).integers(0, 255, (9, 11, 3), dtype=np.uint8)


def write_envi(path, image, interleave="bip", **metadata):
    envi = pytest.importorskip("spectral.io.envi", reason="ENVI needs somf[images]")
    envi.save_image(str(path), image, interleave=interleave, metadata=metadata, ext="img")
    return path


def write_tiff(path, image, **options):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs somf[images]")
    tifffile.imwrite(path, image, **options)
    return path


def write_photo(path, image):
    module = pytest.importorskip("PIL.Image", reason="PNG and JPEG need somf[images]")
    module.fromarray(image).save(path)
    return path


def write_mat(path, **variables):
    from scipy.io import savemat

    savemat(path, variables, do_compression=True)
    return path


def write_npy(path, image):
    np.save(path, image)
    return path


def planar(path):
    return write_tiff(
        path / "x.tif", np.moveaxis(CUBE, 2, 0), planarconfig="separate", photometric="minisblack"
    )


@pytest.mark.parametrize(
    ("write", "expected", "is_mapped"),
    [
        (lambda at: write_npy(at / "x.npy", CUBE), CUBE, True),
        (lambda at: write_envi(at / "x.hdr", CUBE), CUBE, True),
        (lambda at: write_envi(at / "x.hdr", CUBE, "bsq"), CUBE, True),
        (lambda at: write_envi(at / "x.hdr", CUBE, "bil"), CUBE, True),
        (lambda at: write_tiff(at / "x.tif", CUBE, **CHANNELS), CUBE, True),
        (planar, CUBE, True),
        (lambda at: write_tiff(at / "x.tiff", CUBE[:, :, 0]), CUBE[:, :, 0], True),
        (lambda at: write_tiff(at / "x.tif", PHOTO, compression="zlib"), PHOTO, True),
        (lambda at: write_tiff(at / "x.tif", PHOTO, compression="lzw", tile=(16, 16)), PHOTO, True),
        (lambda at: write_mat(at / "x.mat", scene=CUBE, line=np.ones((1, 4))), CUBE, False),
        (lambda at: write_hdf5(at / "x.h5", CUBE), CUBE, True),
        (lambda at: write_hdf5(at / "x.h5", CUBE.astype(">u2")), CUBE.astype(">u2"), True),
        (lambda at: write_hdf5(at / "x.he5", CUBE, chunks=(2, 3, 4)), CUBE, False),
        (lambda at: write_hdf5(at / "x.h5", CUBE, compression="gzip"), CUBE, False),
        (lambda at: write_zarr(at / "x.zarr", CUBE, chunks=(4, 5, 2)), CUBE, False),
        (lambda at: write_zarr(at / "x", CUBE[:, :, 0]), CUBE[:, :, 0], False),
        (lambda at: write_photo(at / "x.png", PHOTO), PHOTO, False),
        (lambda at: write_photo(at / "x.png", PHOTO[:, :, 1]), PHOTO[:, :, 1], False),
    ],
    ids=[
        "npy", "ENVI BIP", "ENVI BSQ", "ENVI BIL", "TIFF", "planar TIFF", "grey TIFF",
        "compressed TIFF", "tiled TIFF", "MATLAB", "HDF5", "big-endian HDF5", "chunked HDF5",
        "compressed HDF5", "Zarr", "grey Zarr", "PNG", "grey PNG",
    ],
)  # fmt: skip
def test_an_image_is_read_as_it_was_written(tmp_path, write, expected, is_mapped):
    path = write(tmp_path)
    image, no_data = open_image(path)
    np.testing.assert_array_equal(image, expected)
    assert image.dtype == expected.dtype
    assert no_data is None
    patches, same = ImagePatches(path, 3), ImagePatches(expected, 3)
    assert patches.is_in_memory != is_mapped
    everything = np.arange(patches.shape[0])
    np.testing.assert_array_equal(patches.rows(everything), same.rows(everything))


def test_a_jpeg_is_read_as_pixels(tmp_path):
    smooth = np.full((16, 24, 3), 77, dtype=np.uint8)
    image, _ = open_image(write_photo(tmp_path / "x.jpg", smooth))
    assert image.shape == smooth.shape
    np.testing.assert_allclose(image, smooth, atol=2)


def test_colours_of_a_palette_are_looked_up(tmp_path):
    module = pytest.importorskip("PIL.Image", reason="PNG and JPEG need somf[images]")
    few = np.repeat(PHOTO[:3, :1], 3, axis=1)
    module.fromarray(few).quantize(9).save(tmp_path / "x.png")
    assert open_image(tmp_path / "x.png")[0].shape == (3, 3, 3)


def test_a_cube_of_matlab_73_has_its_axes_in_the_right_order(tmp_path):
    h5py = pytest.importorskip("h5py", reason="MATLAB 7.3 needs somf[hdf5]")
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as file:
        file.create_dataset("scene", data=CUBE.T)
    with open(tmp_path / "x.mat", "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")
    np.testing.assert_array_equal(open_image(tmp_path / "x.mat")[0], CUBE)


def test_an_image_among_several_is_chosen_by_name(tmp_path):
    path = write_mat(tmp_path / "x.mat", scene=CUBE, truth=CUBE[:, :, 0])
    assert ImagePatches(path, 3, dataset="scene").patch_shape == (3, 3, 4)
    with pytest.raises(FileRequestError, match=r"dataset must be one of .*x\.mat', got 'sea'"):
        ImagePatches(path, 3, dataset="sea")
    with pytest.raises(FileRequestError, match=r"dataset must not be given for .*y\.npy'"):
        ImagePatches(write_npy(tmp_path / "y.npy", CUBE), 3, dataset="scene")


def test_a_mat_file_of_hdf5_needs_no_banner(tmp_path):
    h5py = pytest.importorskip("h5py", reason="MATLAB 7.3 needs somf[hdf5]")
    with h5py.File(tmp_path / "x.mat", "w") as file:
        file["scene"], file["truth"] = CUBE.T, CUBE[:, :, 0].T
    np.testing.assert_array_equal(open_image(tmp_path / "x.mat", "scene")[0], CUBE)


def test_a_blank_no_data_value_is_none(tmp_path):
    blank = [(42113, 2, 2, " ", True)]
    path = write_tiff(tmp_path / "x.tif", CUBE, **CHANNELS, extratags=blank)
    assert open_image(path)[1] is None


# Pixels without data


def test_the_no_data_value_of_a_file_is_used(tmp_path):
    image = CUBE.astype(np.float32)
    image[4, 5, 2] = -9999
    tiff = write_tiff(
        tmp_path / "x.tif",
        image,
        **CHANNELS,
        extratags=[(42113, 2, 6, "-9999", True)],
    )
    envi = write_envi(tmp_path / "x.hdr", image, **{"data ignore value": -9999})
    mask = np.ones((9, 11), dtype=bool)
    mask[4, 5] = False
    expected = ImagePatches(image, 3, mask=mask).positions
    for path in (tiff, envi):
        np.testing.assert_array_equal(ImagePatches(path, 3).positions, expected)
        np.testing.assert_array_equal(ImagePatches(path, 3, mask=mask).positions, expected)
        assert ImagePatches(path, 3, no_data=-1).shape[0] == 7 * 9


@pytest.mark.parametrize("value", [np.nan, -1.0, 0.0])
@pytest.mark.parametrize("image", [CUBE, CUBE[:, :, 0]], ids=["cube", "image"])
def test_pixels_without_data_are_left_out(value, image, monkeypatch):
    monkeypatch.setattr("somf.data.images.no_data.BAND_ENTRIES", 100)
    image = image.astype(float)
    image[0, 3] = image[8, 10] = value
    patches = ImagePatches(image, (2, 3), no_data=value)
    assert 8 * 9 - patches.shape[0] == 3 + 1
    assert np.isfinite(patches.rows(np.arange(patches.shape[0]))).all()


def test_nan_pixels_are_an_error_unless_they_are_declared(tmp_path):
    image = CUBE.astype(float)
    image[4, 4] = np.nan
    np.save(tmp_path / "x.npy", image)
    with pytest.raises(NotFiniteError, match="X must be finite, got NaN in row"):
        DictionaryLearning(3).fit(ImagePatches(tmp_path / "x.npy", 3))
    DictionaryLearning(3, random_state=0).fit(ImagePatches(tmp_path / "x.npy", 3, no_data=np.nan))


# Damaged and foreign files

WRITERS = {
    "x.npy": lambda at: write_npy(at, CUBE),
    "x.tif": lambda at: write_tiff(at, CUBE, **CHANNELS),
    "y.tif": lambda at: write_tiff(at, PHOTO, compression="zlib"),
    "x.mat": lambda at: write_mat(at, scene=CUBE),
    "x.png": lambda at: write_photo(at, PHOTO),
    "x.jpg": lambda at: write_photo(at, PHOTO),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_truncated_image_is_named(tmp_path, name, keep):
    path = WRITERS[name](tmp_path / name)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(DamagedFileError, match=f"{name}' is not an image of kind|is not a .npy"):
        open_image(path)


@pytest.mark.parametrize("name", [*WRITERS, "x.hdr"])
def test_a_foreign_file_is_named(tmp_path, name):
    WRITERS.get(name, lambda at: write_envi(at, CUBE))(tmp_path / name)  # skips what is not there
    (tmp_path / name).write_bytes(b"This is no image. " * 20)
    with pytest.raises(DamagedFileError, match=f"{name}' is not"):
        open_image(tmp_path / name)


def test_an_envi_header_that_promises_more_than_there_is_is_refused(tmp_path):
    path = write_envi(tmp_path / "x.hdr", CUBE)
    header = path.read_text()
    for wrong in ("lines = 90", "lines = 900000000000", "lines = -9", "lines = many"):
        path.write_text(header.replace("lines = 9", wrong))
        with pytest.raises(DamagedFileError, match=r"x\.hdr' is not"):
            open_image(path)
    path.write_text(header.replace("ENVI Standard", "ENVI Spectral Library"))
    with pytest.raises(DamagedFileError, match="it is a spectral library"):
        open_image(path)
    path.write_text(header)


def test_the_two_files_of_an_envi_image_are_not_taken_for_each_other(tmp_path):
    path = write_envi(tmp_path / "x.hdr", CUBE)
    with pytest.raises(UnknownKindError, match=r"Name its header instead, '.*x\.hdr'"):
        open_image(tmp_path / "x.img")
    (tmp_path / "x.img").unlink()
    with pytest.raises(
        MissingFileError, match=r"x\.hdr' is a header, and its data file is missing"
    ):
        open_image(path)


def test_a_picture_that_promises_more_than_it_holds_is_refused(tmp_path):
    path = write_photo(tmp_path / "x.png", PHOTO)
    content = bytearray(path.read_bytes())
    content[16:24] = (9000).to_bytes(4, "big") * 2  # width and height
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"x\.png' is"):
        open_image(path)


def test_a_mat_file_that_fills_the_memory_is_refused_by_the_size_of_its_numbers(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("somf.data.formats.checks.SMALL", 1)
    path = write_mat(tmp_path / "x.mat", scene=np.zeros((100, 100)))
    assert 100 * 100 < 64 * path.stat().st_size < 8 * 100 * 100
    with pytest.raises(DamagedFileError, match="80,000 bytes of data would be read into memory"):
        open_image(path)


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_a_file_without_an_image_is_named(tmp_path, kind):
    write = write_hdf5 if kind == "h5" else write_zarr
    path = write(tmp_path / f"x.{kind}", CUBE[0, 0])
    with pytest.raises(DamagedFileError, match=rf"x\.{kind}' .* image"):
        open_image(path)


def test_a_file_must_hold_one_image(tmp_path):
    with pytest.raises(SeveralDatasetsError, match=r"dataset must .*x\.mat'.* a, b"):
        open_image(write_mat(tmp_path / "x.mat", a=CUBE, b=CUBE))
    with pytest.raises(DamagedFileError, match="of shape"):
        open_image(write_npy(tmp_path / "x.npy", CUBE[0, 0]))
    with pytest.raises(DamagedFileError, match="complex128"):
        open_image(write_npy(tmp_path / "x.npy", CUBE * 1j))


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_a_large_chunked_image_is_unpacked_band_by_band_into_a_scratch_file(
    tmp_path, monkeypatch, kind
):
    write = write_hdf5 if kind == "h5" else write_zarr
    path = write(tmp_path / f"x.{kind}", CUBE, chunks=(2, 3, 4))
    monkeypatch.setattr("somf.data.images.files.BAND_BYTES", 1)
    monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 1)
    image, _ = open_image(path)
    assert isinstance(image, np.memmap)
    np.testing.assert_array_equal(image, CUBE)


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_the_fill_value_of_a_dataset_stands_for_no_data(tmp_path, kind):
    write = write_hdf5 if kind == "h5" else write_zarr
    path = write(tmp_path / f"x.{kind}", CUBE)
    if kind == "h5":
        import h5py

        with h5py.File(path, "r+") as file:
            file["group/X"].attrs["_FillValue"] = CUBE[:1, 0, 0]  # netCDF has arrays of one
    else:
        import zarr

        zarr.open_array(path).attrs["_FillValue"] = int(CUBE[0, 0, 0])
    assert open_image(path)[1] == CUBE[0, 0, 0]


def test_a_mask_may_be_a_file(tmp_path):
    mask = np.ones(CUBE.shape[:2], dtype=bool)
    mask[:4] = False
    path = write_npy(tmp_path / "mask.npy", mask)
    patches, same = ImagePatches(CUBE, 3, mask=path), ImagePatches(CUBE, 3, mask=mask)
    np.testing.assert_array_equal(patches.positions, same.positions)
    masks = [found.geometry["images"][0]["mask"] for found in (patches, same)]
    assert masks == [str(path), None]
    write_npy(tmp_path / "mask.npy", mask.astype(float))
    with pytest.raises(FileRequestError, match=r"mask must hold booleans .*mask\.npy.*float64"):
        ImagePatches(CUBE, 3, mask=path)


def test_unknown_kinds_and_missing_files_are_named(tmp_path):
    (tmp_path / "x.gif").write_bytes(b"")
    with pytest.raises(UnknownKindError, match=r"image must be .* \.npy.*got .*x\.gif"):
        ImagePatches(tmp_path / "x.gif", 3)
    with pytest.raises(MissingFileError, match=r"nowhere\.png"):
        ImagePatches(tmp_path / "nowhere.png", 3)


@pytest.mark.parametrize(("module", "name"), [("PIL.Image", "x.png"), ("tifffile", "x.tif")])
def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch, module, name):
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"somf\[images\]"):
        open_image(tmp_path / name)
