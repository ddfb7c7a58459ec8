"""Several sources as one."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf.data import ArraySource, StackedSource, as_source
from somf.errors import DataError
from tests.helpers.files import write_hdf5
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


class TestStackedSource(SourceContract):
    def make(self, folder):
        X = matrix()
        return StackedSource([ArraySource(X[:9]), ArraySource(X[9:])], ["a", "b"]), X


class TestListOfSourcesAndMaps(SourceContract):
    def make(self, folder):
        np.save(folder / "X.npy", matrix()[:9])
        return as_source([np.load(folder / "X.npy", mmap_mode="r"), ArraySource(matrix()[9:])]), (
            matrix()
        )


class TestListOfFiles(SourceContract):
    def make(self, folder):
        X = matrix().astype(np.float32)
        np.save(folder / "z.npy", X[:9])
        write_hdf5(folder / "a.h5", X[9:], chunks=(4, 7))
        return as_source([folder / "z.npy", str(folder / "a.h5")]), X


class TestListOfFilesOfDifferentTypes(SourceContract):
    def make(self, folder):
        X = (matrix() * 100).round()
        write_hdf5(folder / "a.h5", X[:16].astype(np.int16), chunks=(4, 7))
        write_hdf5(folder / "b.h5", X[16:], chunks=(4, 7))
        return as_source([folder / "a.h5", folder / "b.h5"]), X


class TestPatternsInAList(SourceContract):
    def make(self, folder):
        for name, rows in (("b", slice(9, 10)), ("a", slice(0, 9)), ("c", slice(10, None))):
            np.save(folder / f"scan {name}.npy", matrix()[rows])
        return as_source([folder / "scan [ab].npy", folder / "scan c.npy"]), matrix()


class TestPatternOfFiles(SourceContract):
    def make(self, folder):
        for name, rows in (("b", slice(9, 10)), ("a", slice(0, 9)), ("c", slice(10, None))):
            np.save(folder / f"scan {name}.npy", matrix()[rows])
        return as_source(str(folder / "scan *.npy")), matrix()


class TestStackedCsrFiles(SourceContract):
    def make(self, folder):
        for name, rows in (("a", slice(0, 9)), ("b", slice(9, None))):
            sp.save_npz(folder / f"{name}.npz", sp.csr_array(matrix()[rows]))
        return as_source([folder / "a.npz", folder / "b.npz"]), matrix()


def test_files_of_different_widths_are_not_stacked(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :5])
    with pytest.raises(ValueError, match=r"b\.npy' must have 8 features like .*a\.npy', got 5"):
        as_source([tmp_path / "a.npy", tmp_path / "b.npy"])


def test_dense_and_sparse_files_are_not_stacked(tmp_path):
    np.save(tmp_path / "a.npy", X)
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(X))
    with pytest.raises(ValueError, match=r"b\.npz' must be dense or sparse like .*a\.npy'"):
        as_source([tmp_path / "a.npy", tmp_path / "b.npz"])


def named(names):
    source = ArraySource(np.ones((2, 3)))
    source.feature_names = names
    return source


def test_names_of_features_are_those_of_the_parts_that_have_some():
    stacked = StackedSource([named(None), named(["a", "b", "c"]), named(["a", "b", "c"])], "xyz")
    assert stacked.feature_names == ["a", "b", "c"]


def test_features_that_are_named_differently_are_not_stacked():
    with pytest.raises(DataError, match="Feature 1 of 'y' must be 'b' as in 'x', got 'c'"):
        StackedSource([named(["a", "b", "c"]), named(["a", "c", "b"])], "xy")
