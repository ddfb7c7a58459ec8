"""Files of NumPy, good and damaged ones."""

import numpy as np
import pytest

from somf.data import as_source, open_source
from tests.helpers.files import fails, is_refused, npy
from tests.helpers.files import npy_header as header
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


class TestNpyFile(SourceContract):
    def make(self, folder):
        np.save(folder / "X.npy", matrix().astype(np.float32))
        return as_source(folder / "X.npy"), matrix().astype(np.float32)


class TestTransposedNpyFile(SourceContract):
    def make(self, folder):
        np.save(folder / "X.npy", np.ascontiguousarray(matrix().T))
        return open_source(folder / "X.npy", transposed=True), matrix()


class TestNpyFileInFortranOrder(SourceContract):
    def make(self, folder):
        np.save(folder / "X.npy", np.asfortranarray(matrix()))
        return as_source(folder / "X.npy"), matrix()


class TestRawFile(SourceContract):
    def make(self, folder):
        X = (matrix() * 100).astype(">i2")
        X.tofile(folder / "X.raw")
        return open_source(folder / "X.raw", shape=X.shape, dtype=">i2"), X


class TestTransposedRawFile(SourceContract):
    def make(self, folder):
        matrix().T.copy().tofile(folder / "X.raw")
        return open_source(folder / "X.raw", shape=(7, 23), dtype=float, transposed=True), matrix()


def test_a_transposed_file_is_a_view(tmp_path):
    np.save(tmp_path / "X.npy", matrix().T)
    source = open_source(tmp_path / "X.npy", transposed=True)
    assert isinstance(source.X, np.memmap)
    assert source.shape == (23, 7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a .npy file"),
        (b"no matrix at all", "is not a .npy file"),
        (npy(X)[:100], "is not a .npy file"),
        (npy(X)[:-1], "is not a .npy file"),
        (npy(X, header((10**12, 8))), "is not a .npy file"),
        (npy(X, header((10**30, 8))), "is not a .npy file"),
        (npy(X, header((-1, 8))), "is not a .npy file|cannot be used"),
        (npy(X, header((60, 8), "|O")), "is not a .npy file"),
        (npy(X, header((60,), "<c16")), "must hold a matrix"),
        (npy(X.astype(complex)), "Complex data not supported"),
        (npy(X.astype(str)), "must be numeric"),
        (npy(np.zeros(3, "f4,f4")), "must hold numbers, got records of f0, f1. Make a matrix"),
        (npy(X[0]), "must hold a matrix of samples × features, got 1D array"),
        (npy(X.reshape(3, 20, 8)), "got 3D array of shape .* If it is an image: ImagePatches"),
        (npy(X[:0]), "is not a .npy file|0 sample"),
    ],
)
def test_a_damaged_npy_file_is_named(tmp_path, content, message):
    (tmp_path / "X.npy").write_bytes(content)
    fails(tmp_path / "X.npy", message)


def test_an_npy_file_of_objects_is_never_unpickled(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    fails(tmp_path / "X.npy", "is not a .npy file")


@pytest.mark.parametrize("shape", [(61, 8), (59, 8), (10**12, 8)])
def test_a_raw_file_must_have_the_size_that_its_shape_says(tmp_path, shape):
    X.tofile(tmp_path / "X.raw")
    is_refused(tmp_path / "X.raw", "of 3,840 bytes", shape=shape, dtype=float)
