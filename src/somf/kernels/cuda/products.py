"""Matrix products and sums over features on a GPU, all with torch."""

from typing import Any

import torch

from somf.penalties import AtomBall
from somf.typing import Slices


def correlate(X: Any, D: Any, rows: Slices) -> Any:
    """See `Kernels.correlate`."""
    beta = X[:, rows[0]] @ D[rows[0]]
    for s in rows[1:]:
        beta.addmm_(X[:, s], D[s])
    return beta


def gram(D: Any, rows: Slices) -> Any:
    """See `Kernels.gram`."""
    first, *others = (D[s] for s in rows)
    G = first.T @ first
    for part in others:
        G.addmm_(part.T, part)
    return G


def combine(weights: Any, grams: Any) -> Any:
    """See `Kernels.combine`."""
    R, k, _ = grams.shape
    return (weights @ grams.reshape(R, k * k)).reshape(-1, k, k)


def squared_norms(X: Any, rows: Slices) -> Any:
    """See `Kernels.squared_norms`."""
    norm = torch.linalg.vector_norm  # the fastest sum of squares in torch
    total = norm(X[:, rows[0]], dim=1).square_()
    for s in rows[1:]:
        total += norm(X[:, s], dim=1).square_()
    return total


def observe(X: Any, D: Any, rows: Slices) -> tuple[Any, Any]:
    """See `Kernels.observe`."""
    return correlate(X, D, rows), squared_norms(X, rows)


def accumulate(B: Any, X: Any, code: Any, decay: float, rows: Slices | None = None) -> None:
    """See `Kernels.accumulate`."""
    for s in (slice(0, len(B)),) if rows is None else rows:
        B[s].addmm_(X[:, s].T, code, beta=decay)


def sum_parts(parts: Any) -> Any:
    """See `Kernels.sum_parts`."""
    return parts.sum(dim=0)


def atom_norms(D: Any, rows: Slices, ball: AtomBall) -> Any:
    """See `Kernels.atom_norms`."""
    mu = ball.l1_ratio
    return torch.stack(
        [mu * D[s].abs().sum(dim=0) + (1 - mu) * D[s].square().sum(dim=0) for s in rows]
    )
