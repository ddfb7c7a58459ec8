"""Algorithm 1 of the paper, transcribed line by line: slow, literal, independent of the library.

Masks are given as arrays of features, minibatches as arrays of samples. G⁽ⁱ⁾ is stored for every
sample. Codes come from plain coordinate descent or a linear solver, projections from bisection.
"""

from collections.abc import Sequence

import numpy as np

from somf.typing import Array, Ints


def somf(
    X: Array,
    D: Array,
    masks: Sequence[Ints],
    batches: Sequence[Ints],
    *,
    r: float,
    v: float,
    lam: float,
    nu: float,
    mu: float,
    positive: bool,
) -> Array:
    """Return the dictionary (p, k) after all minibatches, starting from D."""
    (n, p), k = X.shape, D.shape[1]
    D = D.copy()
    beta, G, c = np.zeros((n, k)), np.zeros((n, k, k)), np.zeros(n, dtype=int)
    B, C = np.zeros((p, k)), np.zeros((k, k))
    t = 0
    for mask, batch in zip(masks, batches, strict=True):
        M = np.zeros(p)
        M[mask] = r
        codes = []
        for i in batch:
            c[i] += 1
            gamma = c[i] ** -(2.5 - 2 * v)
            beta[i] = (1 - gamma) * beta[i] + gamma * D.T @ (M * X[i])
            G[i] = (1 - gamma) * G[i] + gamma * D.T @ (M[:, None] * D)
            codes.append(solve_code(G[i], beta[i], lam, nu, positive))
        remaining = 1.0
        for _ in batch:
            t += 1
            remaining *= 1 - t**-v
        w, b = 1 - remaining, len(batch)
        C = (1 - w) * C + w / b * sum(np.outer(a, a) for a in codes)
        B = (1 - w) * B + w / b * sum(np.outer(X[i], a) for i, a in zip(batch, codes, strict=True))
        for j in range(k):
            if C[j, j] > 0:
                d_s = D[mask, j]
                u = d_s + (B[mask, j] - D[mask] @ C[:, j]) / C[j, j]
                budget = max(1 - norm(D[:, j], mu) + norm(d_s, mu), 0)  # less by rounding
                D[mask, j] = project(u, budget, mu, positive)
    return D


def norm(d: Array, mu: float) -> float:
    """Return μ‖d‖₁ + (1−μ)‖d‖₂²."""
    return float(mu * np.abs(d).sum() + (1 - mu) * (d**2).sum())


def solve_code(G: Array, beta: Array, lam: float, nu: float, positive: bool) -> Array:
    """Return argmin ½ αᵀGα − αᵀβ + λ(ν‖α‖₁ + (1−ν)‖α‖²)."""
    if nu == 0 and not positive:
        return np.linalg.solve(G + 2 * lam * np.eye(len(G)), beta)
    H = G + 2 * lam * (1 - nu) * np.eye(len(G))
    a = np.zeros_like(beta)
    for _ in range(100_000):
        before = a.copy()
        for j in range(len(a)):
            if H[j, j] > 0:
                z = beta[j] - H[j] @ a + H[j, j] * a[j]
                a[j] = np.sign(z) * max(abs(z) - lam * nu, 0) / H[j, j]
                if positive:
                    a[j] = max(a[j], 0)
        if np.abs(a - before).max() <= 1e-15 * np.abs(a).max():
            break
    return a


def project(u: Array, budget: float, mu: float, positive: bool) -> Array:
    """Return the point nearest to u with norm at most `budget`, by bisection on its multiplier."""
    if positive:
        u = np.maximum(u, 0)
    if norm(u, mu) <= budget:
        return u

    def shrink(theta: float) -> Array:
        return np.sign(u) * np.maximum(np.abs(u) - theta * mu, 0) / (1 + 2 * theta * (1 - mu))

    low, high = 0.0, 1.0
    while norm(shrink(high), mu) > budget:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if norm(shrink(middle), mu) > budget else (low, middle)
    return shrink(high)
