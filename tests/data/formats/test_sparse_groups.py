"""Sparse matrices in groups of HDF5 and Zarr, good and damaged ones, and AnnData."""

import logging
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF
from somf.data import Loader, as_source, open_source
from somf.errors import (
    DamagedFileError,
    DataWarning,
    NotFiniteError,
    SeveralDatasetsError,
    UnknownKindError,
)
from tests.helpers.files import fails, is_refused
from tests.helpers.source_contract import SourceContract, matrix

h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")

GENES = [f"gene {i}" for i in range(7)]
CELLS = [f"cell {i}" for i in range(23)]


def put(group, X, **options):
    """Write a sparse matrix as AnnData does."""
    group.attrs.update({"encoding-type": f"{X.format}_matrix", "shape": list(X.shape)})
    for name in ("data", "indices", "indptr"):
        array = getattr(X, name)
        if isinstance(group, h5py.Group):
            group.create_dataset(name, data=array, **options)
        else:
            chunks = options.get("chunks", array.shape)
            made = group.create_array(
                name, shape=array.shape, dtype=array.dtype, chunks=chunks, compressors=None
            )
            made[:] = array


def write_h5(path, X, name="X", **options):
    with h5py.File(path, "w") as file:
        put(file.create_group(name), X, **options)
    return path


def write_h5ad(path, X, **layers):
    """Write an AnnData object."""
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        if sp.issparse(X):
            put(file.create_group("X"), X)
        else:
            file["X"] = X
        for name, layer in layers.items():
            put(file.create_group(f"layers/{name}"), layer)
        for name, index in (("var", GENES), ("obs", CELLS)):
            file[f"{name}/names"] = index
            file[name].attrs["_index"] = "names"
        file["obsm/X_pca"] = np.ones((23, 2))
    return path


@pytest.fixture
def small_runs(monkeypatch):
    monkeypatch.setattr("somf.data.sources.compressed_rows.RUN_BYTES", 150)
    monkeypatch.setattr("somf.data.sources.compressed_rows.CHUNKS_PER_RUN", 1)


@pytest.mark.usefixtures("small_runs")
class TestCsrInHdf5(SourceContract):
    def make(self, folder):
        X = sp.csr_array(matrix())
        source = as_source(write_h5(folder / "X.h5", X, chunks=(5,), compression="gzip"))
        assert len(source.chunk_starts) > 3
        return source, matrix()


@pytest.mark.usefixtures("small_runs")
class TestCsrMappedFromHdf5(SourceContract):
    def make(self, folder):
        X = sp.csr_array(matrix().astype(np.float32))
        X = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr), shape=X.shape)
        return as_source(write_h5(folder / "X.h5", X)), X.toarray()


@pytest.mark.usefixtures("small_runs")
class TestCscInHdf5(SourceContract):
    @pytest.fixture(autouse=True)
    def small_memory(self, monkeypatch):
        monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 100)
        monkeypatch.setattr("somf.data.formats.sparse_groups.BLOCK_ENTRIES", 10)

    def make(self, folder):
        source = as_source(write_h5(folder / "X.h5", sp.csc_array(matrix()), chunks=(5,)))
        assert len(source.chunk_starts) > 3
        return source, matrix()


class TestTransposedCscInHdf5(SourceContract):
    def make(self, folder):
        path = write_h5(folder / "X.h5", sp.csc_array(matrix().T))
        return open_source(path, transposed=True), matrix()


@pytest.mark.usefixtures("small_runs")
class TestCsrInZarr(SourceContract):
    def make(self, folder):
        root = zarr.open_group(folder / "X.zarr", mode="w")
        put(root.create_group("counts"), sp.csr_array(matrix()), chunks=(5,))
        return as_source(folder.absolute() / "X.zarr"), matrix()


class TestStackedH5adFiles(SourceContract):
    def make(self, folder):
        X = sp.csr_array(matrix())
        write_h5ad(folder / "a.h5ad", X)
        write_h5(folder / "b.h5", X[:4])
        paths = [folder / "a.h5ad", folder / "b.h5"]
        source = open_source(paths)
        assert source.feature_names == GENES
        return Part(source), matrix()


