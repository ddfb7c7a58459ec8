"""Ridge codes on the CPU, by Cholesky factors.

Samples that share a Gram matrix are right sides of one linear system, which LAPACK solves. If each
sample has a Gram matrix of its own, there are as many systems, which are factored in double
precision. LAPACK solves large ones one by one. In small ones the rows of a factor are too short for
it, and each waits for the one before. So there all loops run over the samples of a group, which lie
side by side in memory.
"""

import math

import numpy as np

from somf.kernels.cpu.blas import solve_positive
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import Threads, threads_for
from somf.kernels.pairs import n_pairs
from somf.typing import Array

LANES = 32
"""Samples of a group, at most. In the last one, the last sample is solved again and again."""

FEWEST_LANES = 8
"""Samples of a group, at least, if larger groups would leave threads idle: one vector register."""

MOST_GROUPED_ATOMS = 56
"""Atoms up to which groups are faster than LAPACK."""


def solve_shared_ridge(G: Array, beta: Array, l2: float, code: Array) -> bool:
    """Set the codes to the solutions of (G + l2 I) α = β, unless rounding may spoil them.

    Parameters
    ----------
    G : ndarray of shape (k, k)
    beta : ndarray of shape (b, k)
    l2 : float
    code : ndarray of shape (b, k), overwritten

    Returns
    -------
    is_solved : bool
    """
    is_solved: bool = _solve_shared(1, G, beta, l2, len(G) * float(np.finfo(G.dtype).eps), code)
    return is_solved


@region
def _solve_shared(
    launcher: int,  # noqa: ARG001 (the systems of all samples are one call of LAPACK)
    G: Array,
    beta: Array,
    l2: float,
    cutoff: float,
    code: Array,
) -> bool:
    """Do what `solve_shared_ridge` says if l2 exceeds so much of the sum of all eigenvalues."""
    A, X, trace = G.copy(), beta.copy(), l2
    for j in range(len(A)):
        trace += A[j, j]
        A[j, j] += l2
    if not l2 > cutoff * trace or not solve_positive(A, X):
        return False
    for i in range(len(X)):
        for j in range(len(A)):
            code[i, j] = X[i, j]
    return True


def solve_ridge(grams: Array, beta: Array, l2: float, code: Array) -> None:
    """Set the codes to the solutions of (G + l2 I) α = β, which must be regular.

    Parameters
    ----------
    grams : ndarray of shape (b, k, k)
        What is below their diagonals does not matter.
    beta : ndarray of shape (b, k)
    l2 : float
    code : ndarray of shape (b, k), overwritten
    """
    b, k = beta.shape
    threads = threads_for(float(b) * k * k * k / 6)
    if k <= MOST_GROUPED_ATOMS:
        _solve_groups(threads, grams, beta, l2, code)
    else:
        systems = threads.buffer("ridge systems", (min(threads.count, b), k, k + 1), np.dtype("f8"))
        _solve_one_by_one(threads.count, grams, beta, l2, systems, code)


@region
def _solve_one_by_one(
    launcher: int, grams: Array, beta: Array, l2: float, systems: Array, code: Array
) -> None:
    in_parallel(_solve_own, launcher, len(systems), grams, beta, l2, systems, code)


@inner
def _solve_own(t: int, grams: Array, beta: Array, l2: float, systems: Array, code: Array) -> None:
    """Solve the systems of a thread, in its own k² numbers for a matrix and k for a right side."""
    k = beta.shape[1]
    memory = systems[t].reshape(k * (k + 1))
    A, x = memory[: k * k].reshape((k, k)), memory[k * k :].reshape((1, k))
    for i in range(t, len(beta), len(systems)):
        for j in range(k):
            for n in range(j, k):
                A[j, n] = grams[i, j, n]
            A[j, j] += l2
            x[0, j] = beta[i, j]
        solve_positive(A, x)
        for j in range(k):
            code[i, j] = x[0, j]


def _solve_groups(threads: Threads, grams: Array, beta: Array, l2: float, code: Array) -> None:
    b, k = beta.shape
    per_thread = -(-b // threads.count)
    n_lanes = min(b, LANES, -(-per_thread // FEWEST_LANES) * FEWEST_LANES)
    n_parts, double = min(threads.count, -(-b // n_lanes)), np.dtype(np.float64)
    factors = threads.buffer("ridge factors", (n_parts, n_pairs(k), n_lanes), double)
    codes = threads.buffer("ridge codes", (n_parts, k, n_lanes), double)
    _solve(threads.count, grams, beta, l2, factors, codes, code)


@region
def _solve(
    launcher: int,
    grams: Array,
    beta: Array,
    l2: float,
    factors: Array,
    codes: Array,
    code: Array,
) -> None:
    in_parallel(_solve_share, launcher, len(factors), grams, beta, l2, factors, codes, code)


@inner
def _solve_share(
    t: int, grams: Array, beta: Array, l2: float, factors: Array, codes: Array, code: Array
) -> None:
    factor, x = factors[t], codes[t]
    n_lanes = x.shape[1]
    for start in range(t * n_lanes, len(beta), len(factors) * n_lanes):
        _begin(start, grams, beta, l2, factor, x)
        _factorize(factor, x)
        _substitute(factor, x)
        for lane in range(min(n_lanes, len(beta) - start)):
            for j in range(len(x)):
                code[start + lane, j] = x[j, lane]


@inner
def _begin(start: int, grams: Array, beta: Array, l2: float, factor: Array, x: Array) -> None:
    """Fill a group: the upper triangles of G + l2 I, row after row, and β."""
    at, k = 0, len(x)
    for j in range(k):
        for lane in range(x.shape[1]):
            i = min(start + lane, len(beta) - 1)
            row = grams[i, j]
            for n in range(j, k):
                factor[at + n - j, lane] = row[n]
            factor[at, lane] += l2
            x[j, lane] = beta[i, j]
        at += k - j


@inner
def _factorize(factor: Array, x: Array) -> None:
    """Set triangles A = LLᵀ to Lᵀ, with 1 / Lⱼⱼ on the diagonal, and x to the y of Ly = x."""
    at, k = 0, len(x)
    for j in range(k):
        row = factor[at : at + k - j]
        at += k - j
        for lane in range(x.shape[1]):
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
