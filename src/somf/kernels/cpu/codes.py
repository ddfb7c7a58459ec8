"""Codes on the CPU: coordinate descent, with the samples divided among workers."""

import math

import numpy as np

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import pool_for
from somf.kernels.protocol import MAX_SWEEPS
from somf.penalties import CodePenalty
from somf.typing import Array

SWEEPS_PER_NEWTON_STEP = 8
"""Sweeps of coordinate descent per Newton step."""

MAX_NEWTON_SUPPORT = 256
"""Nonzero coefficients of a code up to which a Newton step is tried; its cost is cubic in them."""


def solve_codes(
    grams: Array, beta: Array, sq_norm: Array, penalty: CodePenalty, tol: float, code: Array
) -> tuple[Array, Array]:
    """See `Kernels.solve_codes`."""
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    l1, l2, positive = penalty.l1, penalty.l2, penalty.positive
    max_sweeps = 0 if penalty.has_closed_form else MAX_SWEEPS
    pool = pool_for(50 * beta.size * beta.shape[1])
    chunks = pool.dynamic_chunks(len(beta))
    if penalty.has_closed_form and len(grams) == 1:
        code[:] = _ridge(grams, beta, l2)  # one factorisation for all samples

    def work(_worker: int) -> None:
        for s in chunks:
            grams_s = grams if len(grams) == 1 else grams[s]
            if penalty.has_closed_form and len(grams) > 1:
                code[s] = _ridge(grams_s, beta[s], l2)
            _descend(
                grams_s,
                beta[s],
                sq_norm[s],
                l1,
                l2,
                positive,
                tol,
                max_sweeps,
                code[s],
                objective[s],
                gap[s],
            )

    pool.run(work)
    return objective, gap


def _ridge(grams: Array, beta: Array, l2: float) -> Array:
    """Return the codes (b, k) with (G + l2 I) α = β, of minimal norm where there are several."""
    k = grams.shape[-1]
    cutoff = k * np.finfo(grams.dtype).eps
    largest = np.einsum("ijj->i", grams) + l2  # the trace bounds the largest eigenvalue
    right_sides = beta.T[None] if len(grams) == 1 else beta[:, :, None]  # (m, k, columns)
    if l2 > cutoff * largest.max(initial=0.0):
        solution = np.linalg.solve(grams + l2 * np.eye(k, dtype=grams.dtype), right_sides)
    else:
        eigenvalues, V = np.linalg.eigh(grams)
        eigenvalues += l2
        usable = eigenvalues > cutoff * eigenvalues.max(axis=-1, initial=0.0, keepdims=True)
        inverse = np.where(usable, 1 / np.where(usable, eigenvalues, 1), 0)
        solution = V @ (inverse[:, :, None] * (V.swapaxes(-1, -2) @ right_sides))
    return np.asarray(solution[0].T if len(grams) == 1 else solution[:, :, 0])


@jit
def _descend(
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    max_sweeps: int,
    code: Array,
    objective: Array,
    gap: Array,
) -> None:
    """Solve the codes of some samples; `code`, `objective` and `gap` are overwritten."""
    for i in range(len(beta)):
        G = grams[min(i, len(grams) - 1)]
        objective[i], gap[i] = _descend_one(
            G, beta[i], sq_norm[i], l1, l2, positive, tol, max_sweeps, code[i]
        )


@jit
def _descend_one(
    G: Array,
    beta: Array,
    sq_norm: float,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    max_sweeps: int,
    a: Array,
) -> tuple[float, float]:
    """Solve one code by cyclic coordinate descent; return its objective and duality gap.

    `a`, the code, is overwritten. g = β − Gα is kept up to date: a coordinate that moves costs one
    row of G, one that stays costs nothing, and the duality gap costs only k. There is at least one
    sweep, so that every visit improves a warm start however loose the tolerance. Nearly collinear
    atoms would take thousands of sweeps; Newton steps on the support, every few sweeps, avoid that.
    """
    k = len(beta)
    eps = np.finfo(beta.dtype).eps
    g = beta.copy()
    for j in range(k):
        if a[j] != 0:
            for n in range(k):
                g[n] -= a[j] * G[j, n]
    bound = np.inf  # reference.largest_coordinate says why there is a bound
    if l1 > 0:
        bound = sq_norm / (2 * l1)
    if l2 > 0:
        bound = min(bound, math.sqrt(sq_norm / l2))
    lower = 0.0 if positive else -bound

    for sweep in range(max_sweeps):
        if sweep % SWEEPS_PER_NEWTON_STEP == SWEEPS_PER_NEWTON_STEP - 1:
            _newton_step(G, g, a, l1, l2, bound)
        largest, largest_change = 0.0, 0.0
        for j in range(k):
            curvature = G[j, j] + l2
            old = a[j]
            if curvature > 0:
                pull = g[j] + G[j, j] * old
                size = max(abs(pull) - l1, 0.0) / curvature
                a[j] = min(max(math.copysign(size, pull), lower), bound)
            else:
                a[j] = 0
            change = a[j] - old
            if change != 0:
                for n in range(k):
                    g[n] -= change * G[j, n]
            largest = max(largest, abs(a[j]))
            largest_change = max(largest_change, abs(change))
        objective, gap = _certificate(G, beta, g, a, sq_norm, l1, l2, positive)
        if tol > 0 and gap <= tol * objective + eps * sq_norm:
            break
        if largest_change <= eps * largest:
            break
    objective, gap = _certificate(G, beta, g, a, sq_norm, l1, l2, positive)
    return objective, gap


