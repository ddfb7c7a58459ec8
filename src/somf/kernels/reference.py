"""The kernels in plain NumPy: obvious, slow, and what the tests compare every device with."""

from collections.abc import Callable

import numpy as np

from somf.kernels.host import *  # noqa: F403 (the rest of the protocol)
from somf.kernels.pairs import unpacked, upper
from somf.kernels.protocol import (
    MAX_SWEEPS,
    smallest_curvature,
    smallest_curvatures,
)
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints, Matrix, Slices


def _indices(rows: Slices) -> Ints:
    """Return the indices of the features in some slices."""
    return np.concatenate([np.arange(s.start, s.stop) for s in rows])


def correlate(X: Matrix, D: Array, rows: Slices) -> Array:
    """See `Kernels.correlate`."""
    return np.asarray(X[:, _indices(rows)] @ D[_indices(rows)])


def pairs(A: Array, weights: Array | None) -> Array:
    """See `Kernels.pairs`."""
    first, second = upper(A.shape[1])
    found = A[:, first] * A[:, second]
    return found if weights is None else found * weights[:, None]


def weighted_grams(weights: Matrix, D: Array, rows: Slices) -> Array:
    """See `Kernels.weighted_grams`."""
    k, D_s = D.shape[1], D[_indices(rows)]
    outer = (D_s[:, :, None] * D_s[:, None, :]).reshape(-1, k * k)
    return np.asarray(weights[:, _indices(rows)] @ outer).reshape(-1, k, k)


def gram(D: Array, rows: Slices) -> Array:
    """See `Kernels.gram`."""
    return D[_indices(rows)].T @ D[_indices(rows)]


def combine(weights: Array, grams: Array) -> Array:
    """See `Kernels.combine`."""
    return np.asarray(np.einsum("mr,rjk->mjk", weights, grams))


def squared_norms(X: Matrix, rows: Slices) -> Array:
    """See `Kernels.squared_norms`."""
    X_s = X[:, _indices(rows)]
    return np.asarray((X_s * X_s).sum(axis=1))


def observe(X: Matrix, D: Array, rows: Slices) -> tuple[Array, Array]:
    """See `Kernels.observe`."""
    return correlate(X, D, rows), squared_norms(X, rows)


def accumulate(B: Array, X: Matrix, code: Array, decay: float, rows: Slices | None = None) -> None:
    """See `Kernels.accumulate`."""
    for s in (slice(0, len(B)),) if rows is None else rows:
        B[s] *= decay
        B[s] += X[:, s].T @ code


def sum_parts(parts: Array) -> Array:
    """See `Kernels.sum_parts`."""
    total: Array = np.add.reduce(parts)
    return total


def solve_codes(
    grams: Array, beta: Array, sq_norm: Array, penalty: CodePenalty, tol: float, code: Array
) -> tuple[Array, Array]:
    """See `Kernels.solve_codes`."""
    objective, gap = np.empty_like(sq_norm), np.empty_like(sq_norm)
    for i in range(len(code)):
        G = grams[i] if len(grams) > 1 else grams[0]
        if penalty.has_closed_form:
            code[i] = ridge(G, beta[i], penalty.l2)
        else:
            coordinate_descent(G, beta[i], sq_norm[i], penalty, tol, code[i])
        objective[i], gap[i] = objective_and_gap(G, beta[i], sq_norm[i], penalty, code[i])
    return objective, gap


def ridge(G: Array, beta: Array, l2: float) -> Array:
    """Return the code (k,) with (G + l2 I) α = β, of minimal norm if there are several."""
    eigenvalues, V = np.linalg.eigh(G)
    shifted = eigenvalues + l2
    usable = shifted > len(G) * np.finfo(G.dtype).eps * shifted.max()
    inverse = np.where(usable, 1 / np.where(usable, shifted, 1), 0)
    return np.asarray(V @ (inverse * (V.T @ beta)))


def coordinate_descent(
    G: Array, beta: Array, sq_norm: float, penalty: CodePenalty, tol: float, code: Array
) -> None:
    """Minimise over one code by cyclic coordinate descent; `code` (k,) is overwritten."""
    eps = np.finfo(code.dtype).eps
    bound = largest_coordinate(sq_norm, penalty)
    for _ in range(MAX_SWEEPS):
        largest_change = 0.0
        for j in range(len(code)):
            curvature = G[j, j] + penalty.l2
            if curvature <= 0:  # a zero atom
                code[j] = 0
                continue
            pull = beta[j] - G[j] @ code + G[j, j] * code[j]
            new = np.sign(pull) * max(abs(pull) - penalty.l1, 0) / curvature
            new = min(max(new, 0 if penalty.positive else -bound), bound)
            largest_change = max(largest_change, abs(new - code[j]))
            code[j] = new
        objective, gap = objective_and_gap(G, beta, sq_norm, penalty, code)
        if tol > 0 and gap <= tol * objective + eps * sq_norm:
            return
        if largest_change <= eps * np.abs(code).max():
            return


