"""Arrays with names and coordinates: xarray, and signals of HyperSpy."""

import numpy as np
import pytest

import somf
from somf import DictionaryLearning
from somf.data import ArraySource, Channels, as_source
from somf.errors import DataError
from tests.helpers.source_contract import SourceContract, matrix

xarray = pytest.importorskip("xarray", reason="xarray comes with the extra 'test'")

WAVELENGTHS = 400 + 10.5 * np.arange(7)


def spectra(X, **options):
    along = ("wavelength", WAVELENGTHS, {"units": "nm"})
    return xarray.DataArray(
        X, dims=("pixel", "wavelength"), coords={"wavelength": along}, **options
    )


def from_a_file(folder, X):
    """Return an array that is read from a NetCDF file when it is sliced."""
    path = folder / "x.nc"
    spectra(X, name="radiance").to_netcdf(path, engine="scipy")
    return xarray.open_dataset(path, engine="scipy")["radiance"]


class TestDataArray(SourceContract):
    def make(self, folder):
        return as_source(spectra(matrix())), matrix()


class TestDataArrayOfAFile(SourceContract):
    def make(self, folder):
        return as_source(from_a_file(folder, matrix())), matrix()


def test_an_array_in_memory_is_not_copied():
    X = matrix()
    source = as_source(spectra(X))
    assert isinstance(source, ArraySource)
    assert np.shares_memory(source.X, X)


def test_an_array_of_a_file_is_never_read_as_a_whole(tmp_path):
    X = from_a_file(tmp_path, matrix())
    as_source(X).rows(np.arange(3))
    assert not isinstance(X.variable._data, np.ndarray)


def test_an_array_of_dask_is_computed_by_chunks():
    pytest.importorskip("dask.array", reason="Dask comes with the extra 'dask'")
    source = as_source(spectra(matrix()).chunk({"pixel": 10, "wavelength": 3}))
    assert type(source).__name__ == "DaskSource"
    np.testing.assert_array_equal(source.rows(np.arange(23)), matrix())
    assert source.channels.unit == "nm"


def test_coordinates_are_names_and_channels_of_the_model_and_of_its_file(toy, tmp_path):
    X = spectra(toy[:, :7])
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(X)
    same = DictionaryLearning(3, n_epochs=1, random_state=0).fit(toy[:, :7])
    np.testing.assert_array_equal(model.components_, same.components_)
    model.save(tmp_path / "a.somf")
    for known in (model, somf.load(tmp_path / "a.somf")):
        assert known.channels_ == Channels(tuple(WAVELENGTHS), "nm", "wavelength")
        assert known.channels_.title == "wavelength (nm)"
        assert list(known.feature_names_in_)[:2] == ["400 nm", "410.5 nm"]
    model.transform(X)
    with pytest.raises(DataError, match="Feature 0 of X must be '400 nm' as in the fit"):
        model.transform(X[:, ::-1])
    assert not hasattr(model.fit(toy), "channels_")


def test_names_of_several_levels_are_joined():
    cube = xarray.DataArray(np.ones((4, 2, 3)), dims=("t", "y", "x"))
    cube = cube.assign_coords(y=[10, 20], x=["a", "b", "c"])
    source = as_source(cube.stack(pixel=("y", "x")))
    assert source.feature_names[:2] == ["10, a", "10, b"]


def test_an_array_without_coordinates_has_no_names():
    source = as_source(xarray.DataArray(matrix()))
    assert source.feature_names is None
    assert source.channels is None


def test_times_are_names():
    times = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    X = xarray.DataArray(np.ones((3, 2)), dims=("x", "t"), coords={"t": times.astype("M8[ns]")})
    assert as_source(X).feature_names[0].startswith("2020-01-01")


def test_of_a_dataset_one_array_must_be_chosen():
    dataset = xarray.Dataset({"a": ("x", np.ones(3)), "b": ("x", np.ones(3))})
    with pytest.raises(DataError, match=r"xarray.Dataset: X\[name\] is one of 'a', 'b'"):
        as_source(dataset)
