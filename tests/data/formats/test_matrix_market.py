"""Sparse matrices as text, good and damaged ones."""

import gzip
import logging

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from somf.data import CsrSource, as_source, open_source
from somf.errors import DamagedFileError, DataWarning
from tests.helpers.files import fails, is_refused
from tests.helpers.mutants import damaged
from tests.helpers.source_contract import SourceContract, matrix


def write_mtx(path, X):
    """Write a sparse matrix; return its path."""
    scipy.io.mmwrite(path.with_suffix("") if path.suffix == ".gz" else path, sp.coo_array(X))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
    return path


class TestMtxFile(SourceContract):
    def make(self, folder):
        source = as_source(write_mtx(folder / "X.mtx", matrix()))
        assert isinstance(source, CsrSource)
        return source, matrix()


class TestMtxFileOf10x(SourceContract):
    @pytest.fixture(autouse=True)
    def small_memory(self, monkeypatch):
        monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 100)
        monkeypatch.setattr("somf.data.formats.matrix_market.BLOCK_BYTES", 100)
        monkeypatch.setattr("somf.data.sources.compressed_rows.RUN_BYTES", 150)

    def make(self, folder):
        X = np.abs(10 * matrix()).round().astype(int)
        source = open_source(write_mtx(folder / "matrix.mtx.gz", X.T), transposed=True)
        assert len(source.chunk_starts) > 3
        assert source.dtype.kind == "i"
        return source, X


def write_names(path, names):
    """Write a table of 10x: identifiers, names, and what was measured."""
    lines = "".join(f"ENSG{i}\t{name}\tGene Expression\n" for i, name in enumerate(names))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())


GENES = [f"gene {i}" for i in range(7)]


@pytest.mark.parametrize("names", ["features.tsv.gz", "features.tsv", "genes.tsv"])
@pytest.mark.parametrize("matrix_name", ["matrix.mtx.gz", "matrix.mtx"])
def test_names_of_genes_and_cells_are_read_from_a_folder_of_10x(tmp_path, names, matrix_name):
    write_mtx(tmp_path / matrix_name, matrix().T)
    write_names(tmp_path / names, GENES)
    (tmp_path / "barcodes.tsv").write_text("".join(f"cell {i}\r\n" for i in range(23)))
    for path in (tmp_path, tmp_path / matrix_name):
        source = open_source(path, transposed=True)
        assert source.feature_names == GENES
        assert source.files == (str(tmp_path / matrix_name),)
        np.testing.assert_allclose(source.rows(np.arange(23)).toarray(), matrix())
        with pytest.warns(DataWarning, match="holds genes × cells, .* pass transposed=True"):
            genes = open_source(path)
        assert genes.feature_names == [f"cell {i}" for i in range(23)]


def test_tables_beside_a_matrix_begin_as_its_name_does(tmp_path):
    write_mtx(tmp_path / "GSM1_matrix.mtx.gz", matrix().T)
    write_names(tmp_path / "GSM2_features.tsv", GENES[:3])
    assert open_source(tmp_path / "GSM1_matrix.mtx.gz", transposed=True).feature_names is None
    write_names(tmp_path / "GSM1_features.tsv", GENES)
    assert open_source(tmp_path / "GSM1_matrix.mtx.gz", transposed=True).feature_names == GENES


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"A\nB\n", "must have 7 lines, one for each feature of .*, got 2. If it belongs"),
        (b"A\n" * 9, "must have 7 lines, .*, got more than 7"),
        (b"\xff\xfe\n" * 7, "is not a table of names, or is damaged"),
        (b"A" * 5000, "a line is too long"),
    ],
)
def test_a_table_of_names_that_does_not_fit_is_named(tmp_path, content, message):
    write_mtx(tmp_path / "matrix.mtx", matrix().T)
    (tmp_path / "genes.tsv").write_bytes(content)
    fails(tmp_path / "genes.tsv", message, opened=tmp_path, transposed=True)


def test_the_conversion_is_announced(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        open_source(write_mtx(tmp_path / "X.mtx", matrix()))
    assert "to compressed rows" in caplog.text


HEAD = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HEAD + "% a comment\n\n2 2 3\n1 1 5\n2 2 1e1\n2 1 -1", [[5, 0], [-1, 10]]),
        (HEAD + "2 2 2\n1 1 5\n1 1 2\n", [[7, 0], [0, 0]]),
        (HEAD.replace("general", "symmetric") + "2 2 2\n1 1 5\n2 1 2\n", [[5, 2], [2, 0]]),
        (HEAD.replace("real", "pattern") + "2 2 2\n1 1\n2 1\n", [[1, 0], [1, 0]]),
    ],
)
def test_ways_to_write_a_matrix_are_recognised(tmp_path, content, expected):
    (tmp_path / "X").write_text(content)
    rows = open_source(tmp_path / "X").rows(np.arange(2))
    np.testing.assert_array_equal(rows.toarray(), expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a Matrix Market file"),
        (HEAD, "must declare the number of rows"),
        (HEAD + "2 2\n", "must declare the number of rows"),
        (HEAD + "2 2 3\n1 1 5\n", "ends before the last 2 of its entries"),
        (HEAD + "2 2 1\n1 1 5\n2 2 5\n", "goes on after its last entry"),
        (HEAD + "2 2 1\n3 1 5\n", "is not a Matrix Market file, or is damaged"),
        (HEAD + "2 2 1\n1 1 x\n", "is not a Matrix Market file, or is damaged"),
        (HEAD + "%" + "x" * 5000, "a line is too long"),
        (HEAD + "2 2 1000000000000\n1 1 5\n", "promises 4,000,000,000,000 bytes"),
        (HEAD + "2 1000000000000 1\n1 1 5\n", "promises 8,000,000,000,000 bytes"),
        (HEAD + "-2 2 1\n1 1 5\n", "must declare the number of rows"),
        (HEAD.replace("real", "complex") + "2 2 1\n1 1 5 1\n", "real numbers, got coordinate comp"),
        (
            HEAD.replace("coordinate", "array") + "1 1\n1\n",
            "hold a sparse matrix .* got array",
        ),
        (HEAD.replace("matrix ", "vector ") + "1 1\n1\n", "its first line must name a matrix"),
    ],
)
def test_a_file_that_does_not_hold_what_it_declares_is_named(tmp_path, content, message):
    (tmp_path / "X.mtx").write_text(content)
    fails(tmp_path / "X.mtx", message)


def test_an_archive_that_goes_on_after_its_last_entry_is_not_expanded(tmp_path):
    content = (HEAD + "2 2 1\n1 1 5\n").encode() + b"\n" * 2**26
    (tmp_path / "X.mtx.gz").write_bytes(gzip.compress(content[: 2**22], 1))
    assert open_source(tmp_path / "X.mtx.gz").shape == (2, 2)
    is_refused(tmp_path / "X.mtx.gz", "dataset must not be given", dataset="X")


def test_damaged_files_give_errors_of_somf_or_numbers(tmp_path):
    path, rng = write_mtx(tmp_path / "X.mtx.gz", matrix()), np.random.default_rng(1)
    compressed = path.read_bytes()
    for part in (compressed[:-20], compressed[:40]):
        path.write_bytes(part)
        fails(path, "is not a Matrix Market file, or is damaged")
    content, path, n_errors = gzip.decompress(compressed), tmp_path / "X.mtx", 0
    for _ in range(100):
        path.write_bytes(damaged(content, rng))
        try:
            source = open_source(path)
            assert source.rows(np.arange(min(source.shape[0], 99))).shape[1] == source.shape[1]
        except DamagedFileError:
            n_errors += 1
    assert n_errors > 20
