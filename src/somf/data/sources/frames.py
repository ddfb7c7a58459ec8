"""Data frames: pandas, polars, and tables of pyarrow."""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from somf.data.order import BUFFER_BYTES, LARGEST_CHUNK
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.lazy import DaskSource
from somf.data.sources.recognition import comes_from
from somf.data.sources.sparse import CsrSource
from somf.errors import DataError
from somf.typing import Array, Ints

RowReader: TypeAlias = Callable[[int, int], Array]
"""Returns some rows of a frame, from `start` to `stop`, as an array."""


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of a library that somf knows."""
    return (
        comes_from(X, "pandas", "DataFrame")
        or comes_from(X, "polars", "DataFrame", "LazyFrame")
        or comes_from(X, "pyarrow", "Table", "RecordBatch")
    )


def frame_source(frame: Any) -> Source:
    """Return the source of a data frame; its columns name the features.

    A frame of pandas that is one block of memory is used as it is. Others are converted: up to
    `BUFFER_BYTES` at once, larger ones a chunk of rows at a time, whenever the chunk is needed.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table or pyarrow.RecordBatch

    Raises
    ------
    DataError
        If a column does not hold real numbers; the message names it.
    """
    if comes_from(frame, "polars", "LazyFrame"):
        raise DataError("X must be a data frame, got a query: X.collect() computes it.")
    if comes_from(frame, "pandas", "DataFrame"):
        return _pandas_source(frame)
    is_polars = comes_from(frame, "polars", "DataFrame")
    if not is_polars:
        index = index_of_pandas(frame.schema)
        frame = frame.select([i for i, n in enumerate(frame.schema.names) if n not in index])
    dtype, read = _polars_reader(frame) if is_polars else _arrow_reader(frame)
    names = list(frame.columns if is_polars else frame.schema.names)
    return _converted(frame.shape, dtype, read, names)


def _converted(
    shape: tuple[int, int], dtype: np.dtype[Any], read: RowReader, names: list[Any]
) -> Source:
    """Return the source of a frame that is not one array."""
    if shape[0] * shape[1] * dtype.itemsize <= BUFFER_BYTES:
        return _named(ArraySource(read(0, shape[0])), names)
    return _named(FrameSource(shape, dtype, read), names)


def _named(source: Source, names: list[Any]) -> Source:
    """Return a source with the names of its features, if they are texts."""
    if names and all(isinstance(name, str) for name in names):
        source.feature_names = names
    return source


def dask_frame_source(frame: Any) -> Source:
    """Return the source of a data frame of Dask, whose partitions are computed to count rows.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    """
    lengths = frame.map_partitions(len).compute()
    return _named(DaskSource(frame.to_dask_array(lengths=list(lengths))), list(frame.columns))


class FrameSource(Source):
    """A large data frame, whose rows are converted a chunk at a time.

    Parameters
    ----------
    shape : tuple of (int, int)
    dtype : numpy.dtype
    read : callable
        Converts rows, from a first to a last one, to an array.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], read: RowReader) -> None:
        self.shape, self.dtype, self._read = shape, dtype, read
        size = max(1, LARGEST_CHUNK // 4 // (shape[1] * dtype.itemsize))
        self.chunk_starts = np.arange(0, shape[0], size)

    def rows(self, ids: Ints) -> Array:
        """Return samples as a new array."""
        rows = np.empty((len(ids), self.shape[1]), self.dtype)
        for i, row in enumerate(ids.tolist()):
            rows[i] = self._read(row, row + 1)[0]
        return rows

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array."""
        out[...] = self._read(start, stop)


# pandas


def _pandas_source(frame: Any) -> Source:
    names = list(frame.columns)
    dtypes = [
        _pandas_dtype(frame.iloc[:, i], dtype, names[i]) for i, dtype in enumerate(frame.dtypes)
    ]
    if names and all(_is_sparse_of_zeros(dtype) for dtype in frame.dtypes):
        return _named(CsrSource(sp.csr_array(frame.sparse.to_coo())), names)
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
    if _is_one_block(frame, dtype):
        return _named(ArraySource(np.asarray(frame)), names)
    missing = {"na_value": np.nan} if dtype.kind == "f" else {}

    def read(start: int, stop: int) -> Array:
        return np.asarray(frame.iloc[start:stop].to_numpy(dtype=dtype, **missing))

    return _converted(frame.shape, dtype, read, names)


def _is_sparse_of_zeros(dtype: Any) -> bool:
    """Return whether a column is sparse, and what it does not store is zero."""
    return comes_from(dtype, "pandas", "SparseDtype") and bool(dtype.fill_value == 0)


def _is_one_block(frame: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether all numbers lie in one array, so that NumPy needs no copy of them."""
    if 0 in frame.shape or any(other != dtype for other in frame.dtypes):
        return False
    return np.may_share_memory(np.asarray(frame.iloc[:1]), frame.iloc[:, 0].to_numpy())


def _pandas_dtype(column: Any, dtype: Any, name: Any) -> np.dtype[Any]:
    """Return the type of the numbers of a column; missing ones need a floating type."""
    if dtype == np.object_:
        try:
            column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise _not_numeric(name, dtype) from error
        return np.dtype(np.float64)
    if getattr(dtype, "kind", "O") not in "fiub":
        raise _not_numeric(name, dtype)
    if isinstance(dtype, np.dtype):
        return dtype
    is_sparse = comes_from(dtype, "pandas", "SparseDtype")
    known = dtype.subtype if is_sparse else dtype.numpy_dtype
    return _for_nulls(np.dtype(known), bool(column.isna().any()))


# polars


def _polars_reader(frame: Any) -> tuple[np.dtype[Any], RowReader]:
    polars = sys.modules["polars"]
    dtypes = []
    for column in frame.iter_columns():
        text = str(column.dtype)
        if not (column.dtype.is_numeric() or text == "Boolean"):
            raise _not_numeric(column.name, text)
        name = "bool" if text == "Boolean" else text.lower()
        name = "float64" if column.dtype.is_decimal() else name
        known = _dtype_named(name, column.name, text)
        dtypes.append(_for_nulls(known, column.null_count() > 0))
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
    names = {"bool": "Boolean", "uint": "UInt", "int": "Int", "float": "Float"}
    kind = dtype.name.rstrip("0123456789")
    target = getattr(polars, names[kind] + dtype.name.removeprefix(kind))

    def read(start: int, stop: int) -> Array:
        rows = frame.slice(start, stop - start).cast(target)
        return np.asarray(rows.to_numpy(order="c"), dtype=dtype)

    return dtype, read


# pyarrow


def index_of_pandas(schema: Any) -> set[str]:
    """Return the columns that were the index of a data frame of pandas, and are no features.

    Parameters
    ----------
    schema : pyarrow.Schema
    """
    described = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in described if isinstance(name, str)}


