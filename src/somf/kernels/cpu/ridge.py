"""Ridge codes on the CPU, by Cholesky factors.

Samples that share a Gram matrix are right sides of one linear system, which LAPACK solves. If each
sample has a Gram matrix of its own, there are as many systems, which are factored in double
precision. LAPACK solves large ones one by one. In small ones the rows of a factor are too short for
it, and each waits for the one before. So there all loops run over the samples of a group, which lie
side by side in memory.
"""

import math
from typing import NamedTuple

import numpy as np

from somf.kernels.cpu.blas import solve_positive
from somf.kernels.cpu.certificate import certificate, residual
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.kernels.pairs import n_pairs
from somf.kernels.protocol import precision
from somf.typing import Array

LANES = 32
"""Samples of a group, at most. In the last one, the last sample is solved again and again."""

FEWEST_LANES = 8
"""Samples of a group, at least, if larger groups would leave threads idle: one vector register."""

MOST_GROUPED_ATOMS = 56
"""Atoms up to which groups are faster than LAPACK."""

LEAST_SHARE = 1e-6
"""The share of l2 in the sum of all eigenvalues below which own systems are not factored."""


class Ridge(NamedTuple):
    """Ridge problems, and where their results go.

    Compiled functions make it: to take one from Python would take ten microseconds.

    Attributes
    ----------
    grams : ndarray of shape (1, k, k) or (b, k, k)
    beta : ndarray of shape (b, k)
    sq_norm : ndarray of shape (b,)
    l2 : float
    code : ndarray of shape (b, k)
    objective, gap : ndarray of shape (b,)
    """

    grams: Array
    beta: Array
    sq_norm: Array
    l2: float
    code: Array
    objective: Array
    gap: Array


Problem = tuple[Array, Array, Array, float, Array, Array, Array]
"""A `Ridge` as Python gives it to compiled functions."""


