"""Ridge codes on the CPU, where every sample has a Gram matrix of its own.

Each is the solution of one linear system, by a Cholesky factor in double precision. Large systems
are solved one by one. In small ones the rows of a factor are too short for that, and each waits for
the one before. So there all loops run over the samples of a group, which lie side by side in
memory. LAPACK takes as long on one thread, but its calls wait for each other on several.
"""

import math

import numpy as np

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

MOST_GROUPED_ATOMS = 48
"""Atoms up to which groups are faster."""

ROWS_AT_ONCE = 4
"""Rows of a large factor that are subtracted from all others at once, which are read less often."""


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
    A, x = memory[: k * k].reshape((k, k)), memory[k * k :]
    for i in range(t, len(beta), len(systems)):
        for j in range(k):
            for n in range(j, k):
                A[j, n] = grams[i, j, n]
            A[j, j] += l2
            x[j] = beta[i, j]
        _solve_system(A, x)
        for j in range(k):
            code[i, j] = x[j]


@inner
def _solve_system(A: Array, x: Array) -> None:
    """Set x to the solution of Aα = x, and A = LLᵀ to Lᵀ, with 1 / Lⱼⱼ on the diagonal."""
    k = len(x)
    for first in range(0, k, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, k)
        for i in range(first, last):
            for j in range(first, i):
                _subtract_row(A[j, i], A[j, i:], A[i, i:])
                x[i] -= A[j, i] * x[j]
            scale = 1.0 / math.sqrt(A[i, i])
            for n in range(i + 1, k):
                A[i, n] *= scale
            A[i, i], x[i] = scale, x[i] * scale
        for i in range(last, k):  # not reached with less than four rows
            _subtract_four_rows(A, first, i)
            for j in range(first, last):
                x[i] -= A[j, i] * x[j]
    for i in range(k - 1, -1, -1):
        total = x[i]
        for n in range(i + 1, k):
            total -= A[i, n] * x[n]
        x[i] = total * A[i, i]


@inner
def _subtract_row(c: float, row: Array, out: Array) -> None:
    for n in range(len(out)):
        out[n] -= c * row[n]


@inner
def _subtract_four_rows(A: Array, first: int, i: int) -> None:
    """Subtract from row i the four rows from `first` on, each times its entry in column i."""
    # Numba knows of whole rows, but not of a part of some rows, that entries follow one another.
    row_0, row_1 = A[first][i:], A[first + 1][i:]
    row_2, row_3 = A[first + 2][i:], A[first + 3][i:]
    c_0, c_1, c_2, c_3 = row_0[0], row_1[0], row_2[0], row_3[0]
    out = A[i][i:]
    for n in range(len(out)):
        out[n] -= c_0 * row_0[n] + c_1 * row_1[n] + c_2 * row_2[n] + c_3 * row_3[n]


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