def _arrow_reader(table: Any) -> tuple[np.dtype[Any], RowReader]:
    dtypes = []
    for name, column in zip(table.schema.names, table.itercolumns(), strict=True):
        try:
            is_decimal = str(column.type).startswith("decimal")
            known = np.dtype("float64" if is_decimal else column.type.to_pandas_dtype())
        except (NotImplementedError, TypeError) as error:
            raise _not_numeric(name, column.type) from error
        if known.kind not in "fiub":
            raise _not_numeric(name, column.type)
        dtypes.append(_for_nulls(known, column.null_count > 0))
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)

    def read(start: int, stop: int) -> Array:
        rows = np.empty((stop - start, len(dtypes)), dtype)
        for i, column in enumerate(table.slice(start, stop - start).itercolumns()):
            is_flag = column.type == "bool" and column.null_count > 0
            is_decimal = str(column.type).startswith("decimal")
            target = "uint8" if is_flag else "float64" if is_decimal else column.type
            rows[:, i] = column.cast(target).to_numpy(zero_copy_only=False)
        return rows

    return dtype, read


def _dtype_named(name: str, column: str, text: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError as error:
        raise _not_numeric(column, text) from error


def _for_nulls(dtype: np.dtype[Any], has_nulls: bool) -> np.dtype[Any]:
    """Return the type of a column, floating if some entries are missing, which become NaN."""
    if not has_nulls or dtype.kind == "f":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def _not_numeric(column: Any, dtype: Any) -> DataError:
    return DataError(
        f"X must be numeric, got {dtype} in the column {column!r}. Leave the column out, or encode "
        "it as numbers."
    )
