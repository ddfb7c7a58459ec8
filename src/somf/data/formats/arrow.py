"""Tables of columns: Parquet, Feather and Arrow, read in row groups or record batches."""

import logging
import os
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from somf.data.formats.checks import SMALL, check_claim, guarded
from somf.data.order import LARGEST_CHUNK
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.frames import index_of_pandas
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError
from somf.optional import import_optional
from somf.scratch import ScratchRows
from somf.typing import Array

logger = logging.getLogger("somf")

SMALL_TABLE = 2**28
"""Bytes of a table that is unpacked into memory: the buffer of its chunks would take as much."""

WIDE = 256
"""Columns, more than which are unpacked once. To read a column of a row group, pyarrow takes some
30 µs, however short it is, which an epoch would pay for every column and row group."""

PURPOSE = "A table of columns"
"""What needs pyarrow."""


def parquet_source(path: str, transposed: bool) -> Source:
    """Open a Parquet file, whose row groups are chunks.

    Parameters
    ----------
    path : str
    transposed : bool
        Whether columns are samples, and rows features.
    """
    parquet = import_optional("pyarrow.parquet", "arrow", PURPOSE)
    with guarded(path, "a Parquet file"):
        file = parquet.ParquetFile(path)
        columns = feature_columns(path, file.schema_arrow)
        metadata = file.metadata
        lengths = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        schema = file.schema_arrow

        def read(number: int) -> Any:
            table = file.read_row_group(number, use_threads=False)
            return table if len(columns) == table.num_columns else table.select(columns)

        table = StoredTable(schema, columns, lengths, read)
        return _table_source(path, table, transposed)


def arrow_source(path: str, transposed: bool) -> Source:
    """Open a file of Arrow's record batches (Feather 2), which are chunks.

    Parameters
    ----------
    path : str
    transposed : bool
        Whether columns are samples, and rows features.
    """
    pa = import_optional("pyarrow", "arrow", PURPOSE)
    ipc = import_optional("pyarrow.ipc", "arrow", PURPOSE)
    with guarded(path, "a Feather or Arrow file"):
        with open(path, "rb") as start:
            if start.read(4) == b"FEA1":
                raise DamagedFileError(
                    f"{path!r} is of version 1 of Feather, which cannot be read. Write it again: "
                    "pyarrow.feather.write_feather(pyarrow.feather.read_table(old), new)."
                )
        schema = ipc.open_file(path).schema
        columns = feature_columns(path, schema)
        # One column tells how long the batches are; the others need not be decompressed for that.
        some = ipc.open_file(path, options=ipc.IpcReadOptions(included_fields=columns[:1]))
        lengths = [_batch(some, i).num_rows for i in range(some.num_record_batches)]
        file = ipc.open_file(path, options=ipc.IpcReadOptions(included_fields=columns))

        def read(number: int) -> Any:
            return pa.Table.from_batches([_batch(file, number)])

        table = StoredTable(schema, columns, lengths, read)
        return _table_source(path, table, transposed)


def _batch(file: Any, number: int) -> Any:
    """Return a record batch, after a check of the lengths of its buffers, which Arrow trusts."""
    pa = import_optional("pyarrow", "arrow", PURPOSE)
    try:
        batch = file.get_batch(number)
    except pa.ArrowMemoryError as error:  # a batch that was written needed no such memory
        raise ValueError(f"batch {number} declares too much: {error}") from error
    batch.validate()
    return batch


class StoredTable:
    """Columns of numbers as an array of which slices of rows can be read.

    Integers are read as floating numbers: entries that are missing are NaN.

    Parameters
    ----------
    schema : pyarrow.Schema
    columns : sequence of int
        The columns that are features.
    lengths : sequence of int
        Rows of every block that is read as a whole.
    read : callable
        Returns a block, given its number, as a table of the columns.
    """

    def __init__(
        self,
        schema: Any,
        columns: Sequence[int],
        lengths: Sequence[int],
        read: Callable[[int], Any],
    ) -> None:
        if min(lengths, default=0) < 0:
            raise ValueError("it declares a negative number of rows")
        names, types = schema.names, schema.types  # pyarrow makes a new list for every access
        self.names = [names[i] for i in columns]
        self.dtype = np.result_type(*{_floating(types[i]) for i in columns})
        self.shape = (sum(lengths), len(columns))
        self.chunks = (tuple(lengths), (len(columns),))
        self._edges = np.cumsum([0, *lengths])
        self._read, self._lock = read, Lock()  # pyarrow's readers are not safe in several threads

    def block(self, number: int) -> Array:
        """Return the rows of a block."""
        with self._lock:
            table = self._read(number)
        rows = matrix_of(table, self.dtype)
        expected = (int(self._edges[number + 1] - self._edges[number]), self.shape[1])
        if rows.shape != expected:
            raise ValueError(f"block {number} must be of shape {expected}, got {rows.shape}")
        return rows

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self._edges, start, side="right")) - 1
        last = int(np.searchsorted(self._edges, stop, side="left"))
        found = [np.empty((0, self.shape[1]), self.dtype)]
        for number in range(first, last):
            edge = int(self._edges[number])
            found.append(self.block(number)[max(0, start - edge) : stop - edge])
        return found[1] if len(found) == 2 else np.concatenate(found)


