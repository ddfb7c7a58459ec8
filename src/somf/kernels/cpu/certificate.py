"""Objective and duality gap of a code, and a bound on its coordinates."""

import math

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.largest import steepest
from somf.typing import Array

Sums = tuple[float, float, float, float]
"""‖α‖₁, ‖α‖², αᵀβ and αᵀg of a code."""


@inner
def residual(G: Array, beta: Array, a: Array, g: Array) -> None:
    """Set `g` to β − Gα."""
    for j in range(len(beta)):
        g[j] = beta[j]
    for j in range(len(beta)):
        if a[j] != 0:
            for n in range(len(beta)):
                g[n] -= a[j] * G[j, n]


@inner
def largest_coordinate(sq_norm: float, l1: float, l2: float) -> float:
    """Return a bound on the coordinates of a code; `reference.largest_coordinate` says why."""
    bound = np.inf
    if l1 > 0:
        bound = sq_norm / (2 * l1)
    if l2 > 0:
        bound = min(bound, math.sqrt(sq_norm / l2))
    return bound


@inner
def certificate(
    G: Array,
    beta: Array,
    g: Array,
    a: Array,
    sq_norm: float,
    l1: float,
    l2: float,
    positive: bool,
) -> tuple[float, float]:
    """Return objective and duality gap from g = β − Gα.

    `reference.objective_and_gap` has the derivation.
    """
    abs_sum, sq_sum, explained, slope = 0.0, 0.0, 0.0, 0.0
    for j in range(len(a)):
        abs_sum += abs(a[j])
        sq_sum += a[j] * a[j]
        explained += a[j] * beta[j]
        slope += a[j] * g[j]
    sums = abs_sum, sq_sum, explained, slope
    objective = objective_of(sums, sq_norm, l1, l2)
    if l1 == 0 and l2 == 0:
        return objective, _decrease(G, g, a, positive)
    gap = np.inf
    if l2 > 0:
        excess = 0.0
        for j in range(len(a)):
            size = g[j] if positive else abs(g[j])
            excess += max(size - l1, 0.0) ** 2
        gap = l1 * abs_sum + l2 / 2 * sq_sum - slope + excess / (2 * l2)
    if l1 > 0:
        gap = min(gap, lasso_gap(sums, sq_norm, l1, l2, steepest(g, a, l2, positive)))
    return objective, gap


@inner
def objective_of(sums: Sums, sq_norm: float, l1: float, l2: float) -> float:
    """Return the objective of a code from its sums."""
    abs_sum, sq_sum, explained, slope = sums
    return (sq_norm - explained - slope) / 2 + l1 * abs_sum + l2 / 2 * sq_sum


@inner
def lasso_gap(sums: Sums, sq_norm: float, l1: float, l2: float, steepest: float) -> float:
    """Return the duality gap of the problem as a lasso, from sums and the largest |g − l2 α|."""
    abs_sum, sq_sum, explained, slope = sums
    s = l1 / max(steepest, l1)
    unexplained, lasso_slope = sq_norm - explained, slope - l2 * sq_sum
    return (1 - s) ** 2 / 2 * unexplained - (1 + s * s) / 2 * lasso_slope + l1 * abs_sum


@inner
def _decrease(G: Array, g: Array, a: Array, positive: bool) -> float:
    """Return the sum over coordinates of what the best change of one of them would gain."""
    decrease = 0.0
    for j in range(len(a)):
        if G[j, j] > 0:
            step = g[j] / G[j, j]
            if positive:
                step = max(step, -a[j])
            decrease += G[j, j] * step * step / 2
    return decrease
