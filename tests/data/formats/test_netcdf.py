"""NetCDF files, good and damaged ones."""

import numpy as np
import pytest
from scipy.io import netcdf_file

from somf import NMF, ImagePatches
from somf.data import as_source, open_source
from somf.data.readahead.memory_map import is_mapped
from somf.errors import (
    DamagedFileError,
    NotAMatrixError,
    NotFiniteError,
    SeveralDatasetsError,
)
from tests.helpers.files import fails, is_refused
from tests.helpers.mutants import damaged
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


def write_netcdf(path, X, n_records=None, attributes=(), name="X"):
    """Write a variable with a coordinate of its features; return the path."""
    with netcdf_file(path, "w") as file:
        file.createDimension("sample", None if n_records else X.shape[0])
        file.createDimension("band", X.shape[1])
        if n_records:
            file.createVariable("time", "f8", ("sample",))[:] = np.arange(len(X))
        file.createVariable("band", "i4", ("band",))[:] = 400 + 10 * np.arange(X.shape[1])
        variable = file.createVariable(name, X.dtype.newbyteorder(">"), ("sample", "band"))
        variable[:] = X
        for key, value in dict(attributes).items():
            setattr(variable, key, value)
    return path


class TestNetcdf3File(SourceContract):
    def make(self, folder):
        source = as_source(write_netcdf(folder / "X.nc", matrix()))
        assert is_mapped(source.X)
        assert source.feature_names == [str(400 + 10 * i) for i in range(7)]
        return source, matrix()


class TestNetcdf3FileOfRecords(SourceContract):
    def make(self, folder):
        X = matrix().astype(np.float32)
        return as_source(write_netcdf(folder / "X.nc", X, n_records=23)), X


class TestPackedNetcdf3File(SourceContract):
    def make(self, folder):
        stored = (matrix() * 100).round().astype(np.int16)
        packing = {"scale_factor": 0.01, "add_offset": 0.5}
        source = as_source(write_netcdf(folder / "X.nc", stored, attributes=packing))
        assert source.dtype == np.float32
        return source, (0.01 * stored + 0.5).astype(np.float32)


def write_cube(path, cube, **attributes):
    """Write an image whose channels have wavelengths; return the path."""
    with netcdf_file(path, "w") as file:
        for name, size in zip(("y", "x", "band"), cube.shape, strict=True):
            file.createDimension(name, size)
        band = file.createVariable("band", "f4", ("band",))
        band[:], band.units = 400 + 10 * np.arange(cube.shape[2]), "nm"
        variable = file.createVariable("cube", cube.dtype.newbyteorder(">"), ("y", "x", "band"))
        variable[:] = cube
        for key, value in attributes.items():
            setattr(variable, key, value)
    return path


def test_patches_are_cut_out_of_a_cube_with_its_wavelengths(tmp_path):
    cube = np.random.default_rng(0).random((6, 5, 4)).astype(np.float32)
    patches = ImagePatches(write_cube(tmp_path / "X.nc", cube), 1, center=False, scale=False)
    assert not patches.is_in_memory
    assert patches.channels.values == (400, 410, 420, 430)
    np.testing.assert_array_equal(patches.rows(np.arange(30)), cube.reshape(30, 4))


def test_packed_pixels_of_a_cube_are_unpacked_and_those_without_data_left_out(tmp_path):
    cube = np.arange(120).reshape(6, 5, 4).astype(np.int16)
    path = write_cube(tmp_path / "X.nc", cube, scale_factor=0.5, _FillValue=np.int16(3))
    patches = ImagePatches(path, 1, center=False, scale=False)
    np.testing.assert_array_equal(patches.rows(np.arange(29)), cube.reshape(30, 4)[1:] / 2)


def test_a_cube_is_not_a_matrix_but_the_error_says_what_to_do(tmp_path):
    path = write_cube(tmp_path / "X.nc", np.ones((6, 5, 4)))
    fails(path, r"holds no matrix .* ImagePatches\(path, patch_size\)", NotAMatrixError)


class TestPackedNetcdf4File(SourceContract):
    def make(self, folder):
        h5py = pytest.importorskip("h5py", reason="NetCDF-4 needs somf[hdf5]")
        stored = (matrix() * 100).round().astype(np.int16)
        with h5py.File(folder / "X.nc", "w") as file:
            file.attrs["_NCProperties"] = "version=2"
            X = file.create_dataset("X", data=stored, chunks=(5, 7))
            X.attrs.update({"scale_factor": np.array([0.01]), "add_offset": 0.5})
            file["band"] = np.arange(7) / 2
            file["sample"] = np.zeros(23)
            for axis, name in enumerate(("sample", "band")):
                file[name].make_scale(name)
                X.dims[axis].attach_scale(file[name])
        source = as_source(folder / "X.nc")
        assert source.feature_names == ["0", "0.5", "1", "1.5", "2", "2.5", "3"]
        return source, (0.01 * stored + 0.5).astype(np.float32)


def test_entries_without_data_are_nan_and_named_with_their_row(tmp_path):
    Y = np.abs(X)
    Y[7, 2] = -999
    write_netcdf(tmp_path / "X.nc", Y, attributes={"_FillValue": -999.0})
    source = open_source(tmp_path / "X.nc")
    assert np.isnan(source.rows(np.array([7]))[0, 2])
    with pytest.raises(NotFiniteError, match="NaN in row 7"):
        NMF(2, n_epochs=1).fit(source)


def test_one_of_several_variables_has_to_be_named(tmp_path):
    with netcdf_file(tmp_path / "X.nc", "w") as file:
        for name, length in (("a", 4), ("b", 5)):
            file.createDimension(name, length)
        for name, axes in (("U", ("a", "b")), ("V", ("b", "a")), ("w", ("a",))):
            file.createVariable(name, "f8", axes)[:] = 1
        file.createVariable("text", "c", ("a", "b"))[:] = b"x"
    with pytest.raises(SeveralDatasetsError, match="none of U, V"):
        open_source(tmp_path / "X.nc")
    assert open_source(tmp_path / "X.nc", dataset="V").shape == (5, 4)
    is_refused(tmp_path / "X.nc", "dataset must be one of", dataset="z")
    fails(tmp_path / "X.nc", "must hold a matrix", dataset="w")


@pytest.mark.parametrize("n_records", [None, 60])
def test_truncated_and_damaged_netcdf_files_give_errors_of_somf_or_numbers(tmp_path, n_records):
    path, rng = write_netcdf(tmp_path / "X.nc", X, n_records), np.random.default_rng(1)
    content = path.read_bytes()
    for part in (b"", b"CDF\x01", b"CDF\x05" + content[4:], content[:100], content[:-100]):
        path.write_bytes(part)
        fails(path, "is not a NetCDF file, or is damaged|is damaged")
    n_errors = 0
    for _ in range(100):
        path.write_bytes(content[:4] + damaged(content[4:400], rng) + content[400:])
        try:
            source = open_source(path, dataset="X")
            assert source.rows(np.arange(source.shape[0])).shape == source.shape
        except (DamagedFileError, ValueError):
            n_errors += 1
    assert n_errors > 20
