"""Codes on a GPU: one program per sample, which keeps the sample's vectors in registers."""

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl

from somf.penalties import CodePenalty

MAX_ROUNDS = 20_000
"""Rounds of updates after which a code is taken as it is."""
UPDATES_PER_ROUND: tl.constexpr = tl.constexpr(16)
ROUNDS_PER_NEWTON_STEP: tl.constexpr = tl.constexpr(4)
LONGEST_NEWTON_STEP: tl.constexpr = tl.constexpr(64)
ROWS_AT_ONCE: tl.constexpr = tl.constexpr(8)
SMALLEST_WIDTH = 64
"""Fewest numbers that a program works on: two for each of the 32 lanes of a warp.

With one for each, a lane's own product is fused with the first addition of Σ aᵢbᵢ between lanes and
is not rounded, while its neighbour receives it rounded. Lanes then disagree on the sum, hence on
when to stop, and those that go on read what those that stopped never sent.
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
    K = max(SMALLEST_WIDTH, triton.next_power_of_2(k))
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
    """Return numbers as an array: as arguments Triton would round them to float32."""
    return torch.tensor([l1, l2, tol, torch.finfo(dtype).eps], dtype=dtype, device=device)


def forget_settings() -> None:
    """Let go of what `solve_codes` keeps on the device between two calls."""
    _settings.cache_clear()


def _ridge(grams: Any, beta: Any, l2: float) -> Any:
    """Return the solutions of (G + l2 I) α = β, the shortest ones where there are many.

    In double precision, which leaves room for a G that is singular in the precision of the data.
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
    places,
    values,
    settings,
    k,
    max_rounds,
    POSITIVE: tl.constexpr,
    HAS_L1: tl.constexpr,
    HAS_L2: tl.constexpr,
    K: tl.constexpr,
):
    """Solve the code of one sample by greedy coordinate descent.

    g = β − Gα is kept up to date. Each update moves the coordinate that promises the largest
    decrease, at the cost of one row of G; no time is spent on coordinates that stay. Where atoms
    are nearly collinear this alone would take thousands of updates; a Newton step on the support
    now and then makes up for it.
    """
    i = tl.program_id(0).to(tl.int64)
    G = grams + i * gram_stride
    places += i * (k + ROWS_AT_ONCE)
    values += i * (k + ROWS_AT_ONCE)
    index = tl.arange(0, K)
    real = index < k
    l1, l2 = tl.load(settings), tl.load(settings + 1)
    tol, eps = tl.load(settings + 2), tl.load(settings + 3)

    b = tl.load(beta + i * k + index, mask=real, other=0.0)
    x = tl.load(sq_norm + i)
    diagonal = tl.load(G + index * (k + 1), mask=real, other=0.0)
    curvature = diagonal + l2
    a = tl.load(code + i * k + index, mask=real, other=0.0)
    if max_rounds > 0:
        a = tl.where(curvature > 0, a, 0.0)
    g = b - _times_gram(G, a, index, k, places, values, K)
    bound = x * 0 + float("inf")  # why a bound: see reference.largest_coordinate
    if HAS_L1:
        bound = x / (2 * l1)
    if HAS_L2:
        bound = tl.minimum(bound, tl.sqrt(x / l2))

    rounds = 0
    going = max_rounds > 0
    while going:
        for _ in range(UPDATES_PER_ROUND):
            new = _best_values(g, a, diagonal, curvature, l1, bound, POSITIVE)
            gain = (new - a) * (new - a) * curvature
            j = tl.argmax(gain, axis=0)
            chosen = index == j
            step = tl.sum(tl.where(chosen, new - a, 0.0), axis=0)
            a = tl.where(chosen, new, a)
            g -= step * tl.load(G + j * k + index, mask=real, other=0.0)
        rounds += 1
        value, distance = _certificate(b, g, a, diagonal, x, l1, l2, POSITIVE, HAS_L1, HAS_L2)
        wanted = _best_values(g, a, diagonal, curvature, l1, bound, POSITIVE) - a
        moving = tl.max(tl.abs(wanted), axis=0) > 4 * eps * tl.max(tl.abs(a), axis=0)
        is_open = (tol == 0) | (distance > tol * value + eps * x)
        going = moving & is_open & (rounds < max_rounds)
        if going & (rounds % ROUNDS_PER_NEWTON_STEP == 0):
            a = _newton_step(G, g, a, index, k, l1, l2, bound, diagonal, eps, places, values, K)
            g = b - _times_gram(G, a, index, k, places, values, K)

    value, distance = _certificate(b, g, a, diagonal, x, l1, l2, POSITIVE, HAS_L1, HAS_L2)
    tl.store(code + i * k + index, a, mask=real)
    tl.store(objective + i, value)
    tl.store(gap + i, distance)


