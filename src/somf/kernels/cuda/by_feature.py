"""The dictionary update on a GPU where every feature has a matrix C of its own, with torch."""

from typing import Any

import torch

from somf.kernels.protocol import CANCELLATION
from somf.penalties import AtomBall
from somf.typing import Slices

N_BISECTIONS = 80
"""Halvings of the interval of a multiplier: enough for double precision; none waits."""


def update_atoms_by_feature(
    D: Any, B: Any, C: Any, E: Any, rows: Slices, budget: Any, ball: AtomBall
) -> None:
    """See `Kernels.update_atoms_by_feature`."""
    k = D.shape[1]
    D_s, B_s, E_s = (torch.cat([A[s] for s in rows]) for A in (D, B, E))
    matrices = C + E_s.view(-1, k, k)
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
    smallest = (limits.eps**2 * E[:, :: len(C) + 1].max()).clamp(min=limits.tiny)
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
