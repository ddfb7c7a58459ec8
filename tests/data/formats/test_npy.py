"""Files of NumPy and SciPy, good and damaged ones."""

import io
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from somf.data import as_source, open_source
from somf.errors import DamagedFileError
from tests.helpers.files import fails, is_refused
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


class TestNpzFile(SourceContract):
    def make(self, folder):
        sp.save_npz(folder / "X.npz", sp.csr_array(matrix()))
        return as_source(str(folder / "X.npz")), matrix()


class TestTransposedNpzFile(SourceContract):
    def make(self, folder):
        sp.save_npz(folder / "X.npz", sp.csr_array(matrix().T))
        return open_source(folder / "X.npz", transposed=True), matrix()


def test_a_transposed_file_is_a_view(tmp_path):
    np.save(tmp_path / "X.npy", matrix().T)
    source = open_source(tmp_path / "X.npy", transposed=True)
    assert isinstance(source.X, np.memmap)
    assert source.shape == (23, 7)


def npy(array, header=None):
    """Return the bytes of a .npy file, with another header if one is given."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    if header is None:
        return buffer.getvalue()
    text = (repr(header) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def header(shape, descr="<f8"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


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
        (npy(X[0]), "must hold a matrix of samples × features, got 1D array"),
        (npy(X.reshape(3, 20, 8)), "got 3D array of shape .* If it is an image: ImagePatches"),
        (npy(X[:0]), "is not a .npy file|0 sample"),
        (b"PK\x03\x04" + b"\0" * 50, "is not a .npy file"),
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
        ({"data": npy(X.ravel(), header((10**11,)))}, "promises more data than there is"),
        ({"data": npy(np.array([{}], dtype=object), None)[:90]}, "is not a sparse matrix"),
        ({"format": npy(np.array(b"csc"))}, "must hold a CSR matrix, got CSC|is not a sparse"),
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
    zeros = npy(np.zeros(0), header((2**26,))) + bytes(2**29)  # 500 kB as Deflate stores them
    npz(tmp_path / "X.npz", **csr_members(data=zeros))
    del zeros
    fails(tmp_path / "X.npz", "would be read into memory, .* save it with compressed=False")


def test_an_archive_whose_members_overlap_is_refused(tmp_path):
    """Each of its members claims the same compressed bytes, so that their sizes add up."""
    zeros = npy(np.zeros(0), header((2**22,))) + bytes(2**25)
    npz(tmp_path / "X.npz", **csr_members(data=zeros))
    with zipfile.ZipFile(tmp_path / "X.npz", "a") as archive:
        (member,) = (m for m in archive.infolist() if m.filename == "data.npy")
        archive.filelist += [member] * 20
        archive._didModify = True
    fails(tmp_path / "X.npz", "would be read into memory")


def test_a_truncated_or_foreign_npz_file_is_named(tmp_path):
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    content = (tmp_path / "X.npz").read_bytes()
    for part in (b"", content[:-10], content[:200], b"no matrix"):
        (tmp_path / "X.npz").write_bytes(part)
        fails(tmp_path / "X.npz", "is not a sparse matrix")
    np.savez(tmp_path / "X.npz", X=X)
    fails(tmp_path / "X.npz", "is not a sparse matrix")