def _table_source(path: str, table: StoredTable, transposed: bool) -> Source:
    """Return a table as a source.

    It is unpacked once if it is small, if it is wide, or if its blocks are too large to be
    shuffled: columns take several times as long to read as rows.
    """
    row_bytes = table.shape[1] * table.dtype.itemsize
    n_bytes = table.shape[0] * row_bytes
    if n_bytes > SMALL:
        check_claim(path, n_bytes, os.path.getsize(path))
    largest = max(table.chunks[0], default=0)
    is_large = n_bytes > SMALL_TABLE and largest * row_bytes <= LARGEST_CHUNK
    if is_large and not transposed and table.shape[1] <= WIDE:
        source: Source = SlicedSource(table, path=path)
        source.feature_names = table.names
        return source
    logger.info("unpacking %s once, which has blocks of %d rows", path, largest)
    rows = ScratchRows(table.shape[1], table.dtype)
    for number in range(len(table.chunks[0])):
        rows.append(table.block(number))
    X = rows.finish()
    source = ArraySource(X.T if transposed else X)
    source.feature_names = None if transposed else table.names
    return source


def feature_columns(path: str, schema: Any) -> list[int]:
    """Return which columns are features: all but the index of a data frame of pandas.

    Raises
    ------
    DamagedFileError
        If a column does not hold real numbers, or if there is none.
    """
    types = import_optional("pyarrow.types", "arrow", PURPOSE)
    index = index_of_pandas(schema)
    names, kinds = schema.names, schema.types  # pyarrow makes a new list for every access
    columns = [i for i, name in enumerate(names) if name not in index]
    for i in columns:
        kind = kinds[i]
        known = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
        if not any(is_known(kind) for is_known in known):
            raise DamagedFileError(
                f"Column {names[i]!r} of {path!r} must hold real numbers, got {kind}. Leave "
                "it out of the file."
            )
    if not columns:
        raise DamagedFileError(f"{path!r} must have columns of numbers, got none.")
    if len(columns) < len(names):
        logger.info("%s: the index %s is not used as a feature", path, ", ".join(sorted(index)))
    return columns


def _floating(kind: Any) -> np.dtype[Any]:
    """Return the smallest floating type that holds all numbers of a type, where there is one."""
    types = import_optional("pyarrow.types", "arrow", PURPOSE)
    if types.is_decimal(kind):
        return np.dtype(np.float64)
    dtype = np.dtype(kind.to_pandas_dtype())
    return dtype if dtype.kind == "f" else np.result_type(dtype, np.float32)


def matrix_of(table: Any, dtype: np.dtype[Any]) -> Array:
    """Return columns of numbers as an array, with NaN where an entry is missing.

    Parameters
    ----------
    table : pyarrow.Table or pyarrow.RecordBatch
    dtype : numpy.dtype
        Floating.

    Returns
    -------
    X : ndarray of shape (n, p)
    """
    pa = import_optional("pyarrow", "arrow", PURPOSE)
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    kind = pa.from_numpy_dtype(dtype)
    # Names may repeat, which a cast by name would not allow.
    fields = [pa.field(str(i), kind) for i in range(table.num_columns)]
    columns = [c if c.type == kind else c.cast(kind, safe=False) for c in table.columns]
    batches = pa.Table.from_arrays(columns, schema=pa.schema(fields)).combine_chunks().to_batches()
    if not batches:
        return np.empty((0, table.num_columns), dtype)
    found: Array = batches[0].to_tensor(null_to_nan=True, row_major=True).to_numpy()
    return found
