"""Usage is counted, so that equal counts are equal."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf.inference.usage import usage_of

KINDS = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_matrix])


@KINDS
def test_the_most_used_atom_is_first_and_among_equals_that_of_the_largest_codes(kind):
    codes = np.zeros((10, 4), dtype=np.float32)
    codes[:3, 0], codes[:5, 1], codes[5:, 2] = 100, 1, -2
    found = usage_of(kind(codes))
    assert found.order.tolist() == [2, 1, 0, 3]
    np.testing.assert_array_equal(found.usage, [0.3, 0.5, 0.5, 0])
    np.testing.assert_allclose(found.size, [30, 0.5, 1, 0])
    assert found.density == 13 / 40
    assert found.n_unused == 1
    assert not found.is_dense


@KINDS
@pytest.mark.parametrize("n", [7, 800])
def test_codes_without_a_zero_are_dense_however_many_there_are(kind, n):
    codes = np.ones((n, 6))
    assert usage_of(kind(codes)).is_dense
    assert usage_of(kind(codes)).density == 1
    codes[n // 2, 3] = 0
    assert not usage_of(kind(codes)).is_dense


def test_zeros_that_a_sparse_matrix_stores_are_no_usage():
    codes = sp.csr_array(np.ones((4, 2)))
    codes.data[::2] = 0
    assert usage_of(codes).n_users.tolist() == [0, 4]
