"""One test-suite that every source inherits."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf.data import ArraySource, CsrSource, ImagePatches, Source, as_source


class SourceContract:
    """What any source has to do; subclasses say how to make one and what it must hold."""

    def make(self) -> tuple[Source, np.ndarray]:
        raise NotImplementedError

    def test_shape_and_type_are_those_of_the_rows(self):
        source, expected = self.make()
        assert source.shape == expected.shape
        assert source.rows(np.arange(2)).dtype == source.dtype

    def test_rows_come_in_the_order_asked_for(self):
        source, expected = self.make()
        for ids in ([0], [5, 2, 9], [3, 3], list(range(len(expected))), []):
            rows = source.rows(np.array(ids, dtype=np.int64))
            dense = rows.toarray() if sp.issparse(rows) else rows
            np.testing.assert_allclose(dense, expected[ids], rtol=1e-6, atol=1e-12)

    def test_rows_may_be_written_to(self):
        source, expected = self.make()
        rows = source.rows(np.arange(3))
        data = rows.data if sp.issparse(rows) else rows
        data[...] = 0
        again = source.rows(np.arange(3))
        dense = again.toarray() if sp.issparse(again) else again
        np.testing.assert_allclose(dense, expected[:3], rtol=1e-6, atol=1e-12)

    def test_a_source_is_its_own_source(self):
        source, _ = self.make()
        assert as_source(source) is source


def matrix():
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 7)) * (rng.random((12, 7)) < 0.5)


class TestArraySource(SourceContract):
    def make(self):
        return ArraySource(matrix()), matrix()


class TestIntegerArraySource(SourceContract):
    def make(self):
        X = (matrix() * 100).astype(np.int16)
        return ArraySource(X), X


class TestCsrSource(SourceContract):
    def make(self):
        return CsrSource(sp.csr_array(matrix())), matrix()


class TestImagePatches(SourceContract):
    def make(self):
        image = np.random.default_rng(0).random((6, 7, 2))
        patches = np.array(
            [image[i : i + 3, j : j + 2].ravel() for i in range(4) for j in range(6)]
        )
        patches -= patches.mean(axis=1, keepdims=True)
        patches /= np.linalg.norm(patches, axis=1, keepdims=True)
        return ImagePatches(image, (3, 2)), patches


def test_arrays_and_csr_matrices_are_not_copied():
    X = matrix()
    assert as_source(X).X is X
    sparse = sp.csr_matrix(X)
    assert np.shares_memory(as_source(sparse).X.data, sparse.data)


@pytest.mark.parametrize("kind", ["csc", "coo", "lil", "dok"])
def test_other_sparse_formats_become_csr(kind):
    source = as_source(sp.coo_array(matrix()).asformat(kind))
    np.testing.assert_array_equal(source.rows(np.arange(12)).toarray(), matrix())
