"""Codes on the CPU, samples divided among threads.

An active-set method finds them, ridge codes one linear system. Coordinate descent steps in where
atoms depend on each other.
"""

import numpy as np
from numba import prange

from somf.kernels.cpu.active_set import FIRST_CAPACITY, SINGULAR, solve, solve_ridge
from somf.kernels.cpu.certificate import certificate, residual
from somf.kernels.cpu.descent import descend
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.penalties import CodePenalty
from somf.typing import Array

WORK_PER_ENTRY = 200.0
"""Operations per entry of a code and atom of its support, roughly, by which threads are chosen."""


def solve_codes(
    grams: Array, beta: Array, sq_norm: Array, penalty: CodePenalty, tol: float, code: Array
) -> tuple[Array, Array]:
    """See `Kernels.solve_codes`."""
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    b, k = beta.shape
    threads = threads_for(WORK_PER_ENTRY * b * k * min(k, FIRST_CAPACITY))
    is_given = penalty.has_closed_form and not (len(grams) > 1 and _is_regular(grams, penalty.l2))
    if is_given:
        code[:] = _ridge(grams, beta, penalty.l2)
    _solve_all(
        threads.count,
        grams,
        beta,
        sq_norm,
        penalty.l1,
        penalty.l2,
        penalty.positive,
        tol,
        is_given,
        min(threads.count, b),
        code,
        objective,
        gap,
    )
    return objective, gap


def _is_regular(grams: Array, l2: float) -> bool:
    """Return whether l2 makes every G + l2 I safe to factor."""
    largest = np.einsum("ijj->i", grams).max(initial=0.0) + l2  # the trace bounds all eigenvalues
    return bool(l2 > max(len(grams[0]) * np.finfo(grams.dtype).eps, 10 * SINGULAR) * largest)


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


@region
def _solve_all(
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    is_given: bool,
    n_parts: int,
    code: Array,
    objective: Array,
    gap: Array,
) -> None:
    """Solve the codes of all samples, unless they are given; write objectives and gaps.

    Without l1 and signs, a code is the solution of one regular linear system.
    Neighbouring samples go to different threads: they tend to be equally hard.
    """
    b, k = beta.shape
    for t in prange(n_parts):
        g = np.empty(k, beta.dtype)
        start = np.empty(k, beta.dtype)
        support = np.empty(k + 1, np.int64)
        step = np.empty(k + 1)
        factor = np.empty((FIRST_CAPACITY, FIRST_CAPACITY))
        for i in range(t, b, n_parts):
            G = grams[min(i, len(grams) - 1)]
            if is_given:
                residual(G, beta[i], code[i], g)
            elif l1 == 0 and not positive:
                factor = solve_ridge(G, beta[i], l2, code[i], support, step, factor)
                residual(G, beta[i], code[i], g)
            else:
                start[:] = code[i]
                is_solved, factor = solve(
                    G, beta[i], sq_norm[i], l1, l2, positive, tol, code[i], g, support, step, factor
                )
                if not is_solved:
                    code[i] = start
                    descend(G, beta[i], sq_norm[i], l1, l2, positive, tol, code[i], g)
            objective[i], gap[i] = certificate(G, beta[i], g, code[i], sq_norm[i], l1, l2, positive)
