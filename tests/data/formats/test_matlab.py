"""Matrices in files of MATLAB, good and damaged ones."""

import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from somf.data import as_source, open_source
from somf.errors import DamagedFileError, NotAMatrixError, SeveralDatasetsError
from tests.helpers.files import fails, is_refused
from tests.helpers.mutants import damaged
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


class TestMatFile(SourceContract):
    def make(self, folder):
        scipy.io.savemat(folder / "X.mat", {"X": matrix(), "name": "a scene"}, do_compression=True)
        return as_source(folder / "X.mat"), matrix()


class TestSparseMatFile(SourceContract):
    def make(self, folder):
        scipy.io.savemat(folder / "X.mat", {"X": sp.csc_array(matrix().T)})
        return open_source(folder / "X.mat", transposed=True), matrix()


def write_73(path, **variables):
    """Write a file as MATLAB 7.3 does: text, then HDF5 with transposed matrices."""
    h5py = pytest.importorskip("h5py", reason="MATLAB 7.3 needs somf[hdf5]")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, X in variables.items():
            if sp.issparse(X):
                group = file.create_group(name)
                group.attrs["MATLAB_sparse"] = np.uint64(X.shape[0])
                group["data"], group["ir"], group["jc"] = X.data, X.indices, X.indptr
            else:
                file.create_dataset(name, data=X.T).attrs["MATLAB_class"] = np.bytes_("double")
        file.create_dataset("text", data=np.ones((3, 1), np.uint16))
        file["text"].attrs["MATLAB_class"] = np.bytes_("char")
        file["#refs#/a"] = np.ones((4, 4))
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512))
    return path


class TestMat73File(SourceContract):
    def make(self, folder):
        return as_source(write_73(folder / "X.mat", X=matrix())), matrix()


class TestSparseMat73File(SourceContract):
    def make(self, folder):
        return as_source(write_73(folder / "X.mat", X=sp.csc_array(matrix()))), matrix()


def test_a_file_of_the_fourth_version_is_recognised_by_its_ending(tmp_path):
    scipy.io.savemat(tmp_path / "X.mat", {"X": X}, format="4")
    np.testing.assert_array_equal(open_source(tmp_path / "X.mat").rows(np.arange(60)), X)


def test_one_of_several_matrices_has_to_be_named(tmp_path):
    variables = {"a": X, "b": X.T, "cube": X.reshape(3, 20, 8), "s": {"x": 1}, "t": "text"}
    scipy.io.savemat(tmp_path / "X.mat", variables)
    with pytest.raises(SeveralDatasetsError, match="none of a, b"):
        open_source(tmp_path / "X.mat")
    assert open_source(tmp_path / "X.mat", dataset="b").shape == (8, 60)
    for name in ("c", "s", "t"):
        is_refused(tmp_path / "X.mat", r"dataset must be one of \['a', 'b'\]", dataset=name)
    fails(tmp_path / "X.mat", "3D array.*ImagePatches", NotAMatrixError, dataset="cube")


def test_structs_and_objects_are_never_read(tmp_path, monkeypatch):
    cells = np.empty((2, 2), dtype=object)
    cells[:] = 1.0
    scipy.io.savemat(tmp_path / "X.mat", {"cells": cells, "s": {"x": X}})
    fails(tmp_path / "X.mat", "'cells' in .* is a cell, .* X = cells.1.; save", NotAMatrixError)
    scipy.io.savemat(tmp_path / "X.mat", {"s": {"x": X}})
    fails(tmp_path / "X.mat", r"'s' in .* is a struct, .* X = s\.field; save", NotAMatrixError)


def test_complex_numbers_are_refused(tmp_path):
    scipy.io.savemat(tmp_path / "X.mat", {"X": X + 1j})
    fails(tmp_path / "X.mat", "Complex data not supported")


def test_a_variable_that_expands_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("somf.data.formats.matlab.SMALL", 2**16)
    scipy.io.savemat(tmp_path / "X.mat", {"X": np.zeros((1000, 500))}, do_compression=True)
    fails(tmp_path / "X.mat", "expands to more than .* bytes")


def test_a_sparse_matrix_with_indices_outside_is_refused(tmp_path):
    Y = sp.csc_array(X)
    Y.indices[5] = 1000
    scipy.io.savemat(tmp_path / "X.mat", {"X": Y})
    fails(tmp_path / "X.mat", "is not a MATLAB file, or is damaged: .*ind(ices|ex)")


def test_truncated_and_damaged_files_of_matlab_give_errors_of_somf_or_numbers(tmp_path):
    path, rng = tmp_path / "X.mat", np.random.default_rng(1)
    scipy.io.savemat(path, {"X": X, "S": sp.csc_array(X)})
    content = path.read_bytes()
    for part in (b"", content[:100], content[:500], zlib.compress(content)):
        path.write_bytes(part)
        fails(path, "MATLAB file, or is damaged|holds no matrix")
    n_errors = 0
    for _ in range(100):
        path.write_bytes(content[:128] + damaged(content[128:], rng))
        try:
            source = open_source(path, dataset="X")
            assert source.rows(np.arange(source.shape[0])).shape == source.shape
        except (DamagedFileError, ValueError):
            n_errors += 1
    assert n_errors > 20
