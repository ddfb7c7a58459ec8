"""One test-suite that every source inherits."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import (
    ArraySource,
    CsrSource,
    ImagePatches,
    Loader,
    SlicedSource,
    Source,
    StackedSource,
    as_source,
    open_source,
)
from somf.errors import DataError


def matrix():
    rng = np.random.default_rng(0)
    return rng.standard_normal((23, 7)) * (rng.random((23, 7)) < 0.5)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


class Same(Source):
    """Rows of another source in memory, with the chunks, and so the order, of that source."""

    is_in_memory = True

    def __init__(self, other: Source) -> None:
        self.shape, self.dtype, self.chunk_starts = other.shape, other.dtype, other.chunk_starts
        self.is_sparse = other.is_sparse
        self.X = other.rows(np.arange(other.shape[0]))

    def rows(self, ids):
        return self.X[ids]


class SourceContract:
    """Tests of any source; a subclass makes one, and the matrix that it must hold."""

    def make(self, folder: Path) -> tuple[Source, np.ndarray]:
        raise NotImplementedError

    @pytest.fixture
    def made(self, tmp_path):
        return self.make(tmp_path)

    def test_shape_and_type_are_those_of_the_rows(self, made):
        source, expected = made
        assert source.shape == expected.shape
        assert isinstance(source.dtype, np.dtype)
        assert source.rows(np.arange(2)).dtype == source.dtype

    @pytest.mark.parametrize(
        "ids",
        [[0], [5, 2, 9], [3, 3], [9, 0, 9, 1], range(23), range(22, -1, -1), []],
        ids=["one", "any", "twice", "again", "all", "backwards", "none"],
    )
    def test_rows_come_in_the_order_of_the_ids(self, made, ids):
        source, expected = made
        ids = np.array(ids, dtype=np.int64)
        rows = source.rows(ids)
        assert rows.shape == (len(ids), expected.shape[1])
        np.testing.assert_allclose(dense(rows), expected[ids], rtol=1e-6, atol=1e-12)

    def test_rows_may_be_written_to(self, made):
        source, expected = made
        for ids in (np.array([4]), np.arange(3)):
            rows = source.rows(ids)
            data = rows.data if sp.issparse(rows) else rows
            data[...] = 0
            again = dense(source.rows(ids))
            np.testing.assert_allclose(again, expected[ids], rtol=1e-6, atol=1e-12)

    @pytest.mark.parametrize("ids", [[0], [9, 0, 9, 1, 22], []], ids=["one", "any", "none"])
    def test_a_view_holds_the_rows_at_its_positions(self, made, ids):
        source, _ = made
        ids = np.array(ids, dtype=np.int64)
        source.prefetch(ids)
        X, positions = source.view(ids)
        assert sp.issparse(X) == source.is_sparse
        assert positions.shape == ids.shape
        np.testing.assert_array_equal(dense(X[positions]), dense(source.rows(ids)))

    def test_consecutive_rows_are_written_into_an_array(self, made):
        source, _ = made
        for start, stop in ((3, 15), (10, 14), (5, 10), (10, 15), (20, 23)):
            if not source.is_sparse:  # which has no chunks to read
                out = np.empty((stop - start, source.shape[1]), dtype=source.dtype)
                source.read(start, stop, out)
                np.testing.assert_array_equal(out, source.rows(np.arange(start, stop)))

    def test_minibatches_are_the_rows_on_any_number_of_threads(self, made, shared_threads):
        source, _ = made
        order = np.random.default_rng(0).permutation(source.shape[0])
        batches = np.split(order, range(5, len(order), 5))
        with Loader(source, np.dtype(np.float64)).stream(batches) as minibatches:
            for batch, found in zip(batches, minibatches, strict=True):
                np.testing.assert_array_equal(dense(found), dense(source.rows(batch)))

    def test_a_source_is_its_own_source(self, made):
        assert as_source(made[0]) is made[0]

    def test_chunks_start_inside_the_source(self, made):
        starts = made[0].chunk_starts
        if starts is not None:
            assert starts[0] == 0
            assert (np.diff(starts) > 0).all()
            assert starts[-1] < made[0].shape[0]

    def test_rows_can_be_read_in_another_thread(self, made):
        source, expected = made
        ids = np.array([7, 1, 2])
        with ThreadPoolExecutor(3) as pool:
            for rows in [pool.submit(source.rows, ids) for _ in range(6)]:
                np.testing.assert_allclose(dense(rows.result()), expected[ids], rtol=1e-6)

    def test_a_fit_equals_that_of_the_same_rows_in_memory(self, made):
        source, _ = made
        params = {"n_epochs": 2, "batch_size": 4, "reduction": 2, "random_state": 0}
        model = DictionaryLearning(3, **params).fit(source, validation=0.2)
        expected = DictionaryLearning(3, **params).fit(Same(source), validation=0.2)
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.history_["objective"] == expected.history_["objective"]
        np.testing.assert_array_equal(model.transform(source), expected.transform(Same(source)))

    def test_rows_can_be_read_after_a_change_of_the_working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        source, expected = self.make(Path())
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        rows = dense(source.rows(np.arange(5)))
        np.testing.assert_allclose(rows, expected[:5], rtol=1e-6, atol=1e-12)
        if source.chunk_starts is not None:
            source.read(0, 4, rows[:4])
            np.testing.assert_allclose(rows, expected[:5], rtol=1e-6, atol=1e-12)


class TestArraySource(SourceContract):
    def make(self, folder):
        return ArraySource(matrix()), matrix()


class TestIntegerArraySource(SourceContract):
    def make(self, folder):
        X = (matrix() * 100).astype(np.int16)
        return ArraySource(X), X


class TestCsrSource(SourceContract):
    def make(self, folder):
        return CsrSource(sp.csr_array(matrix())), matrix()


class TestImagePatches(SourceContract):
    def image(self, folder, image):
        return image

    def make(self, folder):
        image = np.random.default_rng(0).random((6, 7, 2))
        patches = np.array(
            [image[i : i + 3, j : j + 2].ravel() for i in range(4) for j in range(6)]
        )
        patches -= patches.mean(axis=1, keepdims=True)
        patches /= np.linalg.norm(patches, axis=1, keepdims=True)
        return ImagePatches(self.image(folder, image), (3, 2)), patches


class TestPatchesOfAFile(TestImagePatches):
    def image(self, folder, image):
        np.save(folder / "image.npy", image)
        return folder / "image.npy"


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


class TestViewsOfAMemoryMap(SourceContract):
    def make(self, folder):
        np.save(folder / "X.npy", np.repeat(matrix()[::-1, ::-1], 2, axis=1))
        return as_source(np.load(folder / "X.npy", mmap_mode="r")[::-1, ::-2]), matrix()


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


def write_hdf5(path, X, **options):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    with h5py.File(path, "w") as file:
        file.create_dataset("group/X", data=X, **options)
        file.create_dataset("wavelengths", data=np.arange(5.0))
    return path


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


class TestPlainZarrReadInPieces(TestHdf5FileReadInPieces):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(10, 7), compressors=None)
        return as_source(folder / "X.zarr"), matrix()


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


def write_zarr(path, X, **options):
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    array = zarr.create_array(path.absolute(), shape=X.shape, dtype=X.dtype, **options)
    array[:] = X
    return array


class TestZarrArray(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(5, 7))
        return as_source(folder / "X.zarr"), matrix()


class TestPlainZarrArray(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(5, 7), compressors=None)
        return as_source(folder / "X.zarr"), matrix()


class TestPlainZarrArrayOfFormat2(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(4, 7), compressors=None, zarr_format=2)
        return as_source(folder / "X.zarr"), matrix()


class TestZarrArrayObject(SourceContract):
    def make(self, folder):
        return as_source(write_zarr(folder / "X.zarr", matrix(), chunks=(4, 2))), matrix()


class TestShardedZarrArray(SourceContract):
    def make(self, folder):
        X = matrix().astype(np.float32)
        write_zarr(folder / "X.zarr", X, chunks=(2, 7), shards=(6, 7))
        return as_source(folder / "X.zarr"), X


class TestTransposedZarrArray(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix().T, chunks=(7, 5))
        return open_source(folder / "X.zarr", transposed=True), matrix()


class TestZarrGroup(SourceContract):
    def make(self, folder):
        zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
        group = zarr.create_group(folder / "scans.zarr")
        for name in ("day", "night"):
            X = matrix() + (name == "night")
            group.create_array(f"scans/{name}", shape=X.shape, dtype=X.dtype, chunks=(9, 7))[:] = X
        return open_source(folder / "scans.zarr", dataset="scans/day"), matrix()


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


class Sliceable:
    """The part of a Dask array that is used: shape, type, slices, chunks of several sizes."""

    dtype, shape, chunks = np.dtype(float), (23, 7), ((10, 4, 9), (7,))

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        return matrix()[rows]


class TestAnythingWithSlices(SourceContract):
    def make(self, folder):
        return as_source(Sliceable()), matrix()


class Named:
    """A type of another library."""

    name = "float64"

    def __repr__(self):
        return "other.double"


@pytest.mark.parametrize("dtype", ["float64", ">f8", float, Named()])
@pytest.mark.parametrize("chunks", ["auto", 16, len, None, (5,), ((10, 4), (7,)), ("a", "b")])
def test_foreign_types_and_chunks_are_understood_or_ignored(dtype, chunks):
    class Foreign(Sliceable):
        def __array__(self, *_, **__):
            raise AssertionError("the whole object was converted")

    X = Foreign()
    X.dtype, X.chunks = dtype, chunks
    source = as_source(X)
    assert source.chunk_starts is None
    np.testing.assert_array_equal(source.rows(np.arange(23)), matrix())


def test_a_type_that_numpy_does_not_know_is_named():
    X = Sliceable()
    X.dtype = "quaternion"
    with pytest.raises(ValueError, match=r"X\.dtype must be .* got 'quaternion'"):
        as_source(X)


class TestTransposedSlices(SourceContract):
    def make(self, folder):
        class Columns(Sliceable):
            shape, chunks = (7, 23), None

            def __getitem__(self, key):
                return matrix().T[key]

        return SlicedSource(Columns(), transposed=True), matrix()


def test_arrays_and_csr_matrices_are_not_copied():
    X = matrix()
    assert as_source(X).X is X
    sparse = sp.csr_matrix(X)
    assert np.shares_memory(as_source(sparse).X.data, sparse.data)


@pytest.mark.parametrize("kind", ["csc", "coo", "lil", "dok"])
def test_other_sparse_formats_become_csr(kind):
    source = as_source(sp.coo_array(matrix()).asformat(kind))
    np.testing.assert_array_equal(source.rows(np.arange(23)).toarray(), matrix())


def test_a_view_of_an_array_or_a_csr_matrix_is_not_a_copy(tmp_path):
    np.save(tmp_path / "X.npy", matrix())
    ids = np.array([3, 1])
    for X in (matrix(), np.load(tmp_path / "X.npy", mmap_mode="r")):
        source = as_source(X)
        assert np.shares_memory(source.view(ids)[0], X)
        assert np.shares_memory(StackedSource([source, source], ["a", "b"]).view(ids)[0], X)
    sparse = CsrSource(sp.csr_array(matrix()))
    assert sparse.view(ids)[0] is sparse.X


def test_a_transposed_file_is_a_view(tmp_path):
    np.save(tmp_path / "X.npy", matrix().T)
    source = open_source(tmp_path / "X.npy", transposed=True)
    assert isinstance(source.X, np.memmap)
    assert source.shape == (23, 7)


def test_memory_maps_are_not_in_memory_and_arrays_are(tmp_path):
    np.save(tmp_path / "X.npy", matrix())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for X in (mapped, mapped[3:], np.asarray(mapped), mapped.T):
        assert not as_source(X).is_in_memory
    assert as_source(matrix()).is_in_memory
    assert as_source(matrix().T).is_in_memory


def test_rows_of_a_memory_map_are_in_plain_random_order_unless_a_row_is_scattered(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((2000, 3)))
    assert open_source(tmp_path / "X.npy").chunk_starts is None
    np.save(tmp_path / "X.npy", np.zeros((3, 2000)))
    starts = open_source(tmp_path / "X.npy", transposed=True).chunk_starts
    assert len(starts) > 1


@pytest.mark.parametrize(
    ("give", "got"),
    [
        (lambda rows: np.squeeze(matrix()[rows]), r"of float64 of shape \(7,\)"),
        (lambda rows: matrix()[rows, :1], r"of shape \(1, 1\)"),
        (lambda rows: matrix()[rows][:0], r"of shape \(0, 7\)"),
        (lambda rows: matrix()[rows] * 1j, "of complex128"),
        (lambda rows: sp.csr_array(matrix()[rows]), "a csr_array of object"),
    ],
    ids=["squeezed", "narrow", "short", "complex", "sparse"],
)
def test_slices_of_another_shape_or_type_are_refused(give, got):
    class Odd(Sliceable):
        def __getitem__(self, rows):
            return give(rows)

    with pytest.raises(ValueError, match=rf"Rows 3 to 3 of X must be float64 .*{got}"):
        as_source(Odd()).rows(np.array([3]))


def test_slices_of_another_type_than_promised_are_refused():
    class Rounded(Sliceable):
        dtype = np.dtype(int)

    with pytest.raises(ValueError, match=r"must be int64 .* got a ndarray of float64"):
        DictionaryLearning(3).fit(Rounded())


@pytest.mark.parametrize(
    ("chunk_starts", "flags"),
    [
        (None, {}),
        (np.array([0, 10]), {}),
        (None, {"is_in_memory": True}),
        (None, {"reads_in_parallel": True}),
        (None, {"is_sparse": True}),
    ],
    ids=["background thread", "buffer", "memory", "page cache", "sparse"],
)
def test_a_source_that_raises_stop_iteration_is_named_in_an_error(chunk_starts, flags):
    class Ending(Source):
        shape, dtype = (23, 7), np.dtype(float)

        def rows(self, ids):
            if 20 in ids:
                raise StopIteration
            return sp.csr_array(matrix()[ids]) if self.is_sparse else matrix()[ids]

    source = Ending()
    source.chunk_starts = chunk_starts
    for flag, value in flags.items():
        setattr(source, flag, value)
    with pytest.raises(RuntimeError, match="Ending raised StopIteration"):
        DictionaryLearning(3, init="random", batch_size=4).fit(source)


CSR = sp.csr_array(matrix())


def csr_with(**changes):
    """Return a CSR matrix with other index arrays, which SciPy does not check."""
    X = CSR.copy()
    for name, value in changes.items():
        setattr(X, name, value)
    return X


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": CSR.indices - 1},
        {"indices": CSR.indices + 1},
        {"indices": np.full_like(CSR.indices, 2**30)},
        {"indptr": CSR.indptr[::-1].copy()},
        {"indptr": CSR.indptr * 1000},
        {"indptr": CSR.indptr - 1},
    ],
    ids=["negative", "too large", "far too large", "backwards", "past the end", "before"],
)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])
def test_indices_outside_of_a_sparse_matrix_are_refused(changes, kind):
    broken = csr_with(**changes)
    X = kind(CSR.T if "csc" in kind.__name__ else CSR)
    X.indices, X.indptr = broken.indices, broken.indptr
    model = DictionaryLearning(3, init="random").fit(matrix())
    for use in (DictionaryLearning(3).fit, model.transform, model.score, CsrSource):
        if use is not CsrSource or "csr" in kind.__name__:
            with pytest.raises(DataError, match=r"X must be a valid CS[RC] matrix"):
                use(X)


class Wrong(Source):
    """A source whose rows are not what its contract says."""

    shape, dtype = (23, 7), np.dtype(float)

    def __init__(self, give, is_sparse=False, **flags):
        self.give, self.is_sparse = give, is_sparse
        for flag, value in flags.items():
            setattr(self, flag, value)

    def rows(self, ids):
        rows = matrix()[ids]
        return self.give(sp.csr_array(rows) if self.is_sparse else rows)


@pytest.mark.parametrize(
    "give",
    [
        lambda rows: np.vstack([rows, rows]),
        lambda rows: rows[:1],
        lambda rows: rows.astype(str),
        lambda rows: rows.astype(object),
        lambda rows: rows.astype("S5"),
        lambda rows: rows.astype("M8[s]"),
        lambda rows: rows * 1j,
        lambda rows: rows.tolist(),
        sp.csr_array,
    ],
    ids=["many", "one", "str", "object", "bytes", "dates", "complex", "list", "sparse"],
)
@pytest.mark.parametrize(
    "flags",
    [{}, {"chunk_starts": np.array([0, 10])}, {"is_in_memory": True}, {"reads_in_parallel": True}],
    ids=["background thread", "buffer", "memory", "page cache"],
)
def test_rows_that_are_too_many_or_no_numbers_are_refused(give, flags):
    for source in (
        Wrong(give, **flags),
        StackedSource([ArraySource(matrix()), Wrong(give, **flags)], ["a", "b"]),
    ):
        with pytest.raises((ValueError, TypeError), match="rows of a source must be"):
            DictionaryLearning(3, init="random", batch_size=4).fit(source)


@pytest.mark.parametrize(
    "give",
    [
        lambda rows: sp.csr_array(sp.vstack([rows, rows])),
        lambda rows: csr_like(rows, rows.indices - 1),
        lambda rows: csr_like(rows, rows.indices + 10**6),
        sp.csc_array,
        lambda rows: rows.toarray(),
    ],
    ids=["many", "negative", "too large", "CSC", "dense"],
)
@pytest.mark.parametrize("flags", [{}, {"is_in_memory": True}], ids=["background", "memory"])
def test_sparse_rows_that_are_too_many_or_lie_outside_are_refused(give, flags):
    for source in (
        Wrong(give, is_sparse=True, **flags),
        StackedSource([CsrSource(CSR), Wrong(give, is_sparse=True, **flags)], ["a", "b"]),
    ):
        with pytest.raises((ValueError, TypeError), match=r"rows of a source must be|X must be a"):
            DictionaryLearning(3, init="random", batch_size=4).fit(source)


def csr_like(rows, indices):
    rows = rows.copy()
    rows.indices = indices
    return rows


def test_masked_rows_are_refused_by_their_number():
    X = np.ma.masked_array(matrix(), mask=np.zeros((23, 7)))

    class Masked(Sliceable):
        def __getitem__(self, rows):
            return X[rows]

    expected = DictionaryLearning(3, random_state=0).fit(matrix()).components_
    model = DictionaryLearning(3, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, expected)
    np.testing.assert_array_equal(as_source(Masked()).rows(np.arange(23)), matrix())
    X[11, 2] = np.ma.masked
    for masked in (X, Masked()):
        with pytest.raises(ValueError, match="no masked entries, got one in row 11"):
            DictionaryLearning(3).fit(masked)


def test_a_slice_covers_the_wanted_rows_of_one_chunk_only():
    class Counting(Sliceable):
        n_read = 0

        def __getitem__(self, rows):
            self.n_read += rows.stop - rows.start
            return matrix()[rows]

    X = Counting()
    as_source(X).rows(np.array([22, 0, 9, 10, 13]))
    assert X.n_read == 10 + 4 + 1  # from 0 to 9, from 10 to 13, and 22