@jit
def _newton_step(G: Array, g: Array, a: Array, l1: float, l2: float, bound: float) -> None:
    """Minimise over the support with fixed signs; `a` and g = β − Gα are overwritten.

    On the support the objective is a quadratic. If a coefficient would change its sign, the step
    ends where it is zero, and the next step is tried without it.
    """
    support = np.flatnonzero(a)
    while 0 < len(support) <= MAX_NEWTON_SUPPORT:
        m = len(support)
        H = np.empty((m, m))
        slope = np.empty(m)
        for i in range(m):
            j = support[i]
            slope[i] = g[j] - l2 * a[j] - math.copysign(l1, a[j])
            for n in range(i + 1):
                H[i, n] = G[j, support[n]]
        step = slope.copy()
        if not _solve(H, step, l2):
            return
        length, blocking = 1.0, -1
        for i in range(m):
            old = a[support[i]]
            if old * (old + step[i]) < 0 and -old / step[i] < length:
                length, blocking = -old / step[i], i
        for i in range(m):
            if abs(a[support[i]] + length * step[i]) > bound:
                return
        for i in range(m):
            j = support[i]
            old = a[j]
            a[j] = 0 if i == blocking else old + length * step[i]
            change = a[j] - old
            for n in range(len(a)):
                g[n] -= change * G[j, n]
        if blocking < 0:
            return
        support = support[np.arange(m) != blocking]


@jit
def _solve(H: Array, x: Array, l2: float) -> bool:
    """Solve (H + l2 I) y = x by Cholesky, in place; only the lower half of H is read.

    `H` and `x` are overwritten. A small shift of the diagonal turns a singular H into a long step
    in a direction of descent. Return whether H was positive definite.
    """
    m = len(x)
    top = 0.0
    for i in range(m):
        top = max(top, H[i, i])
    shift = l2 + 1e-10 * top
    for i in range(m):
        H[i, i] += shift
        for n in range(i + 1):
            total = H[i, n]
            for q in range(n):
                total -= H[i, q] * H[n, q]
            if n < i:
                H[i, n] = total / H[n, n]
            elif total > 1e-12 * top:
                H[i, i] = math.sqrt(total)
            else:
                return False
    for i in range(m):
        for q in range(i):
            x[i] -= H[i, q] * x[q]
        x[i] /= H[i, i]
    for i in range(m - 1, -1, -1):
        for q in range(i + 1, m):
            x[i] -= H[q, i] * x[q]
        x[i] /= H[i, i]
    return True


@jit
def _certificate(
    G: Array,
    beta: Array,
    g: Array,
    a: Array,
    sq_norm: float,
    l1: float,
    l2: float,
    positive: bool,
) -> tuple[float, float]:
    """Return objective and duality gap from g = β − Gα.

    `reference.objective_and_gap` has the derivation.
    """
    abs_sum, sq_sum, explained, slope = 0.0, 0.0, 0.0, 0.0
    excess, steepest, decrease = 0.0, 0.0, 0.0
    for j in range(len(a)):
        abs_sum += abs(a[j])
        sq_sum += a[j] * a[j]
        explained += a[j] * beta[j]
        slope += a[j] * g[j]
        size = g[j] if positive else abs(g[j])
        excess += max(size - l1, 0.0) ** 2
        tilted = g[j] - l2 * a[j]
        steepest = max(steepest, tilted if positive else abs(tilted))
        if l1 == 0 and l2 == 0 and G[j, j] > 0:
            step = g[j] / G[j, j]
            if positive:
                step = max(step, -a[j])
            decrease += G[j, j] * step * step / 2

    objective = (sq_norm - explained - slope) / 2 + l1 * abs_sum + l2 / 2 * sq_sum
    if l1 == 0 and l2 == 0:
        return objective, decrease
    gap = np.inf
    if l2 > 0:
        gap = l1 * abs_sum + l2 / 2 * sq_sum - slope + excess / (2 * l2)
    if l1 > 0:
        s = 1.0 if steepest <= l1 else l1 / steepest
        lasso_slope = slope - l2 * sq_sum
        unexplained = sq_norm - explained
        gap = min(
            gap, (1 - s) ** 2 / 2 * unexplained - (1 + s * s) / 2 * lasso_slope + l1 * abs_sum
        )
    return objective, gap
