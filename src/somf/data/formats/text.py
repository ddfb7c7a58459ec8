"""Tables of text: CSV, TSV and their relatives, converted once to a binary scratch file."""

import csv
import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from somf.data.formats.arrow import matrix_of
from somf.data.formats.checks import guarded
from somf.data.formats.kinds import ending_of
from somf.data.formats.streams import most_inflated, open_bounded
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.errors import DamagedFileError, DataWarning, FileRequestError
from somf.optional import import_optional
from somf.scratch import ScratchRows

logger = logging.getLogger("somf")

LONGEST_LINE = 2**26
"""Bytes of a line, at most."""

N_LINES = 4
"""Lines that tell how a table is written."""

BLOCK_BYTES = 2**23
"""Bytes that are parsed at once, at least."""

LINES_PER_BLOCK = 8
"""Lines that are parsed at once, at least."""

FEWEST_NUMBERED = 3
"""Columns from which on a first line of 0, 1, 2, … looks like the header that pandas writes."""

FEWEST_IN_ORDER = 8
"""Columns from which on a first line of rising or falling numbers looks like wavelengths."""

WRONG_CELL = re.compile(r"column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", re.DOTALL)
"""What pyarrow says of text in a column of numbers; columns are counted from zero."""

NULLS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None")
"""What stands for a missing number."""


@dataclass(frozen=True)
class TextLayout:
    """How a table is written.

    Attributes
    ----------
    delimiter : str
    n_columns : int
        With that of names of rows.
    names : list of str or None
        Those of all columns, if the table has a header.
    n_skipped : int
        Lines before the first row.
    has_row_names : bool
        Whether the first column holds names of rows, and no feature.
    decimal_point : str
    line_bytes : int
        Bytes of the longest of the first lines.
    """

    delimiter: str
    n_columns: int
    names: list[str] | None
    n_skipped: int
    has_row_names: bool
    decimal_point: str
    line_bytes: int


def text_source(path: str, dtype: Any, transposed: bool, header: bool | None = None) -> Source:
    """Convert a table of text to numbers, in memory or, if there are many, in a scratch file.

    Parameters
    ----------
    path : str
        May be compressed by gzip.
    dtype : numpy.dtype, optional
        Floating; by default float64.
    transposed : bool
        Whether rows are features, and columns samples.
    header : bool, optional
        Whether the first line has names; by default it does if one of its cells is not a number.
    """
    import_optional("pyarrow.csv", "arrow", "A table of text")
    numbers = np.dtype(np.float64 if dtype is None else dtype)
    if numbers not in (np.float32, np.float64):
        raise FileRequestError(
            path, "dtype", f"be float32 or float64 for {path!r}", dtype, got=str(numbers)
        )
    with guarded(path, "a table of numbers"):
        layout = _layout(path, header)
        logger.info("converting %s from text once; a binary file would save that", path)
        rows, row_names = _converted(path, layout, numbers)
        X = rows.finish()
    source = ArraySource(X.T if transposed else X)
    column_names = None if layout.names is None else layout.names[layout.has_row_names :]
    source.feature_names = (row_names or None) if transposed else column_names
    return source


def _converted(
    path: str, layout: TextLayout, dtype: np.dtype[Any]
) -> tuple[ScratchRows, list[str]]:
    """Return all rows, and their names if the table has them."""
    pa = import_optional("pyarrow", "arrow", "A table of text")
    names = [str(i) for i in range(layout.n_columns - layout.has_row_names)]
    rows, row_names = ScratchRows(len(names), dtype), []
    with (
        _opened(path, layout.delimiter) as file,
        _named(path, layout),
        _reader(file, layout) as reader,
    ):
        for batch in reader:
            columns = batch.columns[layout.has_row_names :]
            if layout.has_row_names:
                row_names += batch.column(0).to_pylist()
            rows.append(matrix_of(pa.Table.from_arrays(columns, names), dtype))
    if rows.n_rows == 0:
        raise ValueError("it has no rows")
    return rows, row_names


