"""Data frames of pandas, polars and pyarrow."""

from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp

import somf
from somf import DictionaryLearning
from somf.data import ArraySource, CsrSource, as_source
from somf.data.sources import frames
from somf.errors import DataError, NotFiniteError
from tests.helpers.source_contract import SourceContract, matrix

NAMES = list("abcdefg")
REASON = "the library comes with the extra 'test'"


def pandas_frame(X):
    return pytest.importorskip("pandas", reason=REASON).DataFrame(X, columns=NAMES)


def polars_frame(X):
    return pytest.importorskip("polars", reason=REASON).DataFrame(X, schema=NAMES)


def arrow_table(X):
    arrow = pytest.importorskip("pyarrow", reason=REASON)
    return arrow.table(dict(zip(NAMES, X.T.copy(), strict=True)))


KINDS = [pandas_frame, polars_frame, arrow_table]


class TestPandasOfOneBlock(SourceContract):
    def make(self, folder):
        return as_source(pandas_frame(matrix())), matrix()


class TestLargePolars(SourceContract):
    """The frame is larger than what is converted at once."""

    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch):
        monkeypatch.setattr(frames, "BUFFER_BYTES", 1)
        monkeypatch.setattr(frames, "LARGEST_CHUNK", 4 * 5 * 7 * 8)

    def make(self, folder):
        return as_source(polars_frame(matrix())), matrix()


class TestLargeArrow(TestLargePolars):
    def make(self, folder):
        return as_source(arrow_table(matrix())), matrix()


class TestLargeMixedPandas(TestLargePolars):
    def make(self, folder):
        X = np.round(matrix())
        return as_source(pandas_frame(X).astype({"b": "int32", "c": "Float32"})), X


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_on_a_frame_is_that_on_its_array_and_keeps_the_names(kind, toy, tmp_path):
    X = toy[:, :7]
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(kind(X))
    same = DictionaryLearning(3, n_epochs=1, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, same.components_)
    assert list(model.feature_names_in_) == NAMES
    model.save(tmp_path / "a.somf")
    assert list(somf.load(tmp_path / "a.somf").feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="feature names"):
        model.transform(
            kind(X)[NAMES[::-1]] if kind is pandas_frame else kind(X).select(NAMES[::-1])
        )


@pytest.mark.parametrize("kind", KINDS)
def test_float32_stays_float32(kind):
    assert as_source(kind(matrix().astype(np.float32))).dtype == np.float32


