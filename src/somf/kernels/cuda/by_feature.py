"""Samples and features with matrices of their own on a GPU, with torch.

A symmetric matrix is kept as its upper triangle, row after row (see `somf.kernels.pairs`).
"""

from functools import cache
from typing import Any

import torch

from somf.kernels.pairs import places, upper
from somf.kernels.protocol import CANCELLATION
from somf.penalties import AtomBall
from somf.typing import Slices

N_BISECTIONS = 80
"""Halvings of the interval of a multiplier: enough for double precision; none waits."""

PAIRS_AT_ONCE = 2**24
"""Products of pairs that are held at the same time."""


def pairs(A: Any, weights: Any) -> Any:
    """See `Kernels.pairs`."""
    first, second = _upper(A.shape[1], A.device)
    found = A[:, first] * A[:, second]
    return found if weights is None else found * weights[:, None]


def weighted_grams(weights: Any, D: Any, rows: Slices) -> Any:
    """See `Kernels.weighted_grams`."""
    k = D.shape[1]
    first, second = _upper(k, D.device)
    packed = D.new_zeros((len(weights), len(first)))
    size = max(1, PAIRS_AT_ONCE // len(first))
    for s in rows:
        for start in range(s.start, s.stop, size):
            part = D[start : min(start + size, s.stop)]
            packed.addmm_(weights[:, start : start + len(part)], part[:, first] * part[:, second])
    return _unpacked(packed, k)


def clear_pairs(E: Any, atoms: Any) -> None:
    """See `Kernels.clear_pairs`."""
    first, second = _upper(len(atoms), E.device)
    E.masked_fill_(atoms[first] | atoms[second], 0)


@cache
def _upper(k: int, device: Any) -> tuple[Any, Any]:
    first, second = (torch.as_tensor(index, device=device) for index in upper(k))
    return first, second


@cache
def _places(k: int, device: Any) -> Any:
    return torch.as_tensor(places(k), device=device)


def _unpacked(packed: Any, k: int) -> Any:
    """See `somf.kernels.pairs.unpacked`."""
    return packed[:, _places(k, packed.device).ravel()].view(-1, k, k)


def update_atoms_by_feature(
    D: Any,
    B: Any,
    C: Any,
    E: Any,
    ridge: Any,
    rows: Slices,
    budget: Any,
    ball: AtomBall,
) -> None:
    """See `Kernels.update_atoms_by_feature`."""
    k = D.shape[1]
    D_s, B_s, E_s = (torch.cat([A[s] for s in rows]) for A in (D, B, E))
    matrices = C + _unpacked(E_s, k)
    if ridge is not None:
        matrices.diagonal(0, 1, 2).add_(torch.cat([ridge[s] for s in rows])[:, None])
    floors = _floors(C, E)
    for j in range(k):
        c = matrices[:, j, j]
        u = c * D_s[:, j] + B_s[:, j] - (matrices[:, j] * D_s).sum(dim=1)
        known = c > floors[j]
        d = _minimum(u * known, torch.where(known, c, 1.0), budget[j], ball)
        D_s[:, j] = torch.where(known.any(), d * known, D_s[:, j])
    at = 0
    for s in rows:
        D[s] = D_s[at : at + s.stop - s.start]
        at += s.stop - s.start


def _floors(C: Any, E: Any) -> Any:
    """See `somf.kernels.protocol.smallest_curvatures`."""
    limits = torch.finfo(C.dtype)
    smallest = (limits.eps**2 * E[:, _places(len(C), E.device).diagonal()].max()).clamp(
        min=limits.tiny
    )
    return torch.maximum(CANCELLATION * limits.eps * C.diagonal(), smallest)


def _minimum(u: Any, c: Any, radius: Any, ball: AtomBall) -> Any:
    """See `AtomBall.weighted_minimum`."""
    mu, rest = ball.l1_ratio, 1.0 - ball.l1_ratio
    size = (u.clamp(min=0) if ball.positive else u.abs()).double()
    c, radius = c.double(), radius.double()

    def point(theta: Any) -> Any:
        return (size - theta * mu).clamp(min=0) / (c + 2 * theta * rest)

    top = size.max().clamp(min=torch.finfo(torch.float64).tiny)
    high = torch.full_like(top, torch.inf) if mu == 0 else top / mu
    if mu < 1:
        allowed = radius.clamp(min=1e-300) * rest
        l2 = top * ((size / top).square().sum() / (2 * allowed)).sqrt()
        high = torch.minimum(high, torch.maximum(mu * size.sum() / allowed, l2))
    is_inside = _norm(point(torch.zeros_like(high)), mu) <= radius
    low, high = torch.zeros_like(high), torch.where(is_inside, 0.0, high)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        is_outside = _norm(point(middle), mu) > radius
        low, high = torch.where(is_outside, middle, low), torch.where(is_outside, high, middle)
    d = torch.copysign(point(high), u.double()).to(u.dtype)
    return torch.where(radius > 0, d, torch.zeros_like(d))


def _norm(size: Any, mu: float) -> Any:
    return mu * size.sum() + (1 - mu) * size.square().sum()