@triton.jit
def _best_values(g, a, diagonal, curvature, l1, bound, POSITIVE: tl.constexpr):
    """Return where each coordinate would go if it alone were free; that of a zero atom, to zero."""
    usable = curvature > 0
    pull = g + diagonal * a
    size = tl.maximum(tl.abs(pull) - l1, 0.0) / tl.where(usable, curvature, 1.0)
    best = tl.minimum(tl.where(pull < 0, -size, size), bound)
    best = tl.maximum(best, 0.0 if POSITIVE else -bound)
    return tl.where(usable, best, 0.0)


@triton.jit
def _times_gram(G, v, index, k, places, values, K: tl.constexpr):
    """Return G v, from those rows of G where v is not zero."""
    used = v != 0
    n_used = tl.sum(used.to(tl.int32), axis=0)
    rank = tl.cumsum(used.to(tl.int32), axis=0) - 1
    tl.debug_barrier()
    tl.store(places + rank, index, mask=used)
    tl.store(values + rank, v, mask=used)
    tl.debug_barrier()
    product = tl.zeros([K], dtype=v.dtype)
    line = tl.arange(0, ROWS_AT_ONCE)
    for first in range(0, n_used, ROWS_AT_ONCE):
        listed = first + line < n_used
        rows = tl.load(places + first + line, mask=listed, other=0)
        weights = tl.load(values + first + line, mask=listed, other=0.0)
        some = tl.load(G + rows[:, None] * k + index[None, :], mask=(index < k)[None, :], other=0.0)
        product += tl.sum(weights[:, None] * some, axis=0)
    return product


@triton.jit
def _newton_step(G, g, a, index, k, l1, l2, bound, diagonal, eps, places, values, K: tl.constexpr):
    """Return a code that is better, or the same.

    On the support, with signs held, the objective is a quadratic. Conjugate gradients go towards
    its minimum; if a coordinate would change its sign, the step ends there, at zero.
    """
    support = a != 0
    n_support = tl.sum(support.to(tl.int32), axis=0)
    shift = l2 + eps * tl.max(diagonal, axis=0)
    slope = g - l2 * a - tl.where(a < 0, -l1, l1)
    residual = tl.where(support, slope, 0.0)
    direction = residual
    step = tl.zeros([K], dtype=a.dtype)
    size = tl.sum(residual * residual, axis=0)
    enough = eps * size
    n = 0
    longest = tl.minimum(2 * n_support, LONGEST_NEWTON_STEP)
    going = size > 0
    while going:
        image = _times_gram(G, direction, index, k, places, values, K) + shift * direction
        image = tl.where(support, image, 0.0)
        bend = tl.sum(direction * image, axis=0)
        convex = bend > 0
        length = tl.where(convex, size / tl.where(convex, bend, 1.0), 0.0)
        step += length * direction
        residual -= length * image
        new_size = tl.sum(residual * residual, axis=0)
        direction = residual + new_size / size * direction
        size = new_size
        n += 1
        going = convex & (size > enough) & (n < longest)

    flips = support & (a * (a + step) < 0)
    room = tl.where(flips, -a / tl.where(flips, step, 1.0), 1.0)
    length = tl.min(room, axis=0)
    moved = tl.where(flips & (room <= length), 0.0, a + length * step)
    inside = tl.max(tl.abs(moved), axis=0) <= bound
    return tl.where(inside, moved, a)


@triton.jit
def _certificate(
    b,
    g,
    a,
    diagonal,
    x,
    l1,
    l2,
    POSITIVE: tl.constexpr,
    HAS_L1: tl.constexpr,
    HAS_L2: tl.constexpr,
):
    """Return objective and duality gap from g = β − Gα, as derived in the reference kernels."""
    abs_sum = tl.sum(tl.abs(a), axis=0)
    sq_sum = tl.sum(a * a, axis=0)
    explained = tl.sum(a * b, axis=0)
    slope = tl.sum(a * g, axis=0)
    objective = (x - explained - slope) / 2 + l1 * abs_sum + l2 / 2 * sq_sum
    gap = x * 0 + float("inf")
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
            (1 - s) * (1 - s) / 2 * (x - explained) - (1 + s * s) / 2 * lasso_slope + l1 * abs_sum
        )
        gap = tl.minimum(gap, lasso_gap)
    if not HAS_L1 and not HAS_L2:
        usable = diagonal > 0
        step = tl.where(usable, g / tl.where(usable, diagonal, 1.0), 0.0)
        if POSITIVE:
            step = tl.maximum(step, -a)
        gap = tl.sum(diagonal * step * step, axis=0) / 2
    return objective, gap