def test_a_frame_of_pandas_in_one_block_is_not_copied():
    frame = pandas_frame(matrix())
    source = as_source(frame)
    assert isinstance(source, ArraySource)
    assert np.shares_memory(source.X, frame["c"].to_numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_mixed_to_the_one_that_holds_them_all(kind):
    pytest.importorskip("polars", reason=REASON)
    columns = {
        "a": np.array([1, 2], dtype=np.int16),
        "b": np.array([True, False]),
        "c": np.array([0.5, 2.5], dtype=np.float32),
    }
    library = pytest.importorskip(kind.__name__.partition("_")[0].replace("arrow", "pyarrow"))
    make = library.table if kind is arrow_table else library.DataFrame
    source = as_source(make(columns))
    assert source.dtype == np.float32
    np.testing.assert_array_equal(source.rows(np.arange(2)), [[1, 1, 0.5], [2, 0, 2.5]])


def with_nulls(library):
    columns = {"a": [1.5, 2.5, 3.5], "b": [1, None, 3], "c": [True, None, False]}
    if library == "pandas":
        pandas = pytest.importorskip("pandas", reason=REASON)
        return pandas.DataFrame(columns).astype({"b": "Int64", "c": "boolean"})
    module = pytest.importorskip(library, reason=REASON)
    return (module.table if library == "pyarrow" else module.DataFrame)(columns)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_nulls_are_unknown_entries_or_an_error_that_names_row_and_column(library):
    frame = with_nulls(library)
    expected = [[1.5, 1, 1], [2.5, np.nan, np.nan], [3.5, 3, 0]]
    np.testing.assert_array_equal(as_source(frame).rows(np.arange(3)), expected)
    with pytest.raises(NotFiniteError, match="NaN in row 1, feature 'b'"):
        DictionaryLearning(1, reduction=1).fit(frame)
    DictionaryLearning(1, missing="nan", n_epochs=1).fit(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_not_numeric_is_named(kind):
    library = pytest.importorskip(kind.__name__.partition("_")[0].replace("arrow", "pyarrow"))
    make = library.table if kind is arrow_table else library.DataFrame
    dates = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
    for column in (["x", "y"], dates):
        with pytest.raises(DataError, match=r"X must be numeric, got .* in the column 'city'"):
            as_source(make({"a": [1.0, 2.0], "city": column}))


@pytest.mark.parametrize("kind", KINDS)
def test_decimals_are_numbers(kind):
    library = pytest.importorskip(kind.__name__.partition("_")[0].replace("arrow", "pyarrow"))
    make = library.table if kind is arrow_table else library.DataFrame
    source = as_source(make({"a": [Decimal("1.25"), None], "b": [1, 2]}))
    np.testing.assert_array_equal(source.rows(np.arange(2)), [[1.25, 1], [np.nan, 2]])


def test_a_query_of_polars_must_be_collected():
    with pytest.raises(DataError, match=r"got a query: X\.collect\(\)"):
        as_source(polars_frame(matrix()).lazy())


def test_a_sparse_frame_of_pandas_stays_sparse():
    pandas = pytest.importorskip("pandas", reason=REASON)
    frame = pandas.DataFrame.sparse.from_spmatrix(sp.csr_matrix(matrix()), columns=NAMES)
    source = as_source(frame)
    assert isinstance(source, CsrSource)
    np.testing.assert_array_equal(source.X.toarray(), matrix())
    assert source.feature_names == NAMES


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_codes_come_out_as_a_frame(container, toy):
    library = pytest.importorskip(container, reason=REASON)
    model = DictionaryLearning(3, n_epochs=1, random_state=0).set_output(transform=container)
    codes = model.fit_transform(polars_frame(toy[:, :7]))
    assert isinstance(codes, library.DataFrame)
    assert list(codes.columns) == [f"dictionarylearning{i}" for i in range(3)]
    np.testing.assert_allclose(
        model.inverse_transform(codes), codes.to_numpy() @ model.components_, rtol=1e-6
    )


def test_a_frame_of_dask_is_computed_by_partitions():
    frames_of_dask = pytest.importorskip("dask.dataframe", reason="it comes with dask[dataframe]")
    frame = frames_of_dask.from_pandas(pandas_frame(matrix()), npartitions=3)
    source = as_source(frame)
    np.testing.assert_array_equal(source.rows(np.arange(23)), matrix())
    assert source.feature_names == NAMES
    model = DictionaryLearning(2, n_epochs=1, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == NAMES


@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_the_index_of_a_frame_that_became_a_table_is_not_a_feature(kind):
    arrow = pytest.importorskip("pyarrow", reason=REASON)
    frame = pandas_frame(matrix())
    frame.index = [7 * i % 100 for i in range(23)]
    table = getattr(arrow, kind).from_pandas(frame)
    source = as_source(table)
    assert source.feature_names == NAMES
    np.testing.assert_array_equal(source.rows(np.arange(23)), matrix())
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(table)
    assert list(model.feature_names_in_) == NAMES
    np.testing.assert_array_equal(model.transform(table), model.transform(frame))


@pytest.mark.parametrize("fill", [1.0, np.nan])
def test_sparse_columns_that_leave_out_another_number_than_zero_are_converted(fill):
    pandas = pytest.importorskip("pandas", reason=REASON)
    X = np.where(matrix() > 0.5, matrix(), fill)
    source = as_source(pandas_frame(X).astype(pandas.SparseDtype(float, fill)))
    np.testing.assert_array_equal(source.rows(np.arange(23)), X)