class Part(type(as_source(np.ones((1, 1)))).__mro__[1]):
    """The first rows of a source, with its chunks."""

    def __init__(self, source):
        self.source, self.shape, self.dtype = source, (23, 7), source.dtype
        self.is_sparse, self.feature_names = source.is_sparse, source.feature_names
        self.chunk_starts = source.chunk_starts[source.chunk_starts < 23]

    @property
    def stored_share(self):
        return self.source.stored_share

    def rows(self, ids):
        return self.source.rows(ids)


def test_an_epoch_reads_every_entry_about_once(tmp_path, monkeypatch, small_runs):
    X = np.random.default_rng(0).random((400, 20))
    X = sp.csr_array(np.where(X < 0.3, X, 0.0))
    source = open_source(write_h5(tmp_path / "X.h5", X, chunks=(50,)))
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 1)  # four chunks
    read, original = [], type(source)._read_rows

    def counted(self, start, stop):
        read.append(stop - start)
        return original(self, start, stop)

    monkeypatch.setattr(type(source), "_read_rows", counted)
    loader = Loader(source, X.dtype)
    order = loader.order(np.arange(400), seed=0, epoch=0)
    assert sorted(order) == list(range(400))
    assert (order != np.arange(400)).any()
    with loader.stream(np.split(order, 20)) as minibatches:
        for ids, found in zip(np.split(order, 20), minibatches, strict=True):
            np.testing.assert_array_equal(found.toarray(), X[ids].toarray())
    assert sum(read) == 400
    assert len(read) == len(source.chunk_starts) > 10


def test_a_matrix_is_never_made_dense(tmp_path):
    p = 3_000_000  # a dense row would take 24 MB
    entries = (np.ones(3000), (np.arange(3000) % 30, np.arange(3000) * 997 % p))
    X = sp.csr_array(entries, shape=(30, p))
    source = open_source(write_h5(tmp_path / "X.h5", X))
    tracemalloc.start()
    rows = source.rows(np.arange(30))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    assert (rows != X).nnz == 0


