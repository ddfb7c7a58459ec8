"""The kernels on the CPU: BLAS for matrix products, Numba for what is sequential.

Numba functions release the GIL, take no Python objects, and are compiled once per dtype and cached
on disk. Sums over floats may be reordered, NaN and infinity keep their meaning.
"""

import math

import numpy as np
from numba import njit, prange
from scipy.linalg import get_blas_funcs

from somf.kernels import MAX_SWEEPS, smallest_curvature
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Matrix

FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
ATOMS_PER_BLOCK = 32
SWEEPS_PER_NEWTON_STEP = 8
LARGEST_NEWTON_SYSTEM = 256


def correlate(X: Matrix, D: Array) -> Array:
    """See `Kernels.correlate`."""
    return np.asarray(X @ D)


def gram(D: Array) -> Array:
    """See `Kernels.gram`."""
    return D.T @ D


def squared_norms(X: Matrix) -> Array:
    """See `Kernels.squared_norms`."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X))
    return np.asarray(X.multiply(X).sum(axis=1))


def accumulate(B: Array, X: Matrix, code: Array, decay: float) -> None:
    """See `Kernels.accumulate`."""
    if isinstance(X, np.ndarray):
        # BLAS thinks in columns: Bᵀ ← decay Bᵀ + codeᵀ X, scaled and accumulated in one pass.
        gemm = get_blas_funcs("gemm", (B,))
        gemm(1.0, code.T, X.T, beta=decay, c=B.T, trans_b=True, overwrite_c=True)
        return
    if decay != 1.0:
        B *= decay
    _scatter(B, X.indptr, X.indices, X.data, code)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _scatter(B: Array, indptr: Array, indices: Array, data: Array, code: Array) -> None:
    for i in range(len(code)):
        for entry in range(indptr[i], indptr[i + 1]):
            feature, value = indices[entry], data[entry]
            for j in range(code.shape[1]):
                B[feature, j] += value * code[i, j]


def solve_codes(
    grams: Array, beta: Array, sq_norm: Array, penalty: CodePenalty, tol: float, code: Array
) -> tuple[Array, Array]:
    """See `Kernels.solve_codes`."""
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    max_sweeps = MAX_SWEEPS
    if penalty.has_closed_form:
        code[:] = _ridge(grams, beta, penalty.l2)
        max_sweeps = 0
    l1, l2, positive = penalty.l1, penalty.l2, penalty.positive
    _descend(grams, beta, sq_norm, l1, l2, positive, tol, max_sweeps, code, objective, gap)
    return objective, gap


def _ridge(grams: Array, beta: Array, l2: float) -> Array:
    """Return the solutions of (G + l2 I) α = β, the shortest ones where there are many."""
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
        solution = V @ (inverse[:, :, None] * (V.mT @ right_sides))
    return np.asarray(solution[0].T if len(grams) == 1 else solution[:, :, 0])


@njit(parallel=True, cache=True, nogil=True)
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
    """Solve all codes, samples in parallel; `code`, `objective` and `gap` are overwritten."""
    for i in prange(len(beta)):
        shared = len(grams) == 1
        objective[i], gap[i] = _descend_one(
            grams[0] if shared else grams[i],
            beta[i],
            sq_norm[i],
            l1,
            l2,
            positive,
            tol,
            max_sweeps,
            code[i],
        )


@njit(cache=True, nogil=True, fastmath=FASTMATH)
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

    g = β − Gα is kept up to date: a coordinate that moves costs one row of G, one that does not
    move costs nothing, and the duality gap costs only k. At least one sweep is made, so that every
    visit improves a warm start, however loose the tolerance. Where atoms are nearly collinear,
    sweeps alone would take thousands; a Newton step on the support now and then makes up for it.
    """
    k = len(beta)
    eps = np.finfo(beta.dtype).eps
    g = beta.copy()
    for j in range(k):
        if a[j] != 0:
            for n in range(k):
                g[n] -= a[j] * G[j, n]
    bound = np.inf  # why a bound: see reference.largest_coordinate
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


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _newton_step(G: Array, g: Array, a: Array, l1: float, l2: float, bound: float) -> None:
    """Minimise over the support with signs held, or go as far as signs allow; update g = β − Gα.

    On the support the objective is a quadratic. If a coordinate would change its sign, the step
    ends there, that coordinate is zero from now on, and the next step is tried without it.
    """
    support = np.flatnonzero(a)
    while 0 < len(support) <= LARGEST_NEWTON_SYSTEM:
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
            elif abs(old + step[i]) > bound:
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


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _solve(H: Array, x: Array, l2: float) -> bool:
    """Solve (H + l2 I) y = x by Cholesky, in place; only the lower half of H is read.

    A little is added to the diagonal: a singular H then gives a long step in a direction in which
    the objective goes down. Return whether H was positive definite.
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


@njit(cache=True, nogil=True, fastmath=FASTMATH)
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
    """Return objective and duality gap from g = β − Gα, as derived in the reference kernels."""
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


def update_atoms(D: Array, B: Array, C: Array, budget: Array, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`.

    Atoms are taken in blocks J. The product D C_J is done for the whole block, by BLAS; what is
    sequential inside the block is done on what little the block needs.
    """
    floor = smallest_curvature(C)
    for start in range(0, D.shape[1], ATOMS_PER_BLOCK):
        J = slice(start, start + ATOMS_PER_BLOCK)
        if ball.l1_ratio == 0.0 and not ball.positive:
            _update_block_l2(D, B, C, J, budget, floor)
        else:
            _update_block_by_panel(D, B, C, J, budget, floor, ball)


