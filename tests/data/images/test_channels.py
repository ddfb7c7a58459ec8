"""Wavelengths and names of channels, from files and from arrays of other libraries."""

import numpy as np
import pytest

import somf
from somf import DictionaryLearning, ImagePatches
from somf.data import Channels, open_source
from somf.data.channels import channels_from
from tests.helpers.files import write_zarr

CUBE = np.random.default_rng(0).random((9, 8, 5), dtype=np.float32)
WAVELENGTHS = (450.5, 550.0, 650.0, 750.0, 2500.0)

HEADER = """ENVI
samples = 8
lines = 9
bands = 5
header offset = 0
data type = 4
interleave = bip
byte order = 0
wavelength units = Nanometers
wavelength = {450.5, 550, 650, 750, 2500}
"""


@pytest.fixture
def envi(tmp_path):
    pytest.importorskip("spectral", reason="ENVI needs somf[images]")
    CUBE.tofile(tmp_path / "scene.img")
    (tmp_path / "scene.hdr").write_text(HEADER)
    return tmp_path / "scene.hdr"


def test_wavelengths_of_an_envi_header_are_kept_in_the_model(envi, tmp_path):
    patches = ImagePatches(envi, 3)
    expected = Channels(WAVELENGTHS, "nm")
    assert patches.channels == expected
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(patches)
    assert model.channels_ == expected
    assert not hasattr(model, "feature_names_in_")
    model.save(tmp_path / "a.somf")
    assert somf.load(tmp_path / "a.somf").channels_ == expected


@pytest.mark.parametrize(
    ("old", "new", "channels"),
    [
        ("Nanometers", "Micrometers", Channels(WAVELENGTHS, "µm")),
        ("wavelength units = Nanometers\n", "", Channels(WAVELENGTHS)),
        ("{450.5, 550, 650, 750, 2500}", "{1, 2, 3}", None),
        ("{450.5, 550, 650, 750, 2500}", "{1, 2, 3, 4, red}", None),
        (
            "wavelength = {450.5, 550, 650, 750, 2500}",
            "band names = {a, b, c, d, e}",
            Channels(names=tuple("abcde")),
        ),
    ],
    ids=["micrometers", "no unit", "too few", "not numbers", "names"],
)
def test_what_an_envi_header_may_say_of_its_channels(envi, old, new, channels):
    envi.write_text(HEADER.replace(old, new))
    assert ImagePatches(envi, 3).channels == channels