def test_compressed_columns_are_converted_with_a_message(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        open_source(write_h5(tmp_path / "X.h5", sp.csc_array(matrix())))
    assert "to compressed rows" in caplog.text


@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
def test_x_of_anndata_is_the_default_and_has_the_names_of_variables(tmp_path, kind):
    X = matrix() if kind == "dense" else sp.csr_array(matrix()).asformat(kind)
    path = write_h5ad(tmp_path / "X.h5ad", X, counts=sp.csr_array(2 * matrix()))
    source = open_source(path)
    rows = source.rows(np.arange(23))
    np.testing.assert_array_equal(rows.toarray() if sp.issparse(rows) else rows, matrix())
    assert source.feature_names == GENES
    assert open_source(path, transposed=True).feature_names == CELLS
    layer = open_source(path, dataset="layers/counts")
    np.testing.assert_array_equal(layer.rows(np.arange(23)).toarray(), 2 * matrix())
    assert layer.feature_names == GENES
    pca = open_source(path, dataset="obsm/X_pca")
    assert (pca.shape, pca.feature_names) == ((23, 2), None)
    is_refused(path, r"dataset must be one of \[.*'layers/counts'.*\]", dataset="layers/other")


@pytest.mark.filterwarnings("ignore:The codec `vlen-utf8`")  # of Zarr 3.0, when it reads strings
def test_anndata_in_zarr_has_the_names_of_variables(tmp_path):
    root = zarr.open_group(tmp_path / "X.zarr", mode="w")
    root.attrs["encoding-type"] = "anndata"
    put(root.create_group("X"), sp.csr_array(matrix()))
    var = root.create_group("var")
    var.attrs["_index"] = "names"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the specification of strings is not final
        var.create_array("names", shape=(7,), dtype="str")[:] = np.array(GENES, dtype=object)
    root.create_group("obs")
    root.create_array("obsm", shape=(23, 2), dtype="float64")[:] = 1.0
    source = open_source(tmp_path / "X.zarr")
    assert source.feature_names == GENES
    np.testing.assert_array_equal(source.rows(np.arange(23)).toarray(), matrix())


def test_a_file_of_10x_is_read_as_it_is_stored(tmp_path):
    X = sp.csc_array(matrix().T)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        for name in ("data", "indices", "indptr", "shape"):
            file[f"matrix/{name}"] = np.array(getattr(X, name))
        file["matrix/barcodes"] = CELLS
        file["matrix/features/id"] = [name.upper() for name in GENES]
        file["matrix/features/name"] = GENES
    cells = open_source(tmp_path / "X.h5", transposed=True)
    np.testing.assert_array_equal(cells.rows(np.arange(23)).toarray(), matrix())
    assert cells.feature_names == GENES
    with pytest.warns(DataWarning, match="holds genes × cells, .* pass transposed=True"):
        genes = open_source(tmp_path / "X.h5")
    assert genes.feature_names == CELLS


def test_a_file_of_10x_before_version_3_has_names_of_genes_elsewhere(tmp_path):
    X = sp.csc_array(matrix().T)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        for name in ("data", "indices", "indptr", "shape"):
            file[f"hg19/{name}"] = np.array(getattr(X, name))
        file["hg19/barcodes"] = CELLS
        file["hg19/gene_names"] = np.array(GENES, dtype="S")
    assert open_source(tmp_path / "X.h5", transposed=True).feature_names == GENES


def test_one_of_several_sparse_matrices_has_to_be_named(tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        put(file.create_group("a"), sp.csr_array(matrix()))
        put(file.create_group("b/c"), sp.csc_array(matrix()))
        file["d"] = matrix()
    with pytest.raises(SeveralDatasetsError, match="none of a, b/c, d"):
        open_source(tmp_path / "X.h5")
    assert open_source(tmp_path / "X.h5", dataset="b/c").shape == (23, 7)
    is_refused(tmp_path / "X.h5", r"dataset must be one of \['a', 'b/c', 'd'\]", dataset="b")


def test_an_entry_that_is_not_finite_is_named_with_its_row(tmp_path):
    X = sp.csr_array(np.abs(matrix()))
    X.data[X.indptr[9]] = np.nan
    with pytest.raises(NotFiniteError, match="NaN in row 9"):
        NMF(2, n_epochs=1).fit(write_h5(tmp_path / "X.h5", X))


CSR = sp.csr_array(matrix())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("indices", CSR.indices + 5, "indices of columns must be from 0 to 6"),
        ("indices", CSR.indices.astype(np.uint64) - 5, "indices of columns must be from 0 to 6"),
        ("indices", CSR.indices[:-1], "with as many indices"),
        ("indices", CSR.indices.astype(float), "must consist of numbers"),
        ("indices", CSR.indices[:, None], "'indices' of a sparse matrix must have one dimension"),
        ("indptr", CSR.indptr[:-1], "must have 24 pointers, got 23"),
        ("indptr", CSR.indptr[::-1].copy(), "must rise from 0"),
        (
            "indptr",
            np.where(np.arange(24) == 5, np.int64(2**40), CSR.indptr),
            "must rise from 0",
        ),
        ("data", CSR.data.astype("S3"), "must consist of numbers"),
        ("data", CSR.data + 1j, "must consist of numbers"),
        ("data", None, "is a sparse matrix without"),
        ("shape", [23], "shape of a sparse matrix must be two integers"),
        ("shape", [23, -7], "shape of a sparse matrix must be two integers"),
        ("shape", [10**12, 7], "must have 1,000,000,000,001 pointers, got 24"),
        ("shape", [23, 10**12], "promises 8,000,000,000,000 bytes"),
    ],
)
def test_a_sparse_matrix_that_does_not_fit_together_is_named(tmp_path, name, value, message):
    def change(group):
        if name == "shape":
            group.attrs["shape"] = value
            return
        del group[name]
        if value is not None:
            group[name] = value

    for X in (CSR, sp.csc_array(matrix().T)):
        path = write_h5(tmp_path / f"{X.format}.h5", X)
        with h5py.File(path, "r+") as file:
            change(file["X"])
            if X.format == "csc" and name == "shape":
                file["X"].attrs["shape"] = value[::-1]
        fails(path, message, transposed=X.format == "csc")


