"""Tables of text, good and damaged ones."""

import gzip
import logging

import numpy as np
import pytest

from somf import NMF
from somf.data import open_source
from somf.errors import DataWarning, NotFiniteError
from tests.helpers.files import fails, is_refused
from tests.helpers.source_contract import SourceContract, matrix

pytest.importorskip("pyarrow", reason="tables of text need somf[arrow]")

NAMES = [f"band {i}" for i in range(7)]


def write_csv(path, X, header=None, delimiter=",", row_names=False):
    """Write a table; return its path."""
    lines = [] if header is None else [delimiter.join([*([""] * row_names), *header])]
    for i, row in enumerate(X):
        names = [f"row {i}"] if row_names else []
        lines.append(delimiter.join([*names, *(repr(float(x)) for x in row)]))
    content = "\n".join([*lines, ""]).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


class TestCsvFile(SourceContract):
    def make(self, folder):
        source = open_source(write_csv(folder / "X.csv", matrix(), NAMES))
        assert source.feature_names == NAMES
        return source, matrix()


class TestCsvFileInAScratchFile(SourceContract):
    @pytest.fixture(autouse=True)
    def small_memory(self, monkeypatch):
        monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 100)
        monkeypatch.setattr("somf.data.formats.text.BLOCK_BYTES", 300)

    def make(self, folder):
        source = open_source(write_csv(folder / "X.csv", matrix()), dtype="float32")
        assert isinstance(source.X, np.memmap)
        return source, matrix().astype(np.float32)


class TestTransposedTsvFile(SourceContract):
    def make(self, folder):
        path = write_csv(folder / "X.tsv.gz", matrix().T, "x" * 23, "\t", row_names=True)
        source = open_source(path, transposed=True)
        assert source.feature_names == [f"row {i}" for i in range(7)]
        return source, matrix()


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("1,2.5\n3,4\n", None),
        ("1 2.5\n3 4\n", None),
        ("# made by a spectrometer\n\n1;2,5\n3;4,0\n", None),
        ("a\tb\r\n1\t2.5\r\n3\t4\r\n", ["a", "b"]),
        ('\ufeff"a, b";c\n1;2.5\n3;4', ["a, b", "c"]),
        (",a,a\n0,1,2.5\n1,3,4\n", ["a", "a"]),  # pandas
        ('"a" "b"\n"first" 1 2.5\n"second" 3 4\n', ["a", "b"]),  # R
        ("a,b\n\n1,2.5\n3,4\n", ["a", "b"]),
        ("  1   2.5\n  3     4\n", None),
        ("a    b\n1  2.5 \n3    4", ["a", "b"]),
    ],
)
def test_ways_to_write_a_table_are_recognised(tmp_path, content, names):
    (tmp_path / "X.txt").write_bytes(content.encode())
    source = open_source(tmp_path / "X.txt")
    np.testing.assert_array_equal(source.rows(np.arange(2)), [[1, 2.5], [3, 4]])
    assert source.feature_names == names


def test_a_header_of_numbers_has_to_be_declared(tmp_path):
    (tmp_path / "X.csv").write_text("400,410\n1,2\n3,4\n")
    assert open_source(tmp_path / "X.csv").shape == (3, 2)
    declared = open_source(tmp_path / "X.csv", header=True)
    assert declared.shape == (2, 2)
    assert declared.feature_names == ["400", "410"]
    assert NMF(1, n_epochs=1).fit(declared).feature_names_in_.tolist() == ["400", "410"]


def test_a_first_line_that_is_declared_to_be_a_sample_must_have_numbers(tmp_path):
    (tmp_path / "X.csv").write_text("a,b\n1,2\n3,4\n")
    fails(tmp_path / "X.csv", "Column 1 of .* must hold numbers, got 'a' in", header=False)


def test_the_conversion_is_announced(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="somf"):
        open_source(write_csv(tmp_path / "X.csv", matrix()))
    assert "from text once" in caplog.text


