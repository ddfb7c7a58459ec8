"""Products inside compiled functions are those of NumPy, in one call of BLAS or in tiles."""

import numpy as np
import pytest

from somf.kernels.cpu.blas import TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, add_gram, add_product, mirror
from somf.kernels.cpu.jit import jit

SHAPES = [
    (5, 3, 2),
    (4, 6, 0),
    (TILE_ROWS, TILE_COLUMNS, TILE_DEPTH),
    (TILE_ROWS + 1, TILE_COLUMNS + 1, TILE_DEPTH + 1),
    (150, 70, 500),
]
"""m, n, q: below a tile, without a sum, a tile, parts of tiles."""


@jit
def product(A, transpose_A, B, beta, C):
    add_product(A, transpose_A, B, beta, C)


@jit
def gram(A, beta, C):
    add_gram(A, beta, C)
    mirror(C)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize(("m", "n", "q"), SHAPES)
def test_a_product_of_slices_is_that_of_numpy(m, n, q, transpose_A, beta, dtype):
    rng = np.random.default_rng(0)
    A, B, C = (
        rng.standard_normal((rows, columns + 3)).astype(dtype)[:, :columns]
        for rows, columns in ((q, m) if transpose_A else (m, q), (q, n), (m, n))
    )
    expected = beta * C + (A.T if transpose_A else A) @ B
    product(A, transpose_A, B, beta, C)
    np.testing.assert_allclose(C, expected, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "q"), [(3, 5), (32, 300), (33, 241), (130, 700)])
def test_a_gram_matrix_is_that_of_numpy(m, q, dtype):
    rng = np.random.default_rng(0)
    A, C = rng.standard_normal((q, m)).astype(dtype), np.eye(m, dtype=dtype)
    expected = 0.5 * C + A.T @ A
    gram(A, 0.5, C)
    np.testing.assert_allclose(C, expected, atol=1e4 * np.finfo(dtype).eps)
