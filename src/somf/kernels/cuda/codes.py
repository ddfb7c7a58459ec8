"""Codes on a GPU: one Triton program per sample, with its vectors of length k in registers."""

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl

from somf.penalties import CodePenalty

MAX_ROUNDS = 20_000
"""Rounds of updates after which a code is returned even if it has not converged."""

UPDATES_PER_ROUND: tl.constexpr = tl.constexpr(16)
"""Updates of single coordinates between two computations of the duality gap."""

ROUNDS_PER_NEWTON_STEP: tl.constexpr = tl.constexpr(4)
"""Rounds of updates per Newton step."""

MAX_CONJUGATE_GRADIENTS: tl.constexpr = tl.constexpr(64)
"""Iterations of conjugate gradients in a Newton step."""

ROWS_AT_ONCE: tl.constexpr = tl.constexpr(8)
"""Rows of G that a program loads at the same time in a product with G."""

MIN_WIDTH = 64
"""Smallest length of a program's vectors: two entries for each of the 32 lanes of a warp.

With one entry per lane, the compiler fuses a lane's own product with the first addition of the sum
Σ aᵢbᵢ over lanes. That product is not rounded, but the neighbouring lane receives it rounded. Lanes
then disagree on the sum, hence on when to stop, and those that continue read values that the
others never sent.
"""


