"""Objective and duality gap of a code, and a bound on its coordinates."""

import math

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.typing import Array


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
