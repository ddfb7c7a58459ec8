"""Codes on the CPU, samples divided among threads.

An active-set method finds them, ridge codes one linear system. Coordinate descent is the fallback
if atoms are linearly dependent. Each is a region of its own, so that only what a problem needs is
compiled.
"""

import numpy as np

from somf.kernels.cpu.active_set import FIRST_CAPACITY, solve
from somf.kernels.cpu.certificate import certificate, residual
from somf.kernels.cpu.descent import descend
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.ridge import solve_ridge
from somf.kernels.cpu.threads import threads_for
from somf.penalties import CodePenalty
from somf.typing import Array

WORK_PER_ENTRY = 100.0
"""Operations per entry of a code and atom of its support, roughly, by which threads are chosen."""


def solve_codes(
    grams: Array, beta: Array, sq_norm: Array, penalty: CodePenalty, tol: float, code: Array
) -> tuple[Array, Array]:
    """See `Kernels.solve_codes`."""
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    l1, l2, positive, (b, k) = penalty.l1, penalty.l2, penalty.positive, beta.shape
    if penalty.has_closed_form and solve_ridge(grams, beta, sq_norm, l2, code, objective, gap):
        return objective, gap
    n_threads = threads_for(WORK_PER_ENTRY * b * k * min(k, FIRST_CAPACITY)).count
    n_parts, problem = min(n_threads, b), (grams, beta, sq_norm, l1, l2, positive)
    is_solved = np.zeros(b, dtype=np.bool_)
    if penalty.has_closed_form:
        code[:] = _ridge_of_least_norm(grams, beta, l2)
    elif _solve(n_threads, *problem, tol, n_parts, code, objective, gap, is_solved):
        return objective, gap
    else:
        _descend(n_threads, *problem, tol, n_parts, is_solved, code)
    _certify(n_threads, *problem, n_parts, is_solved, code, objective, gap)
    return objective, gap


def _ridge_of_least_norm(grams: Array, beta: Array, l2: float) -> Array:
    """Return the codes (b, k) with (G + l2 I) α = β, of minimal norm where there are several."""
    cutoff = grams.shape[-1] * np.finfo(grams.dtype).eps
    right_sides = beta.T[None] if len(grams) == 1 else beta[:, :, None]  # (m, k, columns)
    eigenvalues, V = np.linalg.eigh(grams)
    eigenvalues += l2
    usable = eigenvalues > cutoff * eigenvalues.max(axis=-1, initial=0.0, keepdims=True)
    inverse = np.where(usable, 1 / np.where(usable, eigenvalues, 1), 0)
    solution = V @ (inverse[:, :, None] * (V.swapaxes(-1, -2) @ right_sides))
    return np.asarray(solution[0].T if len(grams) == 1 else solution[:, :, 0])


# Neighbouring samples go to different threads: they tend to be equally hard.


@region
def _solve(
    launcher: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    n_parts: int,
    code: Array,
    objective: Array,
    gap: Array,
    is_solved: Array,
) -> bool:
    """Solve codes by the active-set method; one that it does not find stays as it was.

    Return whether it has found all of them; objectives and gaps are then there as well.
    """
    in_parallel(
        _solve_share,
        launcher,
        n_parts,
        grams,
        beta,
        sq_norm,
        l1,
        l2,
        positive,
        tol,
        n_parts,
        code,
        objective,
        gap,
        is_solved,
    )
    return bool(is_solved.all())


@inner
def _solve_share(
    t: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    n_parts: int,
    code: Array,
    objective: Array,
    gap: Array,
    is_solved: Array,
) -> None:
    b, k = beta.shape
    g, start = np.empty(k, beta.dtype), np.empty(k, beta.dtype)
    support, step = np.empty(k + 1, np.int64), np.empty(k + 1)
    factor = np.empty((FIRST_CAPACITY, FIRST_CAPACITY))
    for i in range(t, b, n_parts):
        G, a = grams[min(i, len(grams) - 1)], code[i]
        for j in range(k):  # assigning whole arrays would take seconds longer to compile
            start[j] = a[j]
        is_solved[i], factor = solve(
            G, beta[i], sq_norm[i], l1, l2, positive, tol, a, g, support, step, factor
        )
        if is_solved[i]:
            residual(G, beta[i], a, g)
            objective[i], gap[i] = certificate(G, beta[i], g, a, sq_norm[i], l1, l2, positive)
        else:
            for j in range(k):
                a[j] = start[j]


@region
def _descend(
    launcher: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    n_parts: int,
    is_solved: Array,
    code: Array,
) -> None:
    """Solve the codes that are not solved yet by coordinate descent."""
    in_parallel(
        _descend_share,
        launcher,
        n_parts,
        grams,
        beta,
        sq_norm,
        l1,
        l2,
        positive,
        tol,
        n_parts,
        is_solved,
        code,
    )


@inner
def _descend_share(
    t: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    n_parts: int,
    is_solved: Array,
    code: Array,
) -> None:
    g = np.empty(beta.shape[1], beta.dtype)
    for i in range(t, len(code), n_parts):
        if not is_solved[i]:
            G = grams[min(i, len(grams) - 1)]
            descend(G, beta[i], sq_norm[i], l1, l2, positive, tol, code[i], g)


@region
def _certify(
    launcher: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    n_parts: int,
    is_solved: Array,
    code: Array,
    objective: Array,
    gap: Array,
) -> None:
    """Write the objectives and duality gaps of codes that the active-set method has not solved."""
    in_parallel(
        _certify_share,
        launcher,
        n_parts,
        grams,
        beta,
        sq_norm,
        l1,
        l2,
        positive,
        n_parts,
        is_solved,
        code,
        objective,
        gap,
    )


@inner
def _certify_share(
    t: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    l1: float,
    l2: float,
    positive: bool,
    n_parts: int,
    is_solved: Array,
    code: Array,
    objective: Array,
    gap: Array,
) -> None:
    g = np.empty(beta.shape[1], beta.dtype)
    for i in range(t, len(code), n_parts):
        if not is_solved[i]:
            G = grams[min(i, len(grams) - 1)]
            residual(G, beta[i], code[i], g)
            objective[i], gap[i] = certificate(G, beta[i], g, code[i], sq_norm[i], l1, l2, positive)