def _opened(path: str, delimiter: str) -> BinaryIO:
    """Open a table; where spaces are the delimiter, any number of them is one space."""
    file = open_bounded(path, most_inflated(path))
    return io.BufferedReader(_SingleSpaces(file)) if delimiter == " " else file


class _SingleSpaces(io.RawIOBase):
    """Lines of another file, with one space between words, and none before and after them."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file, self._waiting = file, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "io.Buffer") -> int:  # type: ignore[name-defined] # Python 3.12
        if not self._waiting and (line := self._file.readline(LONGEST_LINE)):
            if len(line) == LONGEST_LINE:
                raise ValueError("it is not text in lines")
            self._waiting = b" ".join(line.split()) + b"\n"
        view = memoryview(buffer)
        n_read = min(len(view), len(self._waiting))
        view[:n_read] = self._waiting[:n_read]
        self._waiting = self._waiting[n_read:]
        return n_read

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def _named(path: str, layout: TextLayout) -> Iterator[None]:
    """Turn pyarrow's error about text in a column into one that has the name of the column."""
    try:
        yield
    except ValueError as error:
        wrong = WRONG_CELL.search(str(error))
        if wrong is None:
            raise
        where = "" if wrong[2] is None else f" in line {wrong[2]}"
        raise _not_a_number(path, layout, int(wrong[1]), f"{wrong[3]!r}{where}") from error


def _reader(file: BinaryIO, layout: TextLayout) -> Any:
    pa = import_optional("pyarrow", "arrow", "A table of text")
    pa_csv = import_optional("pyarrow.csv", "arrow", "A table of text")
    names = [str(i) for i in range(layout.n_columns)]  # those in the file may repeat
    types = dict.fromkeys(names, pa.float64())
    if layout.has_row_names:
        types[names[0]] = pa.string()
    return pa_csv.open_csv(
        file,
        read_options=pa_csv.ReadOptions(
            use_threads=False,
            block_size=max(BLOCK_BYTES, LINES_PER_BLOCK * layout.line_bytes),
            skip_rows=layout.n_skipped,
            column_names=names,
        ),
        parse_options=pa_csv.ParseOptions(delimiter=layout.delimiter),
        convert_options=pa_csv.ConvertOptions(
            column_types=types, null_values=list(NULLS), decimal_point=layout.decimal_point
        ),
    )


def _layout(path: str, header: bool | None) -> TextLayout:
    """Find out how a table is written, from its first lines."""
    lines, n_before = _first_lines(path)
    delimiter = "\t" if _is_tsv(path) else _delimiter(lines)
    if delimiter == " ":
        lines = [" ".join(line.split()) for line in lines]
    cells = [next(csv.reader([line], delimiter=delimiter)) for line in lines]
    point = _decimal_point(cells) if delimiter == ";" else "."
    looks_like_names = not all(_is_number(cell, point) for cell in cells[0])
    has_header = looks_like_names if header is None else header
    names, body = ([cell.strip() for cell in cells[0]], cells[1:]) if has_header else (None, cells)
    if not body:
        raise ValueError("it has no rows")
    if names is not None and len(body[0]) == len(names) + 1:  # as R writes names of rows
        names = ["", *names]
    if names is not None and len(names) != len(body[0]):
        raise ValueError(f"its header has {len(names)} columns, its first row {len(body[0])}")
    layout = TextLayout(
        delimiter=delimiter,
        n_columns=len(body[0]),
        names=names,
        n_skipped=n_before + has_header,
        has_row_names=names is not None and len(names) > 1 and names[0] == "",
        decimal_point=point,
        line_bytes=max(len(line.encode()) for line in lines),
    )
    _check_first_row(path, layout, body[0])
    if header is None and names is None and _may_be_header(body, point):
        warnings.warn(
            f"The first line of {path!r} is taken for a sample, but may be a header: its numbers "
            "are in order, unlike those of the next lines. If it is one, pass header=True to "
            "open_source, or --header to the command; if not, header=False.",
            DataWarning,
            stacklevel=4,
        )
    return layout


