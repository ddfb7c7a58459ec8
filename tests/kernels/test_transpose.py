"""Parts of matrices, transposed."""

import numpy as np
import pytest

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.transpose import BLOCK, transpose


@jit
def copy(A, corner, out, corner_of_out, shape):
    transpose(A, corner, out, corner_of_out, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(0, 3), (1, 1), (BLOCK, BLOCK), (BLOCK - 1, 2 * BLOCK + 3), (3 * BLOCK + 5, BLOCK)]
)
def test_a_part_becomes_its_transpose_and_nothing_else_changes(shape, dtype):
    m, n = shape
    rng = np.random.default_rng(0)
    A, out = (rng.standard_normal((40, 50)).astype(dtype)[:, :47] for _ in range(2))
    expected = out.copy()
    expected[4 : 4 + n, 1 : 1 + m] = A[2 : 2 + m, 5 : 5 + n].T
    copy(A, (2, 5), out, (4, 1), shape)
    np.testing.assert_array_equal(out, expected)
