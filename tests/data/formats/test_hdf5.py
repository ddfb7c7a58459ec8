"""HDF5 files, good and damaged ones."""

import os
from typing import ClassVar

import numpy as np
import pytest

from somf.data import as_source, open_source
from somf.errors import DamagedFileError, NotAMatrixError
from tests.helpers.files import fails, is_refused, write_hdf5
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


class TestHdf5File(SourceContract):
    def make(self, folder):
        return as_source(write_hdf5(folder / "X.h5", matrix(), chunks=(5, 7))), matrix()


class TestHdf5FileOfBigEndianIntegers(SourceContract):
    def make(self, folder):
        X = (matrix() * 100).astype(">i2")
        return as_source(write_hdf5(folder / "X.h5", X, chunks=(5, 7))), X


class TestHdf5FileWithUnwrittenChunks(SourceContract):
    def make(self, folder):
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        X = matrix()
        X[10:15] = 3
        with h5py.File(folder / "X.h5", "w") as file:
            dataset = file.create_dataset("X", X.shape, float, chunks=(5, 7), fillvalue=3)
            dataset[:10], dataset[15:] = X[:10], X[15:]
        return as_source(folder / "X.h5"), X


class TestCompressedHdf5File(SourceContract):
    def make(self, folder):
        X = (matrix() * 100).astype(np.int16)
        path = write_hdf5(folder / "X.hdf5", X, chunks=(4, 3), compression="gzip", shuffle=True)
        return open_source(path, dataset="group/X"), X


class TestHdf5FileReadInPieces(SourceContract):
    options: ClassVar = {}

    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch):
        monkeypatch.setattr("somf.data.sources.sliced.LARGEST_CHUNK", 4 * 7 * 8)

    def make(self, folder):
        source = as_source(write_hdf5(folder / "X.h5", matrix(), chunks=(10, 7), **self.options))
        assert source.chunk_starts.tolist() == [0, 4, 8, 10, 14, 18, 20]
        return source, matrix()


@pytest.mark.filterwarnings("ignore:.* has chunks of 10 samples:UserWarning")
class TestCompressedHdf5FileReadInPieces(TestHdf5FileReadInPieces):
    options: ClassVar = {"compression": "gzip"}


class TestTransposedHdf5File(SourceContract):
    def make(self, folder):
        path = write_hdf5(folder / "X.h5", matrix().T, chunks=(3, 4))
        return open_source(path, transposed=True), matrix()


class TestHdf5FileInOnePiece(SourceContract):
    def make(self, folder):
        return as_source(write_hdf5(folder / "X.h5", matrix())), matrix()


class TestHdf5FileOfNumbersThatNumpyLacks(SourceContract):
    chunks = None

    def make(self, folder):
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        X = (matrix() * 4).round().astype(np.float32)
        with h5py.File(folder / "X.h5", "w") as file:
            bfloat16 = h5py.h5t.IEEE_F16LE.copy()
            bfloat16.set_fields(15, 7, 8, 0, 7)
            bfloat16.set_ebias(127)
            layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if self.chunks:
                layout.set_chunk(self.chunks)
            space = h5py.h5s.create_simple(X.shape)
            dataset = h5py.h5d.create(file.id, b"X", bfloat16, space, layout)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, X)
        return as_source(folder / "X.h5"), X


class TestHdf5ChunksOfNumbersThatNumpyLacks(TestHdf5FileOfNumbersThatNumpyLacks):
    chunks = (5, 7)


class TestHdf5Dataset(SourceContract):
    def make(self, folder):
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        file = h5py.File(write_hdf5(folder / "X.h5", matrix()), "r")
        return as_source(file["group/X"]), matrix()


@pytest.fixture
def hdf5(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")

    def write(**datasets):
        with h5py.File(tmp_path / "X.h5", "w") as file:
            for name, (data, options) in datasets.items():
                file.create_dataset(name, data=data, **options)
        return tmp_path / "X.h5"

    return write


@pytest.mark.parametrize("options", [{}, {"chunks": (10, 8)}], ids=["one piece", "chunks"])
def test_a_truncated_or_foreign_hdf5_file_is_named(hdf5, options):
    path = hdf5(X=(X, options))
    content = path.read_bytes()
    for part in (b"", content[:-100], content[:200], b"no matrix"):
        path.write_bytes(part)
        fails(path, "is not an HDF5 file")


def test_a_damaged_chunk_of_an_hdf5_file_is_named_when_it_is_read(hdf5):
    path = hdf5(X=(X, {"chunks": (10, 8), "fletcher32": True}))
    content = bytearray(path.read_bytes())
    content[-100] ^= 255
    path.write_bytes(content)
    fails(path, r"is damaged: rows \d+ to \d+ cannot be read")


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["plain", "compressed"])
def test_an_hdf5_file_that_has_become_shorter_does_not_read_as_zeros(hdf5, options):
    path = hdf5(X=(np.random.default_rng(0).random((60, 800)), {"chunks": (10, 800)} | options))
    source = open_source(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedFileError, match=r"X.h5' is damaged: rows \d+ to \d+ cannot be read"):
        source.rows(np.arange(60))
    with pytest.raises(DamagedFileError, match=r"X.h5' is damaged: rows \d+ to \d+ cannot be read"):
        source.view(np.arange(60))


def test_an_hdf5_dataset_must_be_a_matrix_and_be_named_if_there_are_several(hdf5):
    path = hdf5(cube=(np.ones((3, 4, 5)), {}), line=(np.ones(5), {}))
    fails(path, "holds no matrix of samples × features.* ImagePatches", NotAMatrixError)
    message = "'cube' in .* must hold a matrix .* got 3D array .* ImagePatches"
    fails(path, message, NotAMatrixError, dataset="cube")
    fails(path, "'line' in .* got 1D array", NotAMatrixError, dataset="line")
    is_refused(path, "dataset must be one of", dataset="nothing")
    path = hdf5(a=(X, {}), b=(X, {}))
    is_refused(path, "dataset must name one of the datasets .* a, b")
    fails(hdf5(X=(X.astype(complex), {})), "Complex data", dataset="X")


def test_an_hdf5_file_that_promises_more_than_it_holds_is_refused(hdf5):
    empty = {"shape": (10**9, 10**6), "chunks": (1000, 1000), "dtype": "f4"}
    fails(hdf5(X=(None, empty)), "promises 4,000,000,000,000,000 bytes")
