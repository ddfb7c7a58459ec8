"""The multiplier θ of a projection onto a ball, with the point divided among threads."""

import math

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.typing import Array, Ints

L1, L2, ESTIMATE, COUNT = range(4)
"""What a thread knows of its part of the point: sums, an estimate of θ, and a count of entries."""

SUMS_STRIDE = 16
"""Numbers for each thread: two cache lines, so that threads do not wait for each other's."""

MOST_STEPS = 100
"""Steps after which θ is as good as rounding lets it be; a handful is usual."""


@inner
def estimate(u: Array, radius: float, mu: float) -> float:
    """Return θ of a part of a point alone, with its share of the radius."""
    if mu == 0.0 or radius <= 0.0:
        return 0.0
    count, theta = len(u) + 1, 0.0
    while True:
        before, (count, l1, l2) = count, _sums_above(u, theta * mu)
        if count == 0 or count >= before:  # rounding may let an entry come back
            return theta
        theta = _next_multiplier(l1, l2, count, radius, mu)


@inner
def multiplier(
    launcher: int, u: Array, columns: Ints, radius: float, mu: float, sums: Array
) -> tuple[float, float]:
    """Return what a projection subtracts from the size of every entry, and the factor after that.

    Given which entries stay above θμ, θ is the solution of an equation. Entries are chosen by the θ
    before, until they are the same: a Newton method, which comes from below after its first step.
    `AtomBall.project` has the derivation. The mean of the estimates of all parts is a good start.

    Parameters
    ----------
    launcher : int
    u : ndarray of shape (q,)
        The point.
    columns : ndarray of shape (n_threads + 1,)
        The part of thread t goes from ``columns[t]`` to ``columns[t + 1]``.
    radius, mu : float
    sums : ndarray of shape (n_threads, SUMS_STRIDE), overwritten
        Σ|u|, Σu² and an estimate of θ, of every part.
    """
    c, n_threads = 1.0 - mu, len(sums)
    l1, l2, theta = _total(sums, L1), _total(sums, L2), _total(sums, ESTIMATE) / n_threads
    if radius <= 0.0:
        return 0.0, 0.0
    if mu * l1 + c * l2 <= radius:
        return 0.0, 1.0
    if mu == 0.0:
        return 0.0, math.sqrt(radius / l2)
    before = -1.0
    for step in range(MOST_STEPS):
        in_parallel(_sum_share, launcher, n_threads, u, columns, theta * mu, sums)
        count = _total(sums, COUNT)
        if count == 0 and step == 0:  # the estimate was too large
            theta = 0.0
            continue
        is_rounding = count > before and step >= 2
        if count == 0 or count == before or is_rounding:  # noqa: PLR1714 (Numba)
            break
        theta = _next_multiplier(_total(sums, L1), _total(sums, L2), count, radius, mu)
        before = count
    return theta * mu, 1.0 / (1.0 + 2.0 * theta * c)


@inner
def _sum_share(t: int, u: Array, columns: Ints, cut: float, sums: Array) -> None:
    count, l1, l2 = _sums_above(u[columns[t] : columns[t + 1]], cut)
    sums[t, COUNT], sums[t, L1], sums[t, L2] = count, l1, l2


@inner
def _sums_above(u: Array, cut: float) -> tuple[int, float, float]:
    """Return count, Σ|u| and Σu² of the entries above a size; without a branch, to be fast."""
    count, l1, l2, least = 0, 0.0, 0.0, u.dtype.type(cut)
    for n in range(len(u)):
        size = abs(u[n])
        kept = np.float64(size if size > least else 0)
        count += size > least
        l1 += kept
        l2 += kept * kept
    return count, l1, l2


@inner
def _total(sums: Array, what: int) -> float:
    total = 0.0
    for t in range(len(sums)):
        total += sums[t, what]
    return total


@inner
def _next_multiplier(l1: float, l2: float, count: float, radius: float, mu: float) -> float:
    """Return θ if all of the `count` entries whose Σ|u| and Σu² are given stay above θμ."""
    c = 1.0 - mu
    excess = mu * l1 + c * l2 - radius
    if excess <= 0:
        return 0.0
    rhs = excess / (count * mu**2 + 4 * radius * c)
    return 2 * rhs / (1 + math.sqrt(1 + 4 * c * rhs))
