"""Objects with slices as sources."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import SlicedSource, as_source
from tests.helpers.source_contract import SourceContract, matrix


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


def test_an_error_of_a_users_object_is_left_as_it_is():
    class Broken:
        shape, dtype = (300, 60), np.dtype(float)

        def __getitem__(self, rows):
            raise KeyError("no such rows")

    with pytest.raises(KeyError, match="no such rows"):
        DictionaryLearning(4).fit(Broken())