def largest_coordinate(sq_norm: float, penalty: CodePenalty) -> float:
    """Return a bound on the coefficients of the optimal code.

    The optimum is no worse than the zero code: l1 ‖α‖₁ + ½ l2 ‖α‖² ≤ ½ ‖x‖². For a least-squares
    problem the bound is never active at the solution. It matters where β and G are averages over
    different dictionaries: the quadratic may then be unbounded below.
    """
    bound = np.inf
    if penalty.l1 > 0:
        bound = sq_norm / (2 * penalty.l1)
    if penalty.l2 > 0:
        bound = min(bound, np.sqrt(sq_norm / penalty.l2))
    return float(bound)


def objective_and_gap(
    G: Array, beta: Array, sq_norm: float, penalty: CodePenalty, code: Array
) -> tuple[float, float]:
    """Return the objective of a code and a bound on its distance to the optimum.

    There are two dual points, and the smaller gap counts. Both come from the residual r = x − Dα,
    and need only g = Dᵀr = β − Gα.

    1. With l2 > 0 the penalty has a finite conjugate, so r itself is feasible:
       gap = λΩ(α) − αᵀg + Σ (|gⱼ| − l1)₊² / (2 l2).
    2. With l1 > 0 the squared term can count as data, which gives a lasso with G + l2 I and the
       same β. Scaling the residual by s = min(1, l1 / ‖g‖∞) makes it feasible.

    Without a penalty neither point is feasible. The "gap" is then the sum of the decreases
    ½ δⱼ²Gⱼⱼ of exact steps along single coordinates.
    """
    l1, l2 = penalty.l1, penalty.l2
    g = beta - G @ code
    abs_sum, sq_sum = np.abs(code).sum(), code @ code
    explained = beta @ code
    objective = (sq_norm - explained - code @ g) / 2 + l1 * abs_sum + l2 / 2 * sq_sum

    if l1 == 0 and l2 == 0:
        curvature = np.diagonal(G)
        usable = curvature > 0
        step = np.where(usable, g / np.where(usable, curvature, 1), 0)
        if penalty.positive:
            step = np.maximum(step, -code)
        return float(objective), float((curvature * step**2).sum() / 2)

    gap = np.inf
    if l2 > 0:
        excess = np.maximum((g if penalty.positive else np.abs(g)) - l1, 0)
        gap = l1 * abs_sum + l2 / 2 * sq_sum - code @ g + (excess**2).sum() / (2 * l2)
    if l1 > 0:
        g = g - l2 * code
        steepest = (g if penalty.positive else np.abs(g)).max()
        s = 1.0 if steepest <= l1 else l1 / steepest
        lasso_gap = (
            (1 - s) ** 2 / 2 * (sq_norm - explained) - (1 + s**2) / 2 * (code @ g) + l1 * abs_sum
        )
        gap = min(gap, lasso_gap)
    return float(objective), float(gap)


def update_atoms(D: Array, B: Array, C: Array, rows: Slices, budget: Array, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    floor = smallest_curvature(C)
    S = _indices(rows)
    for j in range(D.shape[1]):
        if C[j, j] > floor:
            u = D[S, j] + (B[S, j] - D[S] @ C[:, j]) / C[j, j]
            D[S, j] = ball.project(u, float(budget[j]))


def update_atoms_by_feature(
    D: Array,
    B: Array,
    C: Array,
    E: Array,
    ridge: Array | None,
    rows: Slices,
    budget: Array,
    ball: AtomBall,
) -> None:
    """See `Kernels.update_atoms_by_feature`."""
    k, S = D.shape[1], _indices(rows)
    matrices = C + unpacked(E[S], k)
    if ridge is not None:
        matrices += ridge[S, None, None] * np.eye(k, dtype=D.dtype)
    floors = smallest_curvatures(C, E)
    for j in range(k):
        c, floor = matrices[:, j, j], floors[j]
        u = c * D[S, j] + B[S, j] - (matrices[:, j] * D[S]).sum(axis=1)
        known = c > floor
        if known.any():
            D[S, j] = 0
            D[S[known], j] = ball.weighted_minimum(u[known], c[known], float(budget[j]))


def update_part(
    D: Array, B: Array, C: Array, budget: Array, total: Callable[[Array], Array]
) -> None:
    """See `Kernels.update_part`."""
    floor = smallest_curvature(C)
    for j in range(D.shape[1]):
        if C[j, j] > floor:
            u = D[:, j] + (B[:, j] - D @ C[:, j]) / C[j, j]
            sq_norm = total(np.array([u @ u]))[0]
            D[:, j] = u if sq_norm <= budget[j] else u * np.sqrt(max(budget[j], 0) / sq_norm)


def atom_norms(D: Array, rows: Slices, ball: AtomBall) -> Array:
    """See `Kernels.atom_norms`."""
    return np.stack([ball.norm(D[s]) for s in rows])
