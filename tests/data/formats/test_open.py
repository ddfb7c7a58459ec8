"""Paths instead of data, and kinds of files."""

import sys

import numpy as np
import pytest
import scipy.io

from somf import DictionaryLearning
from somf.data import as_source, open_source
from somf.errors import DataError, MissingFileError, SeveralDatasetsError, UnknownKindError
from tests.helpers.files import fails, is_refused

X = np.random.default_rng(0).standard_normal((60, 8))


def test_every_method_takes_a_path(tmp_path):
    np.save(tmp_path / "X.npy", X)
    expected = DictionaryLearning(4, n_epochs=1, random_state=0).fit(X, validation=X[:9])
    np.save(tmp_path / "test.npy", X[:9])
    path = tmp_path / "X.npy"
    for given in (path, str(path), [path]):
        model = DictionaryLearning(4, n_epochs=1, random_state=0)
        codes = model.fit_transform(given, validation=tmp_path / "test.npy")
        np.testing.assert_array_equal(codes, expected.transform(X))
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.history_["objective"] == expected.history_["objective"]
        assert model.objective(given) == expected.objective(X) == -model.score(given)
        assert model.stationarity_gap(given) == expected.stationarity_gap(X)
        assert model.n_features_in_ == 8
        model.partial_fit(given)
        assert model.n_samples_seen_ == 120


def test_a_path_with_another_number_of_features_is_refused(tmp_path):
    np.save(tmp_path / "X.npy", X[:, 1:])
    model = DictionaryLearning(4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="7 features, but DictionaryLearning is expecting 8"):
        model.transform(tmp_path / "X.npy")


@pytest.mark.parametrize("path", ["nowhere.npy", "nowhere.h5", "nowhere.zarr", "nowhere/*.npy"])
def test_a_missing_file_is_named(path):
    with pytest.raises(MissingFileError, match=path.replace("*", r"\*")):
        DictionaryLearning(4).fit(path)


def test_no_file_at_all_is_refused():
    with pytest.raises(ValueError, match="path must name at least one file"):
        open_source([])


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match=r"X must have samples, .* got an empty list"):
        DictionaryLearning(4).fit([])


def test_a_name_with_brackets_is_a_name_if_there_is_such_a_file(tmp_path):
    np.save(tmp_path / "X[0].npy", X)
    np.testing.assert_array_equal(as_source(tmp_path / "X[0].npy").rows(np.arange(60)), X)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "X.bin",
            r"cannot read .*\(\.bin\) .* readable are NumPy .* Give shape and dtype",
        ),
        ("X", r"cannot read .*\(none\) .* readable are"),
        ("X.png", "it is an image. Wrap it: ImagePatches"),
    ],
)
def test_an_unknown_kind_is_refused_with_what_to_do(tmp_path, name, message):
    (tmp_path / name).write_bytes(b"something")
    fails(tmp_path / name, message, UnknownKindError)


def test_the_data_of_an_envi_image_are_refused_with_the_name_of_their_header(tmp_path):
    (tmp_path / "scene.img").write_bytes(b"something")
    (tmp_path / "scene.hdr").write_bytes(b"ENVI\nsamples = 4\n")
    message = r"Wrap its header: ImagePatches\('.*scene\.hdr'"
    fails(tmp_path / "scene.img", message, UnknownKindError)


def test_a_header_of_another_kind_is_not_taken_for_one_of_envi(tmp_path):
    (tmp_path / "scan.img").write_bytes(b"something")
    (tmp_path / "scan.hdr").write_bytes(b"\x5c\x01\0\0")
    fails(tmp_path / "scan.img", r"\(\.img\) are of no known kind", UnknownKindError)


def test_a_folder_that_is_not_data_is_refused_with_a_pattern_of_its_files(tmp_path):
    (tmp_path / "part 1.parquet").write_bytes(b"something")
    message = r"^'.*' is a folder, not data: neither a Zarr .* such as '.*\*\.parquet'"
    fails(tmp_path, message, UnknownKindError)


def test_arguments_that_do_not_apply_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    X.tofile(tmp_path / "X.raw")
    assert is_refused(tmp_path / "X.npy", "shape must not be given", shape=(60, 8))
    assert is_refused(tmp_path / "X.npy", "dataset must not be given", dataset="X")
    assert is_refused(tmp_path / "X.npy", "header must not be given .* tables", header=False)
    assert is_refused(tmp_path / "X.raw", "shape and dtype must both be given", shape=(60, 8))
    assert is_refused(tmp_path / "X.raw", "shape and dtype must both be given", dtype=float)
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=(60, -8))
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=480)
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=(480,))
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=(60, 4, 2))
    assert is_refused(tmp_path / "X.raw", "dtype must be .* real", dtype=complex, shape=(60, 4))


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    (tmp_path / "X.h5").write_bytes(b"")
    (tmp_path / "X.zarr").mkdir()
    for module, name, extra in (("h5py", "X.h5", "hdf5"), ("zarr", "X.zarr", "zarr")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"somf\[{extra}\]"):
            open_source(tmp_path / name)


def test_text_in_an_array_of_objects_is_an_error_that_names_its_place():
    with pytest.raises(DataError, match="got 'x' in row 1, column 0") as caught:
        as_source(np.array([[1, 2.5], ["x", 3]], dtype=object))
    assert caught.value.row == 1


def write_arrays(path, **arrays):
    """Write several arrays to a file of any kind that may have them."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, arrays)
    elif path.suffix == ".h5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(path, "w") as file:
            file.update(arrays)
    elif path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
        group = zarr.open_group(path, mode="w")
        for name, array in arrays.items():
            group.create_array(name, data=array)
    else:
        with scipy.io.netcdf_file(path, "w") as file:
            for name, array in arrays.items():
                along = [f"{name}{i}" for i in range(array.ndim)]
                for dimension, length in zip(along, array.shape, strict=True):
                    file.createDimension(dimension, length)
                file.createVariable(name, array.dtype, along)[:] = array
    return path


@pytest.mark.parametrize("ending", ["npz", "mat", "h5", "zarr", "nc"])
@pytest.mark.parametrize("shape", [(8, 9), (9, 12), (1, 12)], ids=str)
def test_a_mask_or_wavelengths_beside_an_image_are_not_taken_for_samples(tmp_path, ending, shape):
    beside = np.random.default_rng(0).random(shape)
    path = write_arrays(tmp_path / f"X.{ending}", cube=np.zeros((8, 9, 12)), beside=beside)
    with pytest.raises(SeveralDatasetsError, match="none of beside, cube"):
        open_source(path)
    rows = open_source(path, dataset="beside").rows(np.arange(shape[0]))
    np.testing.assert_array_equal(rows, beside)


@pytest.mark.parametrize("ending", ["npz", "mat", "h5", "zarr", "nc"])
def test_a_matrix_beside_an_image_of_other_sizes_is_opened(tmp_path, ending):
    path = write_arrays(tmp_path / f"X.{ending}", cube=np.zeros((8, 9, 12)), X=X)
    np.testing.assert_array_equal(open_source(path).rows(np.arange(60)), X)


def test_text_and_complex_numbers_are_no_matrix(tmp_path):
    np.savez(tmp_path / "X.npz", text=np.array([["a", "b"]]), waves=X + 1j)
    fails(tmp_path / "X.npz", "it has no dataset of 2 dimensions and real numbers")