def _update_block_l2(D: Array, B: Array, C: Array, J: slice, budget: Array, floor: float) -> None:
    """Update a block of atoms in the ℓ2 ball without touching the features one atom at a time.

    With R = (B_J − D C_J) / diag C_J, every new atom of the block is a combination of the columns
    of P = [D_J, R]. Norms come from the small Gram matrix PᵀP, the atoms from one product.
    """
    curvature = np.diagonal(C)[J]
    usable = curvature > floor
    m = len(curvature)
    P = np.empty((len(D), 2 * m), dtype=D.dtype)
    P[:, :m] = D[:, J]
    np.subtract(B[:, J], D @ C[:, J], out=P[:, m:])
    P[:, m:] /= np.where(usable, curvature, 1)
    weights = _combine(gram(P).astype(np.float64), C[J, J].astype(np.float64), usable, budget[J])
    D[:, J] = P @ weights.astype(D.dtype)


@njit(cache=True, nogil=True)
def _combine(K: Array, C: Array, usable: Array, budget: Array) -> Array:
    """Return the (2m, m) weights that make the new atoms out of [D_J, R], given its Gram K."""
    m = len(C)
    weights = np.zeros((2 * m, m))
    moved = np.zeros((m, 2 * m))  # new atom minus old atom
    for j in range(m):
        weights[j, j] = 1.0
        if not usable[j]:
            continue
        u = np.zeros(2 * m)
        u[j] = 1.0
        u[m + j] = 1.0
        for i in range(j):
            u -= moved[i] * (C[i, j] / C[j, j])
        sq_norm = np.dot(u, np.dot(K, u))
        if sq_norm > budget[j]:
            u *= math.sqrt(max(budget[j], 0.0) / sq_norm)
        weights[:, j] = u
        moved[j] = u
        moved[j, j] -= 1.0
    return weights


def _update_block_by_panel(
    D: Array, B: Array, C: Array, J: slice, budget: Array, floor: float, ball: AtomBall
) -> None:
    """Update a block of atoms in any ball, on a transposed panel where each atom is contiguous."""
    atoms = np.ascontiguousarray(D[:, J].T)
    residual = np.subtract(B[:, J].T, C[J] @ D.T, order="C")
    within = np.ascontiguousarray(C[J, J])
    _sweep_panel(atoms, residual, within, budget[J], floor, ball.l1_ratio, ball.positive)
    D[:, J] = atoms.T


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _sweep_panel(
    atoms: Array,
    residual: Array,
    C: Array,
    budget: Array,
    floor: float,
    mu: float,
    positive: bool,
) -> None:
    """Do the Gauss–Seidel pass inside a block; `atoms` and `residual` (m, q) are overwritten."""
    m, q = atoms.shape
    support = np.empty(q, dtype=atoms.dtype)
    for j in range(m):
        if C[j, j] <= floor:
            continue
        u = residual[j]
        for n in range(q):
            u[n] = atoms[j, n] + u[n] / C[j, j]
        _project(u, budget[j], mu, positive, support)
        for n in range(q):
            new = u[n]
            u[n] = new - atoms[j, n]  # from here on: how far the atom moved
            atoms[j, n] = new
        for i in range(j + 1, m):
            coupling = C[i, j]
            if coupling != 0:
                for n in range(q):
                    residual[i, n] -= coupling * u[n]


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _project(u: Array, radius: float, mu: float, positive: bool, support: Array) -> None:
    """Project `u` onto the ball, in place; `AtomBall.project` derives it. `support` is scratch."""
    c = 1.0 - mu
    size = 0
    for n in range(len(u)):
        if radius <= 0 or (positive and u[n] < 0):
            u[n] = 0
        if u[n] != 0:
            support[size] = abs(u[n])
            size += 1
    theta = 0.0
    while True:
        l1, l2 = 0.0, 0.0
        for n in range(size):
            l1 += support[n]
            l2 += support[n] * support[n]
        excess = mu * l1 + c * l2 - radius
        if excess <= 0 or size == 0:
            break
        rhs = excess / (size * mu**2 + 4 * radius * c)
        theta = 2 * rhs / (1 + math.sqrt(1 + 4 * c * rhs))
        kept = 0
        for n in range(size):
            if support[n] > theta * mu:
                support[kept] = support[n]
                kept += 1
        if kept == size:
            break
        size = kept
    if theta > 0:
        cut, scale = theta * mu, 1 / (1 + 2 * theta * c)
        for n in range(len(u)):
            u[n] = math.copysign(max(abs(u[n]) - cut, 0.0) * scale, u[n])


def atom_norms(D: Array, ball: AtomBall) -> Array:
    """See `Kernels.atom_norms`."""
    return np.asarray(_norms(D, ball.l1_ratio)).astype(D.dtype)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _norms(D: Array, mu: float) -> Array:
    norms = np.zeros(D.shape[1])
    for row in range(len(D)):
        for j in range(D.shape[1]):
            entry = D[row, j]
            norms[j] += mu * abs(entry) + (1 - mu) * entry * entry
    return norms
