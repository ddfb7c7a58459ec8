"""Ridge codes of samples that share a Gram matrix, or have Gram matrices of their own."""

import numpy as np
import pytest

from somf.kernels.cpu.ridge import LANES, MOST_GROUPED_ATOMS, solve_ridge
from somf.kernels.cpu.threads import threads
from somf.kernels.reference import objective_and_gap
from somf.penalties import CodePenalty
from somf.typing import Array


def problems(b: int, k: int, dtype: type) -> tuple[Array, Array]:
    rng = np.random.default_rng(b)
    A = rng.standard_normal((b, 3, k))  # of rank three: l2 makes the systems regular
    return (A.swapaxes(1, 2) @ A).astype(dtype), rng.standard_normal((b, k)).astype(dtype)


def solved(grams: Array, beta: Array, l2: float = 0.5) -> Array:
    """Return codes, after a look at their objectives and gaps."""
    code = np.full(beta.shape, np.nan, beta.dtype)
    sq_norm = np.ones(len(beta), beta.dtype)
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    assert solve_ridge(grams, beta, sq_norm, l2, code, objective, gap)
    penalty = CodePenalty(l2 / 2, 0.0, False)
    for i in range(len(beta)):
        G = grams[min(i, len(grams) - 1)]
        expected = objective_and_gap(G, beta[i], sq_norm[i], penalty, code[i])
        tol = 500 * np.finfo(beta.dtype).eps * (1 + abs(expected[0]))
        np.testing.assert_allclose([objective[i], gap[i]], expected, atol=tol)
    return code


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 9, MOST_GROUPED_ATOMS + 1])
@pytest.mark.parametrize("b", [0, 1, LANES - 1, LANES, 2 * LANES + 3])
@pytest.mark.parametrize("shared", [False, True])
def test_codes_solve_their_linear_systems(shared: bool, b: int, k: int, dtype: type) -> None:
    grams, beta = problems(b, k, dtype)
    grams = problems(1, k, dtype)[0] if shared else grams
    code = solved(grams, beta)
    left = (grams @ code[:, :, None])[:, :, 0] + 0.5 * code
    assert code.dtype == dtype
    np.testing.assert_allclose(left, beta, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("k", [4, MOST_GROUPED_ATOMS + 1])
@pytest.mark.parametrize("b", [1, 5])
def test_only_the_upper_triangle_of_a_gram_matrix_counts(b: int, k: int) -> None:
    grams, beta = problems(b, k, np.float64)
    codes = np.empty((2, b, k))
    for code, given in zip(codes, (grams, np.triu(grams)), strict=True):
        assert solve_ridge(given, beta, np.ones(b), 0.5, code, np.empty(b), np.empty(b))
    np.testing.assert_array_equal(*codes)


@pytest.mark.parametrize("k", [4, MOST_GROUPED_ATOMS + 1])
@pytest.mark.parametrize("shared", [False, True])
def test_systems_that_rounding_may_spoil_are_not_solved(shared: bool, k: int) -> None:
    grams, beta = problems(5, k, np.float64)
    grams = grams[:1] if shared else grams
    grams[-1] *= 1e16
    unused = (np.empty((5, k)), np.empty(5), np.empty(5))
    assert not solve_ridge(grams, beta, np.ones(5), 0.5, *unused)


@pytest.mark.parametrize("shared", [False, True])
def test_systems_that_are_not_positive_definite_are_not_solved(shared: bool) -> None:
    grams = np.array([[[1.0, 2.0], [2.0, 1.0]]] * (1 if shared else 3))
    unused = (np.empty((3, 2)), np.empty(3), np.empty(3))
    assert not solve_ridge(grams, np.ones((3, 2)), np.ones(3), 0.5, *unused)


@pytest.mark.parametrize(
    ("n_grams", "b", "k"),
    [(40 * LANES + 5, 40 * LANES + 5, 20), (50, 50, 50), (50, 50, 100), (1, 500, 100)],
)
def test_codes_are_the_same_on_any_number_of_threads(n_grams: int, b: int, k: int) -> None:
    grams, beta = problems(b, k, np.float32)
    codes = np.empty((2, *beta.shape), np.float32)
    for n_threads in (1, 2):
        with threads(n_threads):
            codes[n_threads - 1] = solved(grams[:n_grams], beta)
    np.testing.assert_array_equal(*codes)
