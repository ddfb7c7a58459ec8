"""The multiplier θ of a projection onto a ball, from parts of the point that threads have seen."""

import math

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.typing import Array, Ints

SAFETY = 0.75
"""A thread leaves out entries below this fraction of its own estimate of θμ."""


@inner
def collect(u: Array, radius: float, mu: float, sizes: Array, facts: Array) -> int:
    """Collect the entries of a part of a point that may stay above θμ.

    The θ of this part alone, with its share of the radius, tells which these are, nearly.

    Parameters
    ----------
    u : ndarray of shape (q,)
    radius : float
        The share of this part.
    mu : float
    sizes : ndarray of shape (q,), overwritten
        Begins with the collected |u|.
    facts : ndarray of shape (3,)
        Σ|u| and Σu² of this part; the last one is set to the size up to which entries were left
        out.

    Returns
    -------
    count : int
        How many were collected.
    """
    if mu == 0.0 or radius <= 0.0:
        return 0
    cut = u.dtype.type(SAFETY * mu * _solve_multiplier(u, radius, mu))
    count = 0
    for n in range(len(u)):
        size = abs(u[n])
        if size > cut:
            sizes[count] = size
            count += 1
    facts[2] = cut
    return count


@inner
def multiplier(
    u: Array, columns: Ints, counts: Ints, facts: Array, radius: float, mu: float, sizes: Array
) -> tuple[float, float]:
    """Return what a projection subtracts from the size of every entry, and the factor after that.

    If an entry that was left out turns out to matter, all of `u` are collected.
    """
    c = 1.0 - mu
    l1, l2, left_out = 0.0, 0.0, 0.0
    for t in range(len(facts)):
        l1, l2 = l1 + facts[t, 0], l2 + facts[t, 1]
        left_out = max(left_out, facts[t, 2])
    if radius <= 0.0:
        return 0.0, 0.0
    if mu * l1 + c * l2 <= radius:
        return 0.0, 1.0
    if mu == 0.0:
        return 0.0, math.sqrt(radius / l2)
    count = 0
    for t in range(len(facts)):
        for n in range(columns[t], columns[t] + counts[t]):
            sizes[count] = sizes[n]
            count += 1
    theta = _solve_multiplier(sizes[:count], radius, mu)
    if theta * mu < left_out:
        theta = _solve_multiplier(u, radius, mu)
    return theta * mu, 1.0 / (1.0 + 2.0 * theta * c)


@inner
def _solve_multiplier(u: Array, radius: float, mu: float) -> float:
    """Return θ of a point outside of the ball.

    `AtomBall.project` has the derivation: entries that fall to zero are left out until none does.
    They are left out of the sums only, so that there is no branch: this is faster than to move
    entries.
    """
    count, theta, cut = len(u) + 1, 0.0, u.dtype.type(0)
    while True:
        before, count, l1, l2 = count, 0, 0.0, 0.0
        for n in range(len(u)):
            size = abs(u[n])
            kept = np.float64(size if size > cut else 0)
            count += size > cut
            l1 += kept
            l2 += kept * kept
        if count == 0 or count >= before:  # rounding may let an entry come back
            return theta
        theta = _next_multiplier(l1, l2, count, radius, mu)
        cut = u.dtype.type(theta * mu)


@inner
def _next_multiplier(l1: float, l2: float, count: int, radius: float, mu: float) -> float:
    """Return θ if all of the `count` entries whose Σ|u| and Σu² are given stay above θμ."""
    c = 1.0 - mu
    excess = mu * l1 + c * l2 - radius
    if excess <= 0:
        return 0.0
    rhs = excess / (count * mu**2 + 4 * radius * c)
    return 2 * rhs / (1 + math.sqrt(1 + 4 * c * rhs))