def _first_lines(path: str) -> tuple[list[str], int]:
    """Return the first lines with cells, and how many lines are before them.

    Empty lines, and comments that begin with #, may be before them.
    """
    lines: list[str] = []
    n_before = 0
    with open_bounded(path, most_inflated(path)) as file:
        while len(lines) < N_LINES and (line := file.readline(LONGEST_LINE)):
            if len(line) == LONGEST_LINE:
                raise ValueError("it is not text in lines")
            if b"\0" in line:  # as in UTF-16
                raise ValueError("it is not text in UTF-8")
            text = _decoded(line)
            if text.strip() and not (not lines and text.startswith("#")):
                lines.append(text)
            elif not lines:
                n_before += 1
    if not lines:
        raise ValueError("it is empty")
    return lines, n_before


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError("it is not text in UTF-8") from error


def _is_tsv(path: str) -> bool:
    name = path[: -len(".gz")] if path.lower().endswith(".gz") else path
    return ending_of(name) in (".tsv", ".tab")


def _delimiter(lines: Sequence[str]) -> str:
    """Return what cuts all lines into as many cells; a header may have one cell less."""
    for delimiter in ("\t", ";", ",", " "):
        # There may be several spaces between cells, and some before the first.
        is_space = delimiter == " "
        counts = [len(line.split()) - 1 if is_space else line.count(delimiter) for line in lines]
        if min(counts[1:] or counts) > 0 and len(set(counts[1:])) <= 1:
            return delimiter
    return ","


def _decimal_point(rows: Sequence[Sequence[str]]) -> str:
    """Return the decimal point of a table whose delimiter is not a comma."""
    if any("," in cell for row in rows[1:] for cell in row):
        return ","
    # A first line of numbers with commas is no header, if the next ones have whole numbers.
    has_points = any("." in cell for row in rows[1:] for cell in row)
    is_first = any("," in cell for cell in rows[0]) and all(_is_number(c, ",") for c in rows[0])
    return "," if is_first and not has_points else "."


def _is_number(cell: str, decimal_point: str) -> bool:
    text = cell.strip()
    try:
        float(text.replace(",", ".") if decimal_point == "," else text)
    except ValueError:
        return text in NULLS and text != ""
    return True


def _may_be_header(rows: Sequence[Sequence[str]], decimal_point: str) -> bool:
    """Return whether only the first row is in order, as wavelengths or numbers of columns are."""
    if len(rows) < 2:
        return False
    is_numbered = [cell.strip() for cell in rows[0]] == [str(i) for i in range(len(rows[0]))]
    if len(rows[0]) < (FEWEST_NUMBERED if is_numbered else FEWEST_IN_ORDER):
        return False
    first, *others = (_is_in_order(row, decimal_point) for row in rows)
    return first and not any(others)


def _is_in_order(row: Sequence[str], decimal_point: str) -> bool:
    """Return whether the numbers of a row only rise, or only fall."""
    try:
        numbers = np.array([float(cell.replace(decimal_point, ".")) for cell in row])
    except ValueError:
        return False
    steps = np.diff(numbers)
    return bool(np.all(steps > 0) or np.all(steps < 0))


def _check_first_row(path: str, layout: TextLayout, row: Sequence[str]) -> None:
    """Raise DamagedFileError, with the name of the column, if the first row has text."""
    for i, cell in enumerate(row):
        is_name = i == 0 and layout.has_row_names
        if is_name or not cell.strip() or _is_number(cell, layout.decimal_point):
            continue
        raise _not_a_number(path, layout, i, f"{cell!r} in the first row")


def _not_a_number(path: str, layout: TextLayout, i: int, got: str) -> DamagedFileError:
    """Return the error that a column holds text."""
    name = f"{i + 1}" if layout.names is None else repr(layout.names[i])
    hint = " If it holds names of rows, leave its name in the header empty." if i == 0 else ""
    return DamagedFileError(
        f"Column {name} of {path!r} must hold numbers, got {got}. Leave it out of the file.{hint}"
    )