def test_coordinates_of_netcdf_in_hdf5_are_channels(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    with h5py.File(tmp_path / "scene.h5", "w") as file:
        scene = file.create_dataset("scene", data=CUBE)
        file["bands"] = np.array(WAVELENGTHS)
        file["bands"].attrs["units"] = "nm"
        file["bands"].make_scale("bands")
        scene.dims[2].attach_scale(file["bands"])
        placeholder = file.create_dataset("x", data=np.zeros(8))
        placeholder.make_scale("This is a netCDF dimension but not a netCDF variable.         8")
        scene.dims[1].attach_scale(placeholder)
    patches = ImagePatches(tmp_path / "scene.h5", 3, dataset="scene")
    assert patches.channels == Channels(WAVELENGTHS, "nm", "bands")


def test_a_cube_of_netcdf_is_unpacked_and_has_the_wavelengths_of_its_product(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    packed = np.round(1000 * CUBE).astype(np.int16)
    packed[0, 0, 0] = -1
    with h5py.File(tmp_path / "scene.nc", "w") as file:
        scene = file.create_dataset("reflectance", data=packed)
        scene.attrs["scale_factor"], scene.attrs["_FillValue"] = 0.001, np.int16(-1)
        file["bands/wavelengths"] = np.array(WAVELENGTHS)
        file["bands/wavelengths"].attrs["units"] = "nm"
        file["bands/fwhm"] = np.ones(5)
    patches = ImagePatches(tmp_path / "scene.nc", 3)
    assert patches.channels == Channels(WAVELENGTHS, "nm", "wavelengths")
    assert patches.shape[0] == 41  # one has a pixel without data
    np.testing.assert_allclose(patches.images[0][1:], CUBE[1:], atol=0.001)


def test_a_matrix_of_netcdf_has_its_wavelengths(tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray comes with the extra 'test'")
    along = ("wavelength", list(WAVELENGTHS), {"units": "nm"})
    X = xarray.DataArray(CUBE[0], dims=("pixel", "wavelength"), coords={"wavelength": along})
    X.to_dataset(name="spectra").to_netcdf(tmp_path / "a.nc", engine="scipy")
    source = open_source(tmp_path / "a.nc")
    assert source.channels == Channels(WAVELENGTHS, "nm")
    assert source.feature_names[0] == "450.5 nm"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_coordinates_that_xarray_writes_beside_a_zarr_array_are_channels(tmp_path, zarr_format):
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    group = zarr.create_group(tmp_path / "scene.zarr", zarr_format=zarr_format)
    names = ["y", "x", "wavelength"]
    options = {"dimension_names": names} if zarr_format == 3 else {}
    scene = group.create_array("scene", shape=CUBE.shape, dtype=CUBE.dtype, **options)
    scene[:] = CUBE
    if zarr_format == 2:
        scene.attrs["_ARRAY_DIMENSIONS"] = names
    along = group.create_array("wavelength", shape=(5,), dtype=float)
    along[:] = WAVELENGTHS
    along.attrs["units"] = "nm"
    patches = ImagePatches(tmp_path / "scene.zarr", 3)
    assert patches.channels == Channels(WAVELENGTHS, "nm")
    write_zarr(tmp_path / "plain.zarr", CUBE, chunks=(4, 4, 5))
    assert ImagePatches(tmp_path / "plain.zarr", 3).channels is None


def test_metadata_of_a_geotiff_are_channels(tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs somf[images]")
    items = "".join(
        f'<Item name="wavelength" sample="{i}">{value}</Item>'
        for i, value in enumerate(WAVELENGTHS)
    )
    text = f'<GDALMetadata>{items}<Item name="wavelength_units" sample="0">nm</Item></GDALMetadata>'
    tag = (42112, "s", 0, text, True)
    tifffile.imwrite(tmp_path / "scene.tif", CUBE, planarconfig="contig", extratags=[tag])
    assert ImagePatches(tmp_path / "scene.tif", 3).channels == Channels(WAVELENGTHS, "nm")


def test_cubes_of_xarray_are_cut_into_patches_whatever_the_order_of_dimensions():
    xarray = pytest.importorskip("xarray", reason="xarray comes with the extra 'test'")
    along = ("band", list(WAVELENGTHS), {"units": "nm", "long_name": "wavelength"})
    cube = xarray.DataArray(CUBE, dims=("y", "x", "band"), coords={"band": along})
    everything = np.arange(42)
    expected = ImagePatches(CUBE, 3).rows(everything)
    for image in (cube, cube.transpose("band", "y", "x")):
        patches = ImagePatches(image, 3)
        np.testing.assert_allclose(patches.rows(everything), expected, rtol=1e-5, atol=1e-6)
        assert patches.channels == Channels(WAVELENGTHS, "nm")
        assert np.shares_memory(patches.images[0], CUBE)
    spoiled = cube.copy()
    spoiled[0, 0, 0] = np.nan
    spoiled.encoding["_FillValue"] = -999.0  # which xarray has replaced by NaN
    assert ImagePatches(spoiled, 3).shape[0] == 41


def test_a_cube_of_dask_is_computed_once_and_cut_into_patches():
    dask_array = pytest.importorskip("dask.array", reason="Dask comes with the extra 'dask'")
    n_computed = []

    def count(block):
        n_computed.append(block.shape)
        return block

    cube = dask_array.from_array(CUBE, chunks=(5, 4, 3)).map_blocks(count, meta=CUBE[:0])
    n_computed.clear()
    rows = ImagePatches(cube, 3).rows(np.arange(42))
    np.testing.assert_array_equal(rows, ImagePatches(CUBE, 3).rows(np.arange(42)))
    assert len(n_computed) == 2 * 2 * 2


def test_texts_that_are_numbers_of_one_unit_are_wavelengths():
    assert channels_from(["450.5 nm", "1e3 nm"]) == Channels((450.5, 1000.0), "nm")
    assert channels_from([" 1", "2.5 "]) == Channels((1.0, 2.5))
    assert channels_from(["1 nm", "2 um"]).names == ("1 nm", "2 um")
    assert channels_from(["red", "2"]).names == ("red", "2")
