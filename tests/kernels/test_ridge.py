"""Ridge codes of samples with Gram matrices of their own."""

import numpy as np
import pytest

from somf.kernels.cpu.ridge import LANES, MOST_GROUPED_ATOMS, solve_ridge
from somf.kernels.cpu.threads import threads
from somf.typing import Array


def problems(b: int, k: int, dtype: type) -> tuple[Array, Array]:
    rng = np.random.default_rng(b)
    A = rng.standard_normal((b, 3, k))  # of rank three: l2 makes the systems regular
    return (A.swapaxes(1, 2) @ A).astype(dtype), rng.standard_normal((b, k)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 9, MOST_GROUPED_ATOMS + 1])
@pytest.mark.parametrize("b", [1, LANES - 1, LANES, 2 * LANES + 3])
def test_codes_solve_their_linear_systems(b: int, k: int, dtype: type) -> None:
    grams, beta = problems(b, k, dtype)
    code = np.full((b, k), np.nan, dtype)
    solve_ridge(grams, beta, 0.5, code)
    left = (grams @ code[:, :, None])[:, :, 0] + 0.5 * code
    assert code.dtype == dtype
    np.testing.assert_allclose(left, beta, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("k", [4, MOST_GROUPED_ATOMS + 1])
def test_only_the_upper_triangle_of_a_gram_matrix_counts(k: int) -> None:
    grams, beta = problems(5, k, np.float64)
    codes = np.empty((2, 5, k))
    solve_ridge(grams, beta, 0.5, codes[0])
    solve_ridge(np.triu(grams), beta, 0.5, codes[1])
    np.testing.assert_array_equal(*codes)


@pytest.mark.parametrize(("b", "k"), [(40 * LANES + 5, 20), (50, 50), (50, 100)])
def test_codes_are_the_same_on_any_number_of_threads(b: int, k: int) -> None:
    grams, beta = problems(b, k, np.float32)
    codes = np.empty((2, *beta.shape), np.float32)
    for n_threads in (1, 2):
        with threads(n_threads):
            solve_ridge(grams, beta, 0.5, codes[n_threads - 1])
    np.testing.assert_array_equal(*codes)