def solve_codes(
    grams: Any, beta: Any, sq_norm: Any, penalty: CodePenalty, tol: float, code: Any
) -> tuple[Any, Any]:
    """See `Kernels.solve_codes`."""
    b, k = beta.shape
    objective, gap = torch.empty_like(sq_norm), torch.empty_like(sq_norm)
    if penalty.has_closed_form:
        code.copy_(_ridge(grams, beta, penalty.l2))
    if b == 0:
        return objective, gap
    K = max(MIN_WIDTH, triton.next_power_of_2(k))
    _descend[(b,)](
        grams,
        grams.stride(0) if len(grams) > 1 else 0,
        beta.contiguous(),
        sq_norm,
        code,
        objective,
        gap,
        torch.empty((b, k + ROWS_AT_ONCE.value), dtype=torch.int32, device=beta.device),
        torch.empty((b, k + ROWS_AT_ONCE.value), dtype=beta.dtype, device=beta.device),
        _settings(penalty.l1, penalty.l2, tol, beta.dtype, beta.device),
        k,
        0 if penalty.has_closed_form else MAX_ROUNDS,
        POSITIVE=penalty.positive,
        HAS_L1=penalty.l1 > 0,
        HAS_L2=penalty.l2 > 0,
        K=K,
        num_warps=max(1, min(4, K // 128)),
    )
    return objective, gap


@lru_cache(maxsize=64)
def _settings(l1: float, l2: float, tol: float, dtype: torch.dtype, device: torch.device) -> Any:
    """Return (l1, l2, tol, ε) as a tensor: Triton would round plain arguments to float32."""
    return torch.tensor([l1, l2, tol, torch.finfo(dtype).eps], dtype=dtype, device=device)


def clear_settings() -> None:
    """Free the device memory that `solve_codes` keeps between calls."""
    _settings.cache_clear()


def _ridge(grams: Any, beta: Any, l2: float) -> Any:
    """Return the codes (b, k) with (G + l2 I) α = β, of minimal norm where there are several.

    Computed in float64, because G may be singular in the precision of the data.
    """
    G, k = grams.double(), grams.shape[-1]
    right_sides = beta.double().T[None] if len(grams) == 1 else beta.double()[:, :, None]
    if l2 > 0:
        trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)
        shift = l2 + k * torch.finfo(G.dtype).eps * trace
        G = G + shift[:, None, None] * torch.eye(k, dtype=G.dtype, device=G.device)
        solution = torch.cholesky_solve(right_sides, torch.linalg.cholesky_ex(G).L)
    else:
        eigenvalues, V = torch.linalg.eigh(G)
        cutoff = k * torch.finfo(grams.dtype).eps * eigenvalues.amax(-1, keepdim=True)
        inverse = torch.where(eigenvalues > cutoff, 1 / eigenvalues, 0.0)
        solution = V @ (inverse[:, :, None] * (V.mT @ right_sides))
    solution = solution[0].T if len(grams) == 1 else solution[:, :, 0]
    return solution.to(beta.dtype)


@triton.jit
def _descend(
    grams,
    gram_stride,
    beta,
    sq_norm,
    code,
    objective,
    gap,
    nonzero_index,
    nonzero_value,
    settings,
    k,
    max_rounds,
    POSITIVE: tl.constexpr,
    HAS_L1: tl.constexpr,
    HAS_L2: tl.constexpr,
    K: tl.constexpr,
):
    """Solve the code of one sample; `code`, `objective` and `gap` are overwritten.

    `nonzero_index` and `nonzero_value`, of shape (b, k + ROWS_AT_ONCE), are buffers.
    """
    i = tl.program_id(0).to(tl.int64)
    G = grams + i * gram_stride
    nonzero_index += i * (k + ROWS_AT_ONCE)
    nonzero_value += i * (k + ROWS_AT_ONCE)
    index = tl.arange(0, K)
    is_atom = index < k
    l1, l2 = tl.load(settings), tl.load(settings + 1)
    tol, eps = tl.load(settings + 2), tl.load(settings + 3)

    b = tl.load(beta + i * k + index, mask=is_atom, other=0.0)
    sq = tl.load(sq_norm + i)
    diagonal = tl.load(G + index * (k + 1), mask=is_atom, other=0.0)
    a = tl.load(code + i * k + index, mask=is_atom, other=0.0)
    a, g = _minimise(
        G,
        b,
        sq,
        a,
        diagonal,
        index,
        k,
        l1,
        l2,
        tol,
        eps,
        max_rounds,
        nonzero_index,
        nonzero_value,
        POSITIVE,
        HAS_L1,
        HAS_L2,
        K,
    )
    f, distance = _certificate(b, g, a, diagonal, sq, l1, l2, POSITIVE, HAS_L1, HAS_L2)
    tl.store(code + i * k + index, a, mask=is_atom)
    tl.store(objective + i, f)
    tl.store(gap + i, distance)


@triton.jit
def _minimise(
    G,
    b,
    sq,
    a,
    diagonal,
    index,
    k,
    l1,
    l2,
    tol,
    eps,
    max_rounds,
    nonzero_index,
    nonzero_value,
    POSITIVE: tl.constexpr,
    HAS_L1: tl.constexpr,
    HAS_L2: tl.constexpr,
    K: tl.constexpr,
):
    """Return the optimal code and its g = β − Gα, by greedy coordinate descent from the code `a`.

    g is kept up to date. Each update moves the coordinate with the largest decrease, at the cost of
    one row of G; coordinates that stay cost nothing. Nearly collinear atoms would take thousands of
    updates; Newton steps on the support, every few rounds, avoid that.
    """
    curvature = diagonal + l2
    if max_rounds > 0:
        a = tl.where(curvature > 0, a, 0.0)
    g = b - _times_gram(G, a, index, k, nonzero_index, nonzero_value, K)
    bound = _coefficient_bound(sq, l1, l2, HAS_L1, HAS_L2)
    n_rounds = 0
    n_since_newton = 0
    running = max_rounds > 0
    while running:
        a, g = _update_round(G, g, a, index, k, diagonal, curvature, l1, bound, POSITIVE)
        n_rounds += 1
        n_since_newton += 1
        f, distance = _certificate(b, g, a, diagonal, sq, l1, l2, POSITIVE, HAS_L1, HAS_L2)
        change = _best_values(g, a, diagonal, curvature, l1, bound, POSITIVE) - a
        is_moving = tl.max(tl.abs(change), axis=0) > 4 * eps * tl.max(tl.abs(a), axis=0)
        is_open = (tol == 0) | (distance > tol * f + eps * sq)
        running = is_moving & is_open & (n_rounds < max_rounds)
        if running & (n_since_newton == ROUNDS_PER_NEWTON_STEP):
            n_since_newton = 0
            a = _newton_step(
                G, g, a, index, k, l1, l2, bound, diagonal, eps, nonzero_index, nonzero_value, K
            )
            g = b - _times_gram(G, a, index, k, nonzero_index, nonzero_value, K)
    return a, g


@triton.jit
def _coefficient_bound(sq, l1, l2, HAS_L1: tl.constexpr, HAS_L2: tl.constexpr):
    """Return a bound on the coefficients; `reference.largest_coordinate` has the derivation."""
    bound = sq * 0 + float("inf")
    if HAS_L1:
        bound = sq / (2 * l1)
    if HAS_L2:
        bound = tl.minimum(bound, tl.sqrt(sq / l2))
    return bound


@triton.jit
def _update_round(G, g, a, index, k, diagonal, curvature, l1, bound, POSITIVE: tl.constexpr):
    """Return the code and g = β − Gα after some updates of single coordinates."""
    for _ in range(UPDATES_PER_ROUND):
        new = _best_values(g, a, diagonal, curvature, l1, bound, POSITIVE)
        gain = (new - a) * (new - a) * curvature
        j = tl.argmax(gain, axis=0)
        is_chosen = index == j
        step = tl.sum(tl.where(is_chosen, new - a, 0.0), axis=0)
        a = tl.where(is_chosen, new, a)
        g -= step * tl.load(G + j * k + index, mask=index < k, other=0.0)
    return a, g


@triton.jit
def _best_values(g, a, diagonal, curvature, l1, bound, POSITIVE: tl.constexpr):
    """Return the minimiser over each coordinate with the others fixed; zero for a zero atom."""
    usable = curvature > 0
    pull = g + diagonal * a
    size = tl.maximum(tl.abs(pull) - l1, 0.0) / tl.where(usable, curvature, 1.0)
    best = tl.minimum(tl.where(pull < 0, -size, size), bound)
    best = tl.maximum(best, 0.0 if POSITIVE else -bound)
    return tl.where(usable, best, 0.0)


@triton.jit
def _times_gram(G, v, index, k, nonzero_index, nonzero_value, K: tl.constexpr):
    """Return G v from the rows of G where v is not zero; the two buffers are overwritten."""
    is_nonzero = v != 0
    n_nonzero = tl.sum(is_nonzero.to(tl.int32), axis=0)
    rank = tl.cumsum(is_nonzero.to(tl.int32), axis=0) - 1
    tl.debug_barrier()
    tl.store(nonzero_index + rank, index, mask=is_nonzero)
    tl.store(nonzero_value + rank, v, mask=is_nonzero)
    tl.debug_barrier()
    product = tl.zeros([K], dtype=v.dtype)
    line = tl.arange(0, ROWS_AT_ONCE)
    for first in range(0, n_nonzero, ROWS_AT_ONCE):
        is_row = first + line < n_nonzero
        rows = tl.load(nonzero_index + first + line, mask=is_row, other=0)
        weights = tl.load(nonzero_value + first + line, mask=is_row, other=0.0)
        G_rows = tl.load(
            G + rows[:, None] * k + index[None, :], mask=(index < k)[None, :], other=0.0
        )
        product += tl.sum(weights[:, None] * G_rows, axis=0)
    return product


@triton.jit
def _newton_step(
    G,
    g,
    a,
    index,
    k,
    l1,
    l2,
    bound,
    diagonal,
    eps,
    nonzero_index,
    nonzero_value,
    K: tl.constexpr,
):
    """Return a code that is better, or the same; the two buffers are overwritten.

    On the support, with fixed signs, the objective is a quadratic. Conjugate gradients approximate
    its minimum. If a coefficient would change its sign, the step ends where it is zero.
    """
    support = a != 0
    n_support = tl.sum(support.to(tl.int32), axis=0)
    shift = l2 + eps * tl.max(diagonal, axis=0)
    slope = g - l2 * a - tl.where(a < 0, -l1, l1)
    residual = tl.where(support, slope, 0.0)
    direction = residual
    step = tl.zeros([K], dtype=a.dtype)
    sq_residual = tl.sum(residual * residual, axis=0)
    target = eps * sq_residual
    n = 0
    max_n = tl.minimum(2 * n_support, MAX_CONJUGATE_GRADIENTS)
    running = sq_residual > 0
    while running:
        H_direction = _times_gram(G, direction, index, k, nonzero_index, nonzero_value, K)
        H_direction = tl.where(support, H_direction + shift * direction, 0.0)
        curvature = tl.sum(direction * H_direction, axis=0)
        is_convex = curvature > 0
        length = tl.where(is_convex, sq_residual / tl.where(is_convex, curvature, 1.0), 0.0)
        step += length * direction
        residual -= length * H_direction
        new_sq_residual = tl.sum(residual * residual, axis=0)
        direction = residual + new_sq_residual / sq_residual * direction
        sq_residual = new_sq_residual
        n += 1
        running = is_convex & (sq_residual > target) & (n < max_n)

    flips = support & (a * (a + step) < 0)
    room = tl.where(flips, -a / tl.where(flips, step, 1.0), 1.0)
    length = tl.min(room, axis=0)
    moved = tl.where(flips & (room <= length), 0.0, a + length * step)
    is_inside = tl.max(tl.abs(moved), axis=0) <= bound
    return tl.where(is_inside, moved, a)


@triton.jit
def _certificate(
    b,
    g,
    a,
    diagonal,
    sq,
    l1,
    l2,
    POSITIVE: tl.constexpr,
    HAS_L1: tl.constexpr,
    HAS_L2: tl.constexpr,
):
    """Return objective and duality gap from g = β − Gα.

    `reference.objective_and_gap` has the derivation.
    """
    abs_sum = tl.sum(tl.abs(a), axis=0)
    sq_sum = tl.sum(a * a, axis=0)
    explained = tl.sum(a * b, axis=0)
    slope = tl.sum(a * g, axis=0)
    objective = (sq - explained - slope) / 2 + l1 * abs_sum + l2 / 2 * sq_sum
    gap = sq * 0 + float("inf")
    if HAS_L2:
        excess = tl.maximum((g if POSITIVE else tl.abs(g)) - l1, 0.0)
        squares = tl.sum(excess * excess, axis=0)
        gap = l1 * abs_sum + l2 / 2 * sq_sum - slope + squares / (2 * l2)
    if HAS_L1:
        tilted = g - l2 * a
        steepest = tl.max(tilted if POSITIVE else tl.abs(tilted), axis=0)
        s = tl.where(steepest <= l1, 1.0, l1 / tl.where(steepest <= l1, 1.0, steepest))
        lasso_slope = slope - l2 * sq_sum
        lasso_gap = (
            (1 - s) * (1 - s) / 2 * (sq - explained) - (1 + s * s) / 2 * lasso_slope + l1 * abs_sum
        )
        gap = tl.minimum(gap, lasso_gap)
    if not HAS_L1 and not HAS_L2:
        usable = diagonal > 0
        step = tl.where(usable, g / tl.where(usable, diagonal, 1.0), 0.0)
        if POSITIVE:
            step = tl.maximum(step, -a)
        gap = tl.sum(diagonal * step * step, axis=0) / 2
    return objective, gap
