"""Type, columns and checks of minibatches."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf.data import Loader, as_source

X = np.random.default_rng(0).standard_normal((20, 6)) * np.array([1, 0, 1, 1, 0, 1])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_columns_are_permuted_and_types_converted(storage):
    permutation = np.random.default_rng(1).permutation(6)
    loader = Loader(as_source(storage(X)), np.dtype(np.float32), permutation)
    batch = loader.load(np.array([4, 2]))
    dense = batch if isinstance(batch, np.ndarray) else batch.toarray()
    np.testing.assert_array_equal(dense, X[[4, 2]][:, permutation].astype(np.float32))
    assert batch.dtype == np.float32
    assert sp.issparse(batch) == (storage is sp.csr_array)


def test_chunks_cover_the_samples_in_order(monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 6 * 3)
    ids = np.array([5, 1, 9, 0, 7, 3, 2])
    chunks = list(Loader(as_source(X), X.dtype).chunks(ids))
    assert [len(positions) for positions, _ in chunks] == [3, 3, 1]
    np.testing.assert_array_equal(np.vstack([rows for _, rows in chunks]), X[ids])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize(("bad", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "inf")])
def test_an_entry_that_is_not_finite_is_reported_with_its_row(storage, bad, name):
    broken = X.copy()
    broken[13, 2] = bad
    loader = Loader(as_source(storage(broken)), X.dtype, np.arange(6)[::-1].copy())
    loader.load(np.arange(13))
    with pytest.raises(ValueError, match=f"got {name}.* in row 13"):
        loader.load(np.array([2, 13, 5]))


def test_a_sum_that_overflows_is_not_mistaken_for_infinity():
    huge = np.full((4, 3), 1e308)
    np.testing.assert_array_equal(Loader(as_source(huge), huge.dtype).load(np.arange(4)), huge)