def solve_ridge(
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l2: float,
    code: Array,
    objective: Array,
    gap: Array,
) -> bool:
    """Set codes to the solutions of (G + l2 I) α = β, unless rounding may spoil one of them.

    Parameters
    ----------
    grams : ndarray of shape (1, k, k) or (b, k, k)
        For the codes, what is below their diagonals does not matter.
    beta : ndarray of shape (b, k)
    sq_norm : ndarray of shape (b,)
    l2 : float
    code : ndarray of shape (b, k), overwritten
    objective, gap : ndarray of shape (b,), overwritten

    Returns
    -------
    is_solved : bool
        If False, nothing can be said of codes, objectives and gaps.
    """
    b, k = beta.shape
    problem = grams, beta, sq_norm, l2, code, objective, gap
    double = np.dtype(np.float64)
    eps = precision(grams.dtype)[0]
    if len(grams) == 1:
        threads = threads_for(2.0 * b * k * k)
        is_solved = np.zeros(min(threads.count, b), np.bool_)
        are_solved: bool = _solve_shared(threads.count, problem, k * eps, is_solved)
        return are_solved
    if b == 0:  # a rank may have no samples
        return True
    cutoff, threads = max(k * eps, LEAST_SHARE), threads_for(float(b) * k * k * k / 6)
    if k <= MOST_GROUPED_ATOMS:
        n_lanes = min(b, LANES, -(-b // (threads.count * FEWEST_LANES)) * FEWEST_LANES)
        is_solved = np.zeros(min(threads.count, -(-b // n_lanes)), np.bool_)
        size = n_pairs(k) + k, n_lanes
        memory = threads.buffer("ridge groups", (len(is_solved), *size), double)
        are_solved = _solve_groups(threads.count, problem, cutoff, memory, is_solved)
    else:
        is_solved = np.zeros(min(threads.count, b), np.bool_)
        memory = threads.buffer("ridge systems", (len(is_solved), k, k + 1), double)
        are_solved = _solve_one_by_one(threads.count, problem, cutoff, memory, is_solved)
    return are_solved


@region
def _solve_shared(
    launcher: int,
    problem: Problem,
    cutoff: float,
    is_solved: Array,
) -> bool:
    """Solve the systems of all samples by one call of LAPACK, in the precision of the data."""
    codes = Ridge(*problem)
    A, X, trace = codes.grams[0].copy(), codes.beta.copy(), codes.l2
    for j in range(len(A)):
        trace += A[j, j]
        A[j, j] += codes.l2
    if codes.l2 > cutoff * trace and solve_positive(A, X):
        in_parallel(_take_solution, launcher, len(is_solved), codes, X, is_solved)
    return bool(is_solved.all())


@inner
def _take_solution(t: int, codes: Ridge, X: Array, is_solved: Array) -> None:
    g = np.empty(X.shape[1], X.dtype)
    for i in range(t, len(X), len(is_solved)):
        for j in range(X.shape[1]):
            codes.code[i, j] = X[i, j]
        _certify(codes, i, g)
    is_solved[t] = True


@inner
def _certify(codes: Ridge, i: int, g: Array) -> None:
    """Write objective and duality gap of a code; `g` is a buffer."""
    G, beta, a = codes.grams[min(i, len(codes.grams) - 1)], codes.beta[i], codes.code[i]
    residual(G, beta, a, g)
    found = certificate(G, beta, g, a, codes.sq_norm[i], 0.0, codes.l2, False)
    codes.objective[i], codes.gap[i] = found


@region
def _solve_one_by_one(
    launcher: int,
    problem: Problem,
    cutoff: float,
    memory: Array,
    is_solved: Array,
) -> bool:
    codes = Ridge(*problem)
    in_parallel(_solve_own, launcher, len(is_solved), codes, cutoff, memory, is_solved)
    return bool(is_solved.all())


@inner
def _solve_own(t: int, codes: Ridge, cutoff: float, memory: Array, is_solved: Array) -> None:
    """Solve the systems of a thread, in its own k² numbers for a matrix and k for a right side."""
    k, l2 = codes.beta.shape[1], codes.l2
    numbers, g = memory[t].reshape(k * (k + 1)), np.empty(k, codes.beta.dtype)
    A, x = numbers[: k * k].reshape((k, k)), numbers[k * k :].reshape((1, k))
    for i in range(t, len(codes.beta), len(is_solved)):
        trace = l2
        for j in range(k):
            for n in range(j, k):
                A[j, n] = codes.grams[i, j, n]
            trace += A[j, j]
            A[j, j] += l2
            x[0, j] = codes.beta[i, j]
        if not (l2 > cutoff * trace and solve_positive(A, x)):
            return
        for j in range(k):
            codes.code[i, j] = x[0, j]
        _certify(codes, i, g)
    is_solved[t] = True


@region
def _solve_groups(
    launcher: int,
    problem: Problem,
    cutoff: float,
    memory: Array,
    is_solved: Array,
) -> bool:
    codes = Ridge(*problem)
    in_parallel(_solve_share, launcher, len(is_solved), codes, cutoff, memory, is_solved)
    return bool(is_solved.all())


@inner
def _solve_share(t: int, codes: Ridge, cutoff: float, memory: Array, is_solved: Array) -> None:
    """Solve the groups of a thread, in its own memory for factors and right sides."""
    beta, k, n_lanes = codes.beta, codes.beta.shape[1], memory.shape[2]
    n_entries, g = memory.shape[1] - k, np.empty(k, beta.dtype)
    factor, x = memory[t, :n_entries], memory[t, n_entries:]
    for start in range(t * n_lanes, len(beta), len(is_solved) * n_lanes):
        if not _begin(start, codes, cutoff, factor, x):
            return
        if not _factorize(factor, x):
            return
        _substitute(factor, x)
        for lane in range(min(n_lanes, len(beta) - start)):
            for j in range(k):
                codes.code[start + lane, j] = x[j, lane]
            _certify(codes, start + lane, g)
    is_solved[t] = True


@inner
def _begin(start: int, codes: Ridge, cutoff: float, factor: Array, x: Array) -> bool:
    """Fill a group: the upper triangles of G + l2 I, row after row, and β.

    Return whether l2 exceeds so much of the sum of all eigenvalues, for all of them.
    """
    k, is_regular = len(x), True
    for lane in range(x.shape[1]):
        i, at, trace = min(start + lane, len(codes.beta) - 1), 0, codes.l2
        for j in range(k):
            row = codes.grams[i, j]
            for n in range(j, k):
                factor[at + n - j, lane] = row[n]
            trace += row[j]
            factor[at, lane] += codes.l2
            x[j, lane] = codes.beta[i, j]
            at += k - j
        is_regular &= codes.l2 > cutoff * trace
    return is_regular


@inner
def _factorize(factor: Array, x: Array) -> bool:
    """Set triangles A = LLᵀ to Lᵀ, with 1 / Lⱼⱼ on the diagonal, and x to the y of Ly = x.

    Return whether all of them are positive definite.
    """
    at, k, is_positive = 0, len(x), True
    for j in range(k):
        row = factor[at : at + k - j]
        at += k - j
        for lane in range(x.shape[1]):
            is_positive &= row[0, lane] > 0
            row[0, lane] = 1.0 / math.sqrt(row[0, lane])
        _multiply(row[0], x[j])
        for n in range(1, k - j):
            _multiply(row[0], row[n])
            _subtract_product(row[n], x[j], x[j + n])
        below = at
        for i in range(1, k - j):
            for n in range(i, k - j):
                _subtract_product(row[i], row[n], factor[below])
                below += 1
    return is_positive


@inner
def _substitute(factor: Array, x: Array) -> None:
    """Set x to the solution of Lᵀα = x."""
    at, k = len(factor), len(x)
    for j in range(k - 1, -1, -1):
        at -= k - j
        for n in range(1, k - j):
            _subtract_product(factor[at + n], x[j + n], x[j])
        _multiply(factor[at], x[j])


@inner
def _subtract_product(a: Array, b: Array, out: Array) -> None:
    for lane in range(len(out)):
        out[lane] -= a[lane] * b[lane]


@inner
def _multiply(a: Array, out: Array) -> None:
    for lane in range(len(out)):
        out[lane] *= a[lane]