def test_a_missing_number_is_nan_and_named_with_its_row(tmp_path):
    (tmp_path / "X.csv").write_text("a,b\n1,2\n3,4\n5,\nNA,\n")
    rows = open_source(tmp_path / "X.csv").rows(np.arange(4))
    np.testing.assert_array_equal(np.isnan(rows).nonzero(), [[2, 3, 3], [1, 0, 1]])
    with pytest.raises(NotFiniteError, match=r"NaN in row [23]") as caught:
        NMF(1, n_epochs=1).fit(open_source(tmp_path / "X.csv"))
    assert caught.value.row in (2, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a table of numbers, or is damaged: it is empty"),
        (b"a,b\n", "it has no rows"),
        (b"\0\1\2\3", "it is not text"),
        (b"a,b\n\xff\xfe,2\n", "it is not text in UTF-8"),
        (b"1,2\n3\n", "Row #2: Expected 2 columns, got 1"),
        (b"a,b,c\n1,2\n3,4\n", "its header has 3 columns, its first row 2"),
        (b"a,b\n1,2\n3,x\n", "Column 'b' of .* must hold numbers, got 'x' in line 3. Leave it out"),
        ("a,b\n1,2\n".encode("utf-16"), "it is not text in UTF-8"),
        (
            b"gene,b\nTP53,2\nACTB,3\n",
            "Column 'gene' .* must hold numbers, got 'TP53'.*names of",
        ),
        (b"a,b\n1,u\n", "Column 'b' of .* must hold numbers, got 'u' in the first row"),
        (b"a,b\n1," + b"5" * 200_000 + b"\n", "field larger than field limit"),
    ],
)
def test_a_table_that_does_not_hold_numbers_is_named(tmp_path, content, message):
    (tmp_path / "X.csv").write_bytes(content)
    fails(tmp_path / "X.csv", message)


def test_a_truncated_or_corrupted_archive_is_named(tmp_path):
    path = write_csv(tmp_path / "X.csv.gz", np.random.default_rng(0).random((200, 5)))
    content = path.read_bytes()
    for damaged in (content[:-20], content[:100] + b"\0" * 20 + content[120:]):
        path.write_bytes(damaged)
        fails(path, "is not a table of numbers, or is damaged")


def test_an_archive_that_expands_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("somf.data.formats.streams.SMALL", 2**16)
    write_csv(tmp_path / "X.csv.gz", np.zeros((20_000, 5)))
    fails(tmp_path / "X.csv.gz", "expands to more than 65,536 bytes. If it is fine, decompress it")


def test_numbers_are_converted_to_a_floating_type(tmp_path):
    write_csv(tmp_path / "X.csv", matrix())
    is_refused(tmp_path / "X.csv", "dtype must be float32 or float64", dtype=int)
    is_refused(tmp_path / "X.csv", "shape must not be given", shape=(23, 7))
    is_refused(tmp_path / "X.csv", "dataset must not be given", dataset="X")


@pytest.mark.parametrize(
    "header",
    ["0,1,2,3,4,5,6", "400.5,410.5,420.5,430.5,440.5,450.5,460.5,470.5"],
    ids=["numbers of columns, as pandas writes them", "wavelengths"],
)
def test_a_first_line_of_numbers_in_order_may_be_a_header_says_a_warning(tmp_path, header):
    X = np.resize(matrix(), (20, header.count(",") + 1))
    path = write_csv(tmp_path / "X.csv", X, header.split(","))
    with pytest.warns(DataWarning, match="may be a header: .* header=True .* --header"):
        assert open_source(path).shape == (21, X.shape[1])
    np.testing.assert_array_equal(open_source(path, header=True).rows(np.arange(20)), X)
    assert open_source(path, header=False).shape == (21, X.shape[1])


@pytest.mark.parametrize(
    "X",
    [np.cumsum(np.ones((5, 9)), axis=1), np.eye(3, 7) - 5, [[1, 2], [9, 5]]],
    ids=["all rows rise", "no row rises", "two columns"],
)
def test_samples_that_rise_by_chance_or_all_of_them_raise_no_warning(tmp_path, X):
    assert open_source(write_csv(tmp_path / "X.csv", np.array(X))).shape == np.shape(X)


def test_a_decimal_comma_in_the_first_line_alone_is_recognised(tmp_path):
    (tmp_path / "X.csv").write_text("1,5;2\n3;4\n5;6\n")
    rows = open_source(tmp_path / "X.csv").rows(np.arange(3))
    np.testing.assert_array_equal(rows, [[1.5, 2], [3, 4], [5, 6]])


def test_spaces_around_the_names_in_a_header_are_left_out(tmp_path):
    (tmp_path / "X.csv").write_text("a, b, c\n1, 2, 3\n")
    assert open_source(tmp_path / "X.csv").feature_names == ["a", "b", "c"]
