"""Archives of NumPy and SciPy, good and damaged ones."""

import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from somf import ImagePatches
from somf.data import as_source, open_source
from somf.errors import (
    DamagedFileError,
    FileRequestError,
    NotAMatrixError,
    SeveralDatasetsError,
    UnknownKindError,
)
from tests.helpers.files import fails, is_refused, npy, npy_header
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


class TestNpzFile(SourceContract):
    def make(self, folder):
        sp.save_npz(folder / "X.npz", sp.csr_array(matrix()))
        return as_source(str(folder / "X.npz")), matrix()


class TestTransposedNpzFile(SourceContract):
    def make(self, folder):
        sp.save_npz(folder / "X.npz", sp.csr_array(matrix().T))
        return open_source(folder / "X.npz", transposed=True), matrix()


class TestNpzFileInCompressedColumns(SourceContract):
    def make(self, folder):
        sp.save_npz(folder / "X.npz", sp.csc_array(matrix()))
        return as_source(folder / "X.npz"), matrix()


class TestNpzFileOfArrays(SourceContract):
    def make(self, folder):
        np.savez(folder / "X.npz", X=matrix(), names=np.array(["a"]))
        source = as_source(folder / "X.npz")
        assert isinstance(source.X, np.memmap)
        return source, matrix()


class TestCompressedNpzFileOfArrays(SourceContract):
    def make(self, folder):
        X = np.asfortranarray(matrix().astype(np.float32))
        np.savez_compressed(folder / "X.npz", X=X, other=X.T)
        return open_source(folder / "X.npz", dataset="X"), X


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_patches_are_cut_out_of_an_image(tmp_path, save):
    cube = np.random.default_rng(0).random((6, 5, 4))
    save(tmp_path / "X.npz", cube=cube, wavelengths=np.arange(4.0))
    fails(tmp_path / "X.npz", r"holds no matrix .* ImagePatches\(path", NotAMatrixError)
    patches = ImagePatches(tmp_path / "X.npz", 1, center=False, scale=False)
    np.testing.assert_array_equal(patches.rows(np.arange(30)), cube.reshape(30, 4))
    with pytest.raises(FileRequestError, match=r"dataset must be .* dimensions in .*1D array"):
        ImagePatches(tmp_path / "X.npz", 1, dataset="wavelengths")


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def csr_members(**changes):
    csr = sp.csr_array(X)
    members = {
        "indices": npy(csr.indices),
        "indptr": npy(csr.indptr),
        "data": npy(csr.data),
        "shape": npy(np.array(csr.shape)),
        "format": npy(np.array(b"csr")),
    }
    return members | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": npy(sp.csr_array(X).indices + 3)}, "indices must be < 8|column index"),
        ({"indptr": npy(sp.csr_array(X).indptr[::-1].copy())}, "is not a sparse matrix"),
        ({"indptr": npy(sp.csr_array(X).indptr[:-3])}, "is not a sparse matrix"),
        ({"data": npy(X.ravel(), npy_header((10**11,)))}, "promises more data than there is"),
        ({"data": npy(np.array([{}], dtype=object), None)[:90]}, "is not a NumPy archive"),
        ({"format": npy(np.array(b"csc"))}, "is not a sparse"),
        ({"format": npy(np.array(b"xyz"))}, "is not a sparse matrix"),
        ({"shape": npy(np.array([60]))}, "is not a sparse matrix"),
        ({"data": npy(sp.csr_array(X).data.astype(complex))}, "Complex data"),
        ({"data": npy(np.zeros(10**7))}, "promises .* bytes of data|is not a sparse matrix"),
    ],
)
def test_a_damaged_npz_file_is_named(tmp_path, changes, message):
    npz(tmp_path / "X.npz", **csr_members(**changes))
    with pytest.raises(DamagedFileError, match=message) as caught:
        open_source(tmp_path / "X.npz")
    assert "X.npz" in str(caught.value)


def test_more_columns_than_the_file_could_hold_are_refused(tmp_path):
    npz(tmp_path / "X.npz", **csr_members(shape=npy(np.array([60, 22_000_000]))))
    fails(tmp_path / "X.npz", "promises 176,000,000 bytes")
    fails(tmp_path / "X.npz", "promises 176,000,000 bytes", transposed=True)


def test_a_small_npz_file_that_fills_the_memory_is_refused(tmp_path):
    zeros = npy(np.zeros(0), npy_header((2**26,))) + bytes(2**29)  # 500 kB as Deflate stores them
    npz(tmp_path / "X.npz", **csr_members(data=zeros))
    del zeros
    fails(tmp_path / "X.npz", "would be read into memory, .* save it with compressed=False")


def test_an_archive_whose_members_overlap_is_refused(tmp_path):
    """Each of its members claims the same compressed bytes, so that their sizes add up."""
    zeros = npy(np.zeros(0), npy_header((2**22,))) + bytes(2**25)
    npz(tmp_path / "X.npz", **csr_members(data=zeros))
    with zipfile.ZipFile(tmp_path / "X.npz", "a") as archive:
        (member,) = (m for m in archive.infolist() if m.filename == "data.npy")
        archive.filelist += [member] * 20
        archive._didModify = True
    fails(tmp_path / "X.npz", "its members overlap")


def test_a_truncated_or_foreign_npz_file_is_named(tmp_path):
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    content = (tmp_path / "X.npz").read_bytes()
    for part in (b"", content[:-10], content[:200], b"no matrix"):
        (tmp_path / "X.npz").write_bytes(part)
        fails(tmp_path / "X.npz", "is not a NumPy archive")


def test_one_of_several_arrays_has_to_be_named(tmp_path):
    np.savez(tmp_path / "X.npz", a=X, b=X.T, c=X[0])
    with pytest.raises(SeveralDatasetsError, match="none of a, b"):
        open_source(tmp_path / "X.npz")
    assert open_source(tmp_path / "X.npz", dataset="b").shape == (8, 60)
    is_refused(tmp_path / "X.npz", r"dataset must be one of \['a', 'b'\]", dataset="d")
    fails(tmp_path / "X.npz", "'c' in .* must hold a matrix .* got 1D array", dataset="c")
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    is_refused(tmp_path / "X.npz", "dataset must not be given .* one sparse matrix", dataset="a")


def test_arrays_of_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "X.npz", X=np.array([[{}, 1]], dtype=object))
    fails(tmp_path / "X.npz", "cannot be used|holds no matrix")
    fails(tmp_path / "X.npz", "cannot be used|is not a NumPy archive", dataset="X")


def test_an_array_that_expands_beyond_the_bound_is_refused(tmp_path):
    zeros = npy(np.zeros(0), npy_header((2**11, 2**12))) + bytes(2**26)
    with zipfile.ZipFile(tmp_path / "X.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("X.npy", zeros)
    fails(tmp_path / "X.npz", "promises .* bytes of data, and")


def test_an_array_whose_content_was_changed_is_noticed(tmp_path):
    np.savez_compressed(tmp_path / "X.npz", X=X)
    content = bytearray((tmp_path / "X.npz").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "X.npz").write_bytes(content)
    fails(tmp_path / "X.npz", "is not a NumPy archive, or is damaged")


def test_an_archive_of_other_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "table.xlsx", "w") as archive:
        archive.writestr("sheet.xml", "<xml/>")
    fails(tmp_path / "table.xlsx", "ZIP archive that holds no array of NumPy", UnknownKindError)
