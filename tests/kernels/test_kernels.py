"""One test suite for the kernels of all devices."""

import inspect
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from somf.kernels import Kernels, kernels_for, reference
from somf.kernels.cpu import kernels as cpu
from somf.kernels.host import to_host
from somf.kernels.pairs import unpacked
from somf.penalties import AtomBall, CodePenalty
from tests.helpers.gpu import NEEDS_CUDA, CudaOnHost

CUDA = pytest.param(CudaOnHost(), marks=NEEDS_CUDA)
DEVICES = ["reference", "cpu", pytest.param("cuda", marks=NEEDS_CUDA)]
KERNELS = pytest.mark.parametrize(
    "kernels", [reference, cpu, CUDA], ids=["reference", "cpu", "cuda"]
)
FAST = pytest.mark.parametrize("fast", [cpu, CUDA], ids=["cpu", "cuda"])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
RATIOS = (0.0, 0.3, 1.0)
ROWS = (slice(3, 17), slice(20, 21), slice(30, 50))
SIGNS = (False, True)


@pytest.fixture(autouse=True)
def both(shared_threads):
    """Run every test on one thread, and on three that share even the smallest work."""


def regression(b, p, k, dtype, seed=0, shared=True):
    """Return Gram matrices, β and ‖x‖² of a random regression problem."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((p, k)) / np.sqrt(p)
    X = rng.standard_normal((b, p))
    grams = (D.T @ D)[None]
    if not shared:
        grams = np.stack([D[s::2].T @ D[s::2] for s in rng.integers(2, size=b)])
        X = X @ D @ np.linalg.pinv(D)
    beta = X @ D if shared else (grams @ (X @ np.linalg.pinv(D).T)[:, :, None])[:, :, 0]
    return grams.astype(dtype), beta.astype(dtype), (X * X).sum(axis=1).astype(dtype)


def kkt_violation(grams, beta, penalty, code):
    """Return by how much each coefficient violates the optimality conditions.

    0 ∈ Gα − β + l2 α + l1 ∂‖α‖₁ (+ the normal cone of α ≥ 0).
    """
    Ga = np.einsum("ijk,ik->ij", np.broadcast_to(grams, (len(code), *grams.shape[1:])), code)
    gradient = Ga - beta + penalty.l2 * code
    if penalty.positive:
        return np.where(
            code > 0, np.abs(gradient + penalty.l1), np.maximum(-gradient - penalty.l1, 0)
        )
    at_zero = np.maximum(np.abs(gradient) - penalty.l1, 0)
    return np.where(code != 0, np.abs(gradient + penalty.l1 * np.sign(code)), at_zero)


@KERNELS
@pytest.mark.parametrize("shared", [True, False], ids=["one Gram", "a Gram per sample"])
@pytest.mark.parametrize(
    ("nu", "positive", "alpha"), list(itertools.product(RATIOS, SIGNS, (0.0, 0.05, 5.0)))
)
def test_codes_satisfy_the_optimality_conditions(kernels, nu, positive, alpha, shared):
    grams, beta, sq_norm = regression(3, 30, 8, np.float64, shared=shared)
    penalty = CodePenalty(alpha, nu, positive)
    code = np.zeros_like(beta)
    objective, gap = kernels.solve_codes(grams, beta, sq_norm, penalty, 0.0, code)
    assert kkt_violation(grams, beta, penalty, code).max() < 1e-9
    assert not positive or (code >= 0).all()
    assert (np.abs(gap) <= 1e-9).all()
    assert (objective <= sq_norm / 2 + 1e-12).all()


@given(
    nu=st.floats(0, 1),
    positive=st.booleans(),
    alpha=st.sampled_from([0.0, 0.1, 10.0]),
    k=st.integers(1, 9),
    p=st.integers(1, 12),
    dead=st.booleans(),
    twin=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # all examples share the pool
)
def test_codes_satisfy_the_optimality_conditions_on_degenerate_problems(
    nu, positive, alpha, k, p, dead, twin, seed
):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((p, k))
    if dead:
        D[:, 0] = 0
    if twin:
        D[:, -1] = D[:, 0]
    X = np.vstack([rng.standard_normal((2, p)), np.zeros((1, p))])
    penalty = CodePenalty(alpha, nu, positive)
    code, beta = np.zeros((3, k)), X @ D
    cpu.solve_codes((D.T @ D)[None], beta, (X * X).sum(axis=1), penalty, 0.0, code)
    assert np.isfinite(code).all()
    assert not code[2].any()
    assert kkt_violation((D.T @ D)[None], beta, penalty, code).max() < 1e-5 * (
        1 + np.abs(beta).max()
    )


@KERNELS
@pytest.mark.parametrize(("nu", "positive"), list(itertools.product(RATIOS, SIGNS)))
def test_the_duality_gap_bounds_the_distance_to_the_optimum(kernels, nu, positive):
    grams, beta, sq_norm = regression(5, 12, 9, np.float64)
    penalty = CodePenalty(0.3, nu, positive)
    best, _ = kernels.solve_codes(grams, beta, sq_norm, penalty, 0.0, np.zeros_like(beta))
    code = np.zeros_like(beta)
    rough, gap = kernels.solve_codes(grams, beta, sq_norm, penalty, 0.1, code)
    assert (rough - best <= gap + 1e-12).all()
    assert (gap <= 0.1 * rough + 1e-12).all()


@FAST
@DTYPES
@pytest.mark.parametrize("shared", [True, False], ids=["one Gram", "a Gram per sample"])
@pytest.mark.parametrize(
    ("nu", "positive", "alpha"), list(itertools.product(RATIOS, SIGNS, (0.0, 0.1)))
)
def test_fast_codes_equal_those_of_the_reference(fast, dtype, nu, positive, alpha, shared):
    problem = regression(3, 40, 10, dtype, shared=shared)
    penalty = CodePenalty(alpha, nu, positive)
    slow, quick = np.zeros((3, 10), dtype), np.zeros((3, 10), dtype)
    expected, _ = reference.solve_codes(*problem, penalty, 0.0, slow)
    objective, _ = fast.solve_codes(*problem, penalty, 0.0, quick)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(quick, slow, atol=tolerance)
    np.testing.assert_allclose(objective, expected, rtol=tolerance)
    assert objective.dtype == quick.dtype == dtype


@DTYPES
def test_codes_without_a_penalty_are_exact_however_loose_the_tolerance(dtype):
    rng = np.random.default_rng(0)
    D, X = rng.random((30, 12)).astype(dtype), rng.random((20, 30)).astype(dtype)
    code = np.zeros((20, 12), dtype)
    sq_norm, penalty = (X * X).sum(axis=1), CodePenalty(0.0, 1.0, True)
    cpu.solve_codes((D.T @ D)[None], X @ D, sq_norm, penalty, 0.5, code)
    expected = [nnls(D.astype(np.float64), x.astype(np.float64))[0] for x in X]
    np.testing.assert_allclose(code, expected, atol=1e-9 if dtype == np.float64 else 1e-3)


@KERNELS
def test_a_coefficient_that_a_step_sets_to_exactly_zero_does_not_end_the_search(kernels):
    G = np.array([[4, 2, 0, 0], [2, 1.25, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    beta, code = np.array([[2, 1.25, 0.1, 0.05]]), np.zeros((1, 4))
    kernels.solve_codes(G[None], beta, np.array([10.0]), CodePenalty(0.0, 1.0, True), 0.0, code)
    np.testing.assert_allclose(code, [[0, 1, 0.1, 0.05]], atol=1e-6)


@FAST
def test_codes_converge_with_nearly_collinear_atoms(fast):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((40, 8)) / np.sqrt(40)
    D = np.hstack([D, D + 1e-3 * rng.standard_normal(D.shape)])
    X = rng.standard_normal((2, 40))
    sq_norm = (X * X).sum(axis=1)
    for alpha in (0.1, 0.01):
        penalty = CodePenalty(alpha, 1.0, False)
        objective, gap = fast.solve_codes(
            (D.T @ D)[None], X @ D, sq_norm, penalty, 1e-6, np.zeros((2, 16))
        )
        assert (gap <= 1e-6 * objective + 1e-14 * sq_norm).all()


@KERNELS
def test_codes_stay_finite_where_beta_and_gram_contradict_each_other(kernels):
    grams = np.zeros((1, 2, 2))
    grams[0, 0, 0] = 1e-8  # nearly no curvature: no sample has this β
    code = np.zeros((1, 2))
    kernels.solve_codes(
        grams, np.array([[1.0, 1.0]]), np.ones(1), CodePenalty(0.1, 1.0, False), 1e-3, code
    )
    assert np.abs(code).max() <= 1.0 / (2 * 0.1)


@KERNELS
def test_codes_that_start_at_the_solution_stay_there(kernels):
    grams, beta, sq_norm = regression(5, 20, 6, np.float64)
    penalty = CodePenalty(0.1, 1.0, False)
    code = np.zeros_like(beta)
    kernels.solve_codes(grams, beta, sq_norm, penalty, 0.0, code)
    solution = code.copy()
    kernels.solve_codes(grams, beta, sq_norm, penalty, 0.0, code)
    np.testing.assert_allclose(code, solution, atol=1e-14)


@DTYPES
def test_a_start_whose_atoms_depend_on_each_other_is_given_up(dtype):
    rng = np.random.default_rng(0)
    D, X = rng.random((9, 12)).astype(dtype), rng.random((20, 9)).astype(dtype)
    grams, beta, sq_norm = (D.T @ D)[None], X @ D, (X * X).sum(axis=1)
    penalty = CodePenalty(0.0, 1.0, True)
    from_zero, from_all = np.zeros((20, 12), dtype), rng.random((20, 12)).astype(dtype)
    cpu.solve_codes(grams, beta, sq_norm, penalty, 0.0, from_zero)
    cpu.solve_codes(grams, beta, sq_norm, penalty, 0.5, from_all)  # however loose
    np.testing.assert_array_equal(from_all, from_zero)


def surrogate(q, k, dtype, seed=0):
    """Return B, C and budgets of a random surrogate."""
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((3 * k, k)) * (rng.random((3 * k, k)) < 0.5)
    B = rng.standard_normal((q, 3 * k)) @ codes / (3 * k)
    return B.astype(dtype), (codes.T @ codes / (3 * k)).astype(dtype), rng.random(k).astype(dtype)


@FAST
@DTYPES
@pytest.mark.parametrize("k", [1, 31, 70])
@pytest.mark.parametrize(("mu", "positive"), list(itertools.product(RATIOS, SIGNS)))
def test_the_blocked_dictionary_update_equals_the_plain_loop(fast, mu, positive, k, dtype):
    ball = AtomBall(mu, positive)
    B, C, budget = surrogate(50, k, dtype)
    budget[0] = 0
    if k > 2:
        C[2] = C[:, 2] = B[:, 2] = 0  # an atom that was never used
    D = ball.normalise(np.random.default_rng(1).standard_normal((50, k))).astype(dtype)
    plain, blocked = D.copy(), D.copy()
    reference.update_atoms(plain, B, C, ROWS, budget, ball)
    fast.update_atoms(blocked, B, C, ROWS, budget, ball)
    np.testing.assert_allclose(blocked, plain, atol=1e-11 if dtype == np.float64 else 2e-4)
    assert blocked.dtype == dtype
    frozen = [*range(3), 17, 18, 19, *range(21, 30)]
    np.testing.assert_array_equal(blocked[frozen], D[frozen])


@pytest.mark.parametrize("mu", [0.5, 1.0])
def test_an_atom_that_hardly_any_sample_uses_is_projected_from_far_away(mu):
    ball, D = AtomBall(mu, False), np.full((50, 2), 0.01)
    B, C = np.random.default_rng(0).standard_normal((50, 2)), np.diag([1.0, 1e-18])
    plain, quick = D.copy(), D.copy()
    reference.update_atoms(plain, B, C, ROWS, np.ones(2), ball)
    cpu.update_atoms(quick, B, C, ROWS, np.ones(2), ball)
    np.testing.assert_allclose(ball.norm(quick), ball.norm(plain), atol=1e-6)
    assert np.abs(quick).max() <= 1 / mu


@FAST
@DTYPES
@pytest.mark.parametrize("k", [1, 31, 70])
def test_the_update_of_a_part_that_is_all_equals_the_plain_loop(fast, k, dtype):
    B, C, budget = surrogate(50, k, dtype)
    budget[0] = 0
    D = AtomBall(0.0, False).normalise(np.random.default_rng(1).standard_normal((50, k)))
    plain, part = D.astype(dtype), D.astype(dtype)
    reference.update_part(plain, B, C, budget, lambda gram: gram)
    fast.update_part(part, B, C, budget, lambda gram: gram)
    np.testing.assert_allclose(part, plain, atol=1e-11 if dtype == np.float64 else 2e-4)


def by_feature(q, k, dtype, base):
    """Return E and B of a random surrogate with a matrix C + E_f for every feature."""
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((4 * k, k))
    known = rng.random((4 * k, q)) < 0.6
    known[:, 5] = False
    pairs = reference.pairs(codes, None) / (4 * k)
    C = base * codes.T @ codes / (4 * k)
    B = (known * rng.standard_normal((4 * k, q))).T @ codes / (4 * k)
    return tuple(A.astype(dtype) for A in (B, C, (known - float(base)).T @ pairs))


@FAST
@DTYPES
@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize(("mu", "positive"), list(itertools.product(RATIOS, SIGNS)))
def test_the_fast_update_by_feature_equals_the_plain_loop(fast, mu, positive, base, k, dtype):
    ball = AtomBall(mu, positive)
    B, C, E = by_feature(50, k, dtype, base)
    budget = np.random.default_rng(2).random(k).astype(dtype)
    D = ball.normalise(np.random.default_rng(1).standard_normal((50, k))).astype(dtype)
    plain, quick = D.copy(), D.copy()
    ridge = None if base else np.random.default_rng(3).random(50).astype(dtype) * (E[:, 0] > 0)
    reference.update_atoms_by_feature(plain, B, C, E, ridge, ROWS, budget, ball)
    fast.update_atoms_by_feature(quick, B, C, E, ridge, ROWS, budget, ball)
    np.testing.assert_allclose(quick, plain, atol=1e-11 if dtype == np.float64 else 2e-5)
    assert quick.dtype == dtype
    frozen = [*range(3), 17, 18, 19, *range(21, 30)]
    np.testing.assert_array_equal(quick[frozen], D[frozen])
    assert not quick[5].any()  # it was never known


@FAST
@DTYPES
@pytest.mark.parametrize("k", [1, 7, 19])
def test_pairs_are_the_upper_triangles_of_products(fast, k, dtype):
    rng = np.random.default_rng(0)
    A, weights = rng.standard_normal((30, k)).astype(dtype), rng.random(30).astype(dtype)
    outer = A[:, :, None] * A[:, None]
    found = fast.pairs(A, weights)
    assert found.dtype == dtype
    np.testing.assert_allclose(unpacked(found, k), outer * weights[:, None, None], rtol=1e-6)
    np.testing.assert_array_equal(fast.pairs(A, None), fast.pairs(A, np.ones(30, dtype)))


@FAST
@DTYPES
@pytest.mark.parametrize("rows", [ROWS, (slice(0, 50),)], ids=["some", "all"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_sample_has_the_gram_matrix_of_its_weights(fast, kind, rows, dtype):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((50, 7)).astype(dtype)
    weights = (rng.random((30, 50)) * (rng.random((30, 50)) < 0.3)).astype(dtype)
    weights[3] = 0
    S = np.concatenate([np.arange(s.start, s.stop) for s in rows])
    expected = np.einsum("if,fa,fb->iab", weights[:, S], D[S], D[S])
    given = weights if kind == "dense" else sp.csc_array(weights)
    found = fast.weighted_grams(given, D, rows)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=1e-11 if dtype == np.float64 else 1e-4)


@KERNELS
def test_the_pairs_of_atoms_are_cleared(kernels):
    E = np.random.default_rng(0).standard_normal((5, 6))
    expected = unpacked(E, 3).copy()
    expected[:, 1] = expected[:, :, 1] = 0
    kernels.clear_pairs(E, np.array([False, True, False]))
    np.testing.assert_array_equal(unpacked(E, 3), expected)


@KERNELS
def test_an_atom_of_which_nothing_is_known_stays_as_it_is(kernels):
    D = np.random.default_rng(0).standard_normal((50, 3))
    B, C, E = np.zeros((50, 3)), np.zeros((3, 3)), np.zeros((50, 6))
    E[:, 0] = 1
    found = D.copy()
    kernels.update_atoms_by_feature(found, B, C, E, None, ROWS, np.ones(3), AtomBall(0.0, False))
    np.testing.assert_array_equal(found[:, 1:], D[:, 1:])
    assert (found[:, 0] != D[:, 0]).any()


@KERNELS
@pytest.mark.parametrize(("mu", "positive"), list(itertools.product(RATIOS, SIGNS)))
def test_with_one_matrix_for_all_features_the_update_by_feature_is_the_usual_one(
    kernels, mu, positive
):
    ball = AtomBall(mu, positive)
    B, C, budget = surrogate(50, 6, np.float64)
    D = ball.normalise(np.random.default_rng(1).standard_normal((50, 6)))
    usual, found = D.copy(), D.copy()
    reference.update_atoms(usual, B, C, ROWS, budget, ball)
    for base in (0.0, 0.4, 1.0):
        found[:] = D
        E = np.tile((1 - base) * C[np.triu_indices(6)], (50, 1))
        kernels.update_atoms_by_feature(found, B, base * C, E, None, ROWS, budget, ball)
        np.testing.assert_allclose(found, usual, atol=1e-11)


@pytest.mark.parametrize("kernels", [cpu, reference], ids=["cpu", "reference"])
@pytest.mark.parametrize("edges", [(0, 20, 50), (0, 0, 50)], ids=["two", "an empty one"])
def test_parts_of_the_features_are_updated_as_all_of_them(kernels, edges):
    B, C, budget = surrogate(50, 40, np.float64)
    D = AtomBall(0.0, False).normalise(np.random.default_rng(1).standard_normal((50, 40)))
    plain = D.copy()
    reference.update_atoms(plain, B, C, (slice(0, 50),), budget, AtomBall(0.0, False))
    barrier, grams = threading.Barrier(2, timeout=60), {}

    def update(part):
        def total(gram):
            barrier.wait()
            grams[part] = gram
            barrier.wait()
            return grams[0] + grams[1]

        rows = slice(edges[part], edges[part + 1])
        kernels.update_part(D[rows], B[rows], C, budget, total)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(update, range(2)))
    np.testing.assert_allclose(D, plain, atol=1e-11)


@KERNELS
@pytest.mark.parametrize(("mu", "positive"), list(itertools.product(RATIOS, SIGNS)))
def test_a_dictionary_update_lowers_the_surrogate_within_the_budget(kernels, mu, positive):
    ball = AtomBall(mu, positive)
    B, C, budget = surrogate(20, 40, np.float64)
    budget += 0.1

    def value(D):
        return np.trace(D.T @ D @ C) / 2 - np.trace(D.T @ B)

    D = np.stack([ball.project(d, r) for d, r in zip(B.T, budget, strict=True)], axis=1)
    before = value(D)
    kernels.update_atoms(D, B, C, (slice(0, 20),), budget, ball)
    assert value(D) < before
    assert (ball.norm(D) <= budget + 1e-9).all()
    assert not positive or (D >= 0).all()


@KERNELS
def test_atoms_on_the_boundary_of_the_ball_are_projected_in_finite_time(kernels):
    """Rounding lets the tiny entries fall out of the support and come back."""
    B = np.array([[1.0, 0.9e-16, 0.9e-16, 0.4e-16]]).T
    D = np.zeros((4, 1))
    rows, ball = (slice(0, 4),), AtomBall(1.0, False)
    kernels.update_atoms(D, B, np.ones((1, 1)), rows, np.ones(1), ball)
    np.testing.assert_allclose(D, B, atol=1e-15)


@KERNELS
def test_atoms_without_information_stay_as_they_are(kernels):
    B, C, budget = surrogate(20, 5, np.float64)
    C[1] = C[:, 1] = B[:, 1] = 0
    D = np.random.default_rng(0).standard_normal((20, 5))
    before = D[:, 1].copy()
    kernels.update_atoms(D, B, C, (slice(0, 20),), budget, AtomBall(0.0, False))
    np.testing.assert_allclose(D[:, 1], before, rtol=1e-14)


@KERNELS
@DTYPES
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSC"])
def test_matrix_products_are_right_for_dense_and_sparse_samples(kernels, dtype, sparse):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((7, 30)) * (rng.random((7, 30)) < 0.3)).astype(dtype)
    D, code = rng.standard_normal((30, 4)).astype(dtype), rng.standard_normal((7, 4)).astype(dtype)
    given = sp.csc_array(X) if sparse else X
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-12}
    for rows in ((slice(0, 30),), (slice(2, 9), slice(9, 10), slice(15, 30))):
        S = np.concatenate([np.arange(s.start, s.stop) for s in rows])
        beta, G, sq_norm = (
            kernels.correlate(given, D, rows),
            kernels.gram(D, rows),
            kernels.squared_norms(given, rows),
        )
        np.testing.assert_allclose(beta, X[:, S] @ D[S], **close)
        np.testing.assert_allclose(G, D[S].T @ D[S], **close)
        np.testing.assert_allclose(sq_norm, (X[:, S] ** 2).sum(axis=1), **close)
        assert {beta.dtype, G.dtype, sq_norm.dtype} == {np.dtype(dtype)}
        for at_once, alone in zip(kernels.observe(given, D, rows), (beta, sq_norm), strict=True):
            np.testing.assert_array_equal(at_once, alone)
    B = rng.standard_normal((30, 4)).astype(dtype)
    for decay in (1.0, 0.75, 0.0):
        expected = decay * B + X.T @ code
        kernels.accumulate(B, given, code, decay)
        np.testing.assert_allclose(B, expected, **close)
    rows, expected = (slice(2, 9), slice(15, 30)), B.copy()
    for s in rows:
        expected[s] = 0.5 * B[s] + X[:, s].T @ code
    kernels.accumulate(B, given, code, 0.5, rows)
    np.testing.assert_allclose(B, expected, **close)
    assert B.dtype == dtype


@pytest.mark.parametrize("device", DEVICES)
@DTYPES
def test_rows_are_packed_and_unpacked(device, dtype):
    kernels, A = kernels_for(device), np.random.default_rng(0).random((60, 4)).astype(dtype)
    given, other = kernels.to_device(A), kernels.to_device(np.zeros_like(A))
    packed = kernels.zeros((40, 4), given)
    kernels.pack_rows(given, ROWS, packed)
    S = np.concatenate([np.arange(s.start, s.stop) for s in ROWS])
    np.testing.assert_array_equal(to_host(packed)[: len(S)], A[S])
    assert not to_host(packed)[len(S) :].any()
    kernels.unpack_rows(packed, other, ROWS)
    np.testing.assert_array_equal(to_host(other)[S], A[S])
    assert np.count_nonzero(to_host(other)) == A[S].size


@KERNELS
@DTYPES
def test_parts_are_summed(kernels, dtype):
    parts = np.random.default_rng(0).standard_normal((5, 7, 4)).astype(dtype)
    total = kernels.sum_parts(parts)
    assert total.dtype == dtype
    np.testing.assert_allclose(total, parts.sum(axis=0), rtol=1e-5)


@KERNELS
@DTYPES
def test_combined_gram_matrices_are_weighted_sums(kernels, dtype):
    rng = np.random.default_rng(0)
    weights = rng.random((7, 3)).astype(dtype)
    grams = rng.random((3, 4, 4)).astype(dtype)
    combined = kernels.combine(weights, grams)
    expected = [sum(w * G for w, G in zip(row, grams, strict=True)) for row in weights]
    np.testing.assert_allclose(combined, expected, rtol=1e-5)
    assert combined.dtype == dtype


@KERNELS
@DTYPES
@pytest.mark.parametrize("mu", RATIOS)
def test_atom_norms_follow_their_formula(kernels, dtype, mu):
    D = np.random.default_rng(0).standard_normal((30, 4)).astype(dtype)
    runs = slice(2, 9), slice(15, 30)
    norms = kernels.atom_norms(D, runs, AtomBall(mu, False))
    expected = [mu * np.abs(D[s]).sum(0) + (1 - mu) * (D[s] ** 2).sum(0) for s in runs]
    np.testing.assert_allclose(norms, expected, rtol=1e-5)
    assert norms.dtype == dtype


@pytest.mark.parametrize("device", DEVICES)
@DTYPES
def test_take_returns_the_rows_of_put_and_a_single_row_fills_all_slots(device, dtype):
    kernels = kernels_for(device)
    rng = np.random.default_rng(0)
    slots = np.array([4, 1, 3])
    for shape in ((6,), (6, 2)):
        store = kernels.to_device(np.zeros(shape, dtype))
        for n_rows in (3, 1):
            values = rng.random((n_rows, *shape[1:])).astype(dtype)
            kernels.put(store, slots, kernels.to_device(values))
            expected = np.broadcast_to(values, (3, *shape[1:]))
            np.testing.assert_array_equal(to_host(kernels.take(store, slots)), expected)
        assert not to_host(store)[[0, 2, 5]].any()


@KERNELS
def test_atoms_that_some_sample_uses_are_marked(kernels):
    code = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, -3.0]])
    last_used = np.array([5, 6, 7, 8])
    kernels.mark_used(last_used, code, 99)
    np.testing.assert_array_equal(last_used, [5, 99, 7, 99])


@pytest.mark.parametrize("device", DEVICES)
def test_every_device_has_all_kernels_of_the_protocol(device):
    kernels = kernels_for(device)
    assert isinstance(kernels.IS_ASYNCHRONOUS, bool)
    for name, method in vars(Kernels).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            expected = [p for p in inspect.signature(method).parameters if p != "self"]
            assert list(inspect.signature(getattr(kernels, name)).parameters) == expected, name