def test_indices_outside_of_compressed_columns_are_refused(tmp_path):
    X = sp.csc_array(matrix())
    X.indices[3] = 100
    fails(write_h5(tmp_path / "X.h5", X), "a row of an entry must be from 0 to 22, got 100")


def test_a_pointer_that_promises_more_than_is_stored_takes_no_memory(tmp_path):
    with h5py.File(write_h5(tmp_path / "X.h5", CSR), "r+") as file:
        for name in ("data", "indices"):
            del file[f"X/{name}"]
            file["X"].create_dataset(name, (10**12,), "f8" if name == "data" else "i4", chunks=True)
        del file["X/indptr"]
        file["X/indptr"] = np.r_[np.zeros(23, int), 10**12]
    fails(tmp_path / "X.h5", "promises 8,000,000,000,000 bytes")


def test_parts_of_a_sparse_matrix_in_other_files_are_refused(tmp_path):
    write_h5(tmp_path / "other.h5", CSR)
    with h5py.File(write_h5(tmp_path / "X.h5", CSR), "r+") as file:
        del file["X/data"]
        file["X/data"] = h5py.ExternalLink("other.h5", "X/data")
    is_refused(tmp_path / "X.h5", "allow_external must be True .* in another file, 'other.h5'")
    CSR.data.tofile(tmp_path / "raw")
    with h5py.File(tmp_path / "X.h5", "r+") as file:
        del file["X/data"]
        outside = [(tmp_path / "raw", 0, CSR.data.nbytes)]
        file["X"].create_dataset("data", CSR.data.shape, CSR.data.dtype, external=outside)
    fails(tmp_path / "X.h5", "must be in the file itself", UnknownKindError)


def test_names_that_are_more_than_the_features_are_an_error(tmp_path):
    with h5py.File(write_h5ad(tmp_path / "X.h5ad", CSR), "r+") as file:
        del file["var/names"]
        file["var/names"] = CELLS
    fails(tmp_path / "X.h5ad", "it has 23 names for 7 features")


def test_names_that_declare_too_much_memory_are_an_error(tmp_path):
    with h5py.File(write_h5ad(tmp_path / "X.h5ad", CSR), "r+") as file:
        del file["var/names"]
        file["var"].create_dataset("names", (10**9,), "S10", chunks=(10,))
    fails(tmp_path / "X.h5ad", "it has 1,000,000,000 names for 7 features")
    with h5py.File(tmp_path / "X.h5ad", "r+") as file:
        del file["var/names"]
        file["var"].create_dataset("names", (7,), "S100000000", chunks=(1,))
    fails(tmp_path / "X.h5ad", "names of features are too long")


def test_a_zarr_chunk_that_vanishes_is_an_error_and_not_zeros(tmp_path):
    root = zarr.open_group(tmp_path / "X.zarr", mode="w")
    put(root.create_group("X"), CSR, chunks=(20,))
    source = open_source(tmp_path / "X.zarr")
    next((tmp_path / "X.zarr/X/data/c").iterdir()).unlink()
    with pytest.raises(FileNotFoundError, match="is no longer there"):
        source.rows(np.arange(23))


def test_damaged_bytes_of_a_sparse_matrix_give_errors_of_somf_or_numbers(tmp_path):
    path = write_h5(tmp_path / "X.h5", CSR, chunks=(20,), compression="gzip", shuffle=True)
    content, rng, n_errors = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(60):
        damaged = bytearray(content)
        for at in rng.integers(800, len(content), 40):
            damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            source = open_source(path)
            assert source.rows(np.arange(source.shape[0])).shape == source.shape
        except (DamagedFileError, ValueError):
            n_errors += 1
    assert n_errors > 2
