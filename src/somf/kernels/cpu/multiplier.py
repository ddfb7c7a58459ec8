"""The multiplier θ of a projection onto a ball, with the point divided among threads."""

import math
from typing import NamedTuple

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.typing import Array

L1, L2, ESTIMATE, COUNT = range(4)
"""What a thread knows of its part of the point: sums, an estimate of θ, and a count of entries."""

SUMS_STRIDE = 16
"""Numbers for each thread: two cache lines, so that threads do not wait for each other's."""

MOST_ROUNDS = 100
"""Rounds after which θ is as good as rounding lets it be; a handful is usual."""

NO_ROUND = -1.0
"""The count of entries before the first round."""


class Search(NamedTuple):
    """A search for θ.

    Attributes
    ----------
    theta : float
    n_above : float
        Entries that were above θμ in the round before.
    n_rounds : int
    is_over : bool
    """

    theta: float
    n_above: float
    n_rounds: int
    is_over: bool


@inner
def estimate(u: Array, radius: float, mu: float) -> float:
    """Return θ of a part of a point alone, with its share of the radius."""
    if mu == 0.0 or radius <= 0.0:
        return 0.0
    count, theta = len(u) + 1, 0.0
    while True:
        before, (count, l1, l2) = count, sums_above(u, theta * mu)
        if count == 0 or count >= before:  # rounding may let an entry come back
            return theta
        theta = _next_multiplier(l1, l2, count, radius, mu)


@inner
def start_search(sums: Array, radius: float, mu: float) -> tuple[Search, float]:
    """Begin the search for θ, from Σ|u|, Σu² and an estimate of θ of all parts.

    Returns
    -------
    search : Search
        Over if the point is inside of the ball, or if the ball is an ℓ2 ball.
    scale : float
        The factor of all entries, if it is over.
    """
    l1, l2, theta = _total(sums, L1), _total(sums, L2), _total(sums, ESTIMATE) / len(sums)
    scale = 1.0
    if radius <= 0.0:
        scale = 0.0
    elif mu == 0.0 and l2 > radius:
        scale = math.sqrt(radius / l2)
    is_over = radius <= 0.0 or mu == 0.0 or mu * l1 + (1.0 - mu) * l2 <= radius
    return Search(0.0 if is_over else theta, NO_ROUND, 0, is_over), scale


@inner
def improve_search(search: Search, sums: Array, radius: float, mu: float) -> Search:
    """Improve θ, given count, Σ|u| and Σu² of all entries above θμ.

    Given which entries stay above θμ, θ is the solution of an equation. Entries are chosen by the θ
    before, until they are the same: a Newton method, which comes from below after its first round.
    `AtomBall.project` has the derivation.
    """
    count, n_rounds = _total(sums, COUNT), search.n_rounds + 1
    if count == 0 and search.theta > 0 and n_rounds == 1:  # the estimate was too large
        return Search(0.0, NO_ROUND, n_rounds, False)
    is_same = count == search.n_above
    is_rounding = (count > search.n_above and n_rounds > 2) or n_rounds > MOST_ROUNDS
    if count == 0 or is_same or is_rounding:
        return Search(search.theta, count, n_rounds, True)
    theta = _next_multiplier(_total(sums, L1), _total(sums, L2), count, radius, mu)
    return Search(theta, count, n_rounds, False)


@inner
def sums_above(u: Array, cut: float) -> tuple[int, float, float]:
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
