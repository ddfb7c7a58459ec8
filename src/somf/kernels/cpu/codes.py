"""Codes on the CPU, samples divided among the workers of the thread pool.

An active-set method finds them, ridge codes one linear system. Coordinate descent steps in where
atoms depend on each other.
"""

import numpy as np

from somf.kernels.cpu.active_set import FIRST_CAPACITY, solve
from somf.kernels.cpu.certificate import certificate, residual
from somf.kernels.cpu.descent import descend
from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import pool_for
from somf.penalties import CodePenalty
from somf.typing import Array


def solve_codes(
    grams: Array, beta: Array, sq_norm: Array, penalty: CodePenalty, tol: float, code: Array
) -> tuple[Array, Array]:
    """See `Kernels.solve_codes`."""
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    l1, l2, positive, is_given = penalty.l1, penalty.l2, penalty.positive, penalty.has_closed_form
    pool = pool_for(50 * beta.size * beta.shape[1])
    chunks = pool.dynamic_chunks(len(beta))
    if is_given and len(grams) == 1:
        code[:] = _ridge(grams, beta, l2)  # one system for all samples

    def work(_worker: int) -> None:
        for s in chunks:
            mine = grams if len(grams) == 1 else grams[s]
            if is_given and len(grams) > 1:
                code[s] = _ridge(mine, beta[s], l2)
            _solve_chunk(
                mine,
                beta[s],
                sq_norm[s],
                l1,
                l2,
                positive,
                tol,
                is_given,
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
def _solve_chunk(
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    is_given: bool,
    code: Array,
    objective: Array,
    gap: Array,
) -> None:
    """Solve the codes of some samples, unless they are given; write objectives and gaps."""
    b, k = beta.shape
    g, start = np.empty(k, beta.dtype), np.empty(k, beta.dtype)
    support, step = np.empty(k + 1, np.int64), np.empty(k + 1)
    factor = np.empty((FIRST_CAPACITY, FIRST_CAPACITY))
    for i in range(b):
        G = grams[min(i, len(grams) - 1)]
        if is_given:
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
