"""The minibatches of CSR data are those that SciPy makes."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf.data.sparse_gather import gather_sparse

FLOAT32 = np.dtype(np.float32)


def by_scipy(X, positions, permutation, dtype):
    """Return rows with permuted columns, by SciPy alone."""
    rows = sp.csr_array(X[positions], dtype=dtype)
    rows.sum_duplicates()
    return (rows if permutation is None else rows[:, permutation]).tocsc()


def random_csr(n=30, p=17, density=0.3, dtype=np.float64, index=np.int32):
    rng = np.random.default_rng(0)
    dense = rng.integers(-20, 100, size=(n, p)) * (rng.random((n, p)) < density)
    X = sp.csr_array(dense.astype(dtype))
    indices, indptr = X.indices.astype(index), X.indptr.astype(index)
    return sp.csr_array((X.data, indices, indptr), shape=X.shape)


def assert_same(found, expected):
    assert found.format == "csc"
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.data, expected.data, rtol=1e-6)


@pytest.mark.parametrize("is_permuted", [False, True])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.int16, np.longdouble])
def test_a_minibatch_is_that_of_scipy(dtype, index, is_permuted):
    X, rng = random_csr(dtype=dtype, index=index), np.random.default_rng(1)
    positions = rng.integers(0, 30, size=11)  # in any order, with repetition
    permutation = rng.permutation(17) if is_permuted else None
    column = np.argsort(permutation) if is_permuted else None
    found = gather_sparse(X, positions, column, FLOAT32)
    assert_same(found.X, by_scipy(X, positions, permutation, FLOAT32))
    assert found.total == pytest.approx(found.X.data.sum(), rel=1e-5)
    assert found.least == min(0, found.X.data.min())


def test_repeated_entries_are_added_up():
    data, indices = np.arange(1.0, 8.0), np.array([2, 0, 2, 2, 1, 0, 0])
    X = sp.csr_array((data, indices, np.array([0, 4, 4, 7])), shape=(3, 4))
    positions = np.array([2, 1, 0, 2])
    found = gather_sparse(X, positions, None, FLOAT32).X
    np.testing.assert_array_equal(
        found.toarray(), [[13, 5, 0, 0], [0, 0, 0, 0], [2, 0, 8, 0], [13, 5, 0, 0]]
    )
    assert_same(found, by_scipy(X, positions, None, FLOAT32))


@pytest.mark.parametrize("positions", [[], [3, 3]])
def test_a_minibatch_without_entries_has_its_shape(positions):
    X = sp.csr_array((5, 7))
    found = gather_sparse(X, np.array(positions, dtype=np.int64), None, FLOAT32)
    assert found.X.shape == (len(positions), 7)
    assert (found.X.nnz, found.total, found.least) == (0, 0, 0)


@pytest.mark.parametrize(
    ("part", "place", "wrong"),
    [("indices", 3, 17), ("indices", 3, -1), ("indptr", 2, 10**6), ("indptr", 2, -1)],
)
def test_an_index_outside_is_found(part, place, wrong):
    X = random_csr(density=0.6)
    getattr(X, part)[place] = wrong
    assert gather_sparse(X, np.arange(5), None, FLOAT32) is None
    assert gather_sparse(X, np.arange(10, 20), None, FLOAT32) is not None  # only rows that it reads


def test_a_matrix_with_fewer_rows_than_it_claims_is_found():
    X = random_csr()
    X.indptr = X.indptr[:4]
    assert gather_sparse(X, np.arange(5), None, FLOAT32) is None


def test_indices_that_are_no_integers_are_found():
    X = random_csr()
    X.indices = X.indices.astype(float)
    assert gather_sparse(X, np.arange(5), None, FLOAT32) is None


@pytest.mark.parametrize("dtype", ["<f2", ">f2", ">f4", ">f8"])
def test_numbers_that_numba_cannot_read_are_converted(dtype):
    X, positions = random_csr(), np.array([7, 2, 2, 11])
    expected = gather_sparse(X, positions, None, FLOAT32).X.toarray()
    X.data, X.indices, X.indptr = (
        X.data.astype(dtype),
        X.indices.astype(">i4"),
        X.indptr.astype(">i8"),
    )
    found = gather_sparse(X, positions, None, FLOAT32).X.toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    X.indptr[3] = -1
    assert gather_sparse(X, positions, None, FLOAT32) is None


def test_an_entry_that_is_not_finite_shows_in_the_sum():
    X = random_csr()
    X.data[3] = np.nan
    assert np.isnan(gather_sparse(X, np.arange(30), None, FLOAT32).total)
