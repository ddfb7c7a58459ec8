"""Parquet, Feather and Arrow files, good and damaged ones."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from somf import NMF
from somf.data import as_source, open_source
from somf.errors import DamagedFileError, NotFiniteError
from tests.helpers.files import fails, is_refused
from tests.helpers.mutants import damaged
from tests.helpers.source_contract import SourceContract, matrix

pa = pytest.importorskip("pyarrow", reason="Parquet and Feather need somf[arrow]")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = [f"band {i}" for i in range(7)]


def table_of(X):
    return pa.table({name: X[:, i] for i, name in enumerate(NAMES[: X.shape[1]])})


def write_parquet(path, X, **options):
    parquet.write_table(table_of(X), path, **options)
    return path


def write_feather(path, X, **options):
    feather.write_feather(table_of(X), path, **options)
    return path


@pytest.fixture
def in_chunks(monkeypatch):
    monkeypatch.setattr("somf.data.formats.arrow.SMALL_TABLE", 0)


class TestSmallParquetFile(SourceContract):
    def make(self, folder):
        source = as_source(write_parquet(folder / "X.parquet", matrix(), row_group_size=5))
        assert source.is_in_memory
        return source, matrix()


@pytest.mark.usefixtures("in_chunks")
class TestParquetFile(SourceContract):
    def make(self, folder):
        X = matrix().astype(np.float32)
        source = as_source(write_parquet(folder / "X.parquet", X, row_group_size=5))
        assert source.chunk_starts.tolist() == [0, 5, 10, 15, 20]
        assert source.feature_names == NAMES
        return source, X


class TestParquetFileOfLargeRowGroups(SourceContract):
    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch):
        monkeypatch.setattr("somf.data.formats.arrow.LARGEST_CHUNK", 7 * 8 * 10)
        monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 100)

    def make(self, folder):
        source = as_source(write_parquet(folder / "X.parquet", matrix(), row_group_size=11))
        assert isinstance(source.X, np.memmap)
        assert source.feature_names == NAMES
        return source, matrix()


@pytest.mark.usefixtures("in_chunks")
class TestWideParquetFile(SourceContract):
    @pytest.fixture(autouse=True)
    def few_columns(self, monkeypatch):
        monkeypatch.setattr("somf.data.formats.arrow.WIDE", 6)
        monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 100)

    def make(self, folder):
        source = as_source(write_parquet(folder / "X.parquet", matrix(), row_group_size=5))
        assert isinstance(source.X, np.memmap)
        assert source.feature_names == NAMES
        return source, matrix()


class TestTransposedParquetFile(SourceContract):
    def make(self, folder):
        X = np.ascontiguousarray(matrix().T)
        parquet.write_table(pa.table({str(i): X[:, i] for i in range(23)}), folder / "X.parquet")
        return open_source(folder / "X.parquet", transposed=True), matrix()


@pytest.mark.usefixtures("in_chunks")
class TestFeatherFile(SourceContract):
    def make(self, folder):
        source = as_source(write_feather(folder / "X.feather", matrix(), chunksize=4))
        assert source.chunk_starts.tolist() == [0, 4, 8, 12, 16, 20]
        assert source.feature_names == NAMES
        return source, matrix()


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_columns_of_several_types_become_floating_numbers(tmp_path, kind):
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int16"),
            "half": np.array([0.5, 1.5, 2.5], np.float32),
            "flag": [True, False, True],
        }
    )
    path = tmp_path / f"X.{kind}"
    getattr(frame, f"to_{kind}")(path)
    source = open_source(path)
    assert source.dtype == np.float32
    expected = [[1, 0.5, 1], [np.nan, 1.5, 0], [3, 2.5, 1]]
    np.testing.assert_array_equal(source.rows(np.arange(3)), expected)
    with pytest.raises(NotFiniteError, match="NaN in row 1"):
        NMF(1, n_epochs=1).fit(source)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_decimals_are_numbers(tmp_path, kind):
    table = pa.table({"price": [Decimal("1.25"), None, Decimal(3)], "n": [1, 2, 3]})
    if kind == "parquet":
        parquet.write_table(table, tmp_path / "X")
    else:
        feather.write_feather(table, tmp_path / "X")
    source = open_source(tmp_path / "X")
    assert source.dtype == np.float64
    np.testing.assert_array_equal(source.rows(np.arange(3)), [[1.25, 1], [np.nan, 2], [3, 3]])


def test_the_index_of_a_data_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2], "b": [3.0, 4]}, index=pd.Index(["u", "v"], name="cell"))
    frame.to_parquet(tmp_path / "X.parquet")
    assert open_source(tmp_path / "X.parquet").feature_names == ["a", "b"]


def test_columns_may_have_the_same_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], ["a", "a"])
    feather.write_feather(table, tmp_path / "X.feather")
    source = open_source(tmp_path / "X.feather")
    np.testing.assert_array_equal(source.rows(np.arange(2)), [[1, 3], [2, 4]])
    parquet.write_table(table, tmp_path / "X.parquet")
    np.testing.assert_array_equal(
        open_source(tmp_path / "X.parquet").rows(np.arange(2)), [[1, 3], [2, 4]]
    )


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array(["a", "b"]), "string"),
        (pa.array([[1.0], [2.0]]), "list"),
        (pa.array([1, 2], pa.timestamp("s")), "timestamp"),
        (pa.array(["a", "b"]).dictionary_encode(), "dictionary"),
        (pa.array([None, None]), "null"),
    ],
)
def test_a_column_that_does_not_hold_numbers_is_named(tmp_path, column, kind):
    table = pa.table({"good": [1.0, 2.0], "bad one": column})
    feather.write_feather(table, tmp_path / "X.feather")
    parquet.write_table(table, tmp_path / "X.parquet")
    for name in ("X.feather", "X.parquet"):
        fails(tmp_path / name, f"Column 'bad one' of .* must hold real numbers, got {kind}")


@pytest.mark.parametrize("write", [write_parquet, write_feather])
def test_a_truncated_or_foreign_file_of_columns_is_named(tmp_path, write):
    path = write(tmp_path / f"X.{write.__name__[6:]}", matrix())
    content = path.read_bytes()
    kind = "is not a (Parquet|Feather or Arrow) file, or is damaged"
    for part in (b"", b"no table", content[:-1], content[: len(content) // 2], content[:12]):
        path.write_bytes(part)
        fails(path, kind)


@pytest.mark.parametrize("write", [write_parquet, write_feather])
def test_damaged_files_of_columns_give_errors_of_somf_or_numbers(tmp_path, write, in_chunks):
    path = write(tmp_path / "X", np.random.default_rng(0).random((40, 7)))
    content, rng = path.read_bytes(), np.random.default_rng(1)
    n_errors = 0
    for _ in range(150):
        path.write_bytes(content[:4] + damaged(content[4:], rng))
        try:
            source = open_source(path)
            assert source.rows(np.arange(source.shape[0])).shape == source.shape
        except DamagedFileError:
            n_errors += 1
    assert n_errors > 50


def test_the_first_version_of_feather_is_refused(tmp_path):
    (tmp_path / "X.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    fails(tmp_path / "X.feather", "of version 1 of Feather, which cannot be read. Write it again")


def test_a_table_that_expands_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("somf.data.formats.arrow.SMALL", 1000)
    monkeypatch.setattr("somf.data.formats.checks.MAX_EXPANSION", 16)
    path = write_parquet(tmp_path / "X.parquet", np.zeros((20_000, 7), np.float32))
    fails(path, "promises 560,000 bytes of data")


def test_arguments_for_other_kinds_are_refused(tmp_path):
    path = write_feather(tmp_path / "X.feather", matrix())
    is_refused(path, "dataset must not be given", dataset="X")
    is_refused(path, "dtype must not be given", dtype=float)
