"""The multiplier θ of a projection onto a ball, with the point divided among threads.

Each thread first estimates θ from its part of a point that is nearly the one to project. Once that
is known, threads collect the few entries near the mean of these, and one thread finds θ among these
alone. If θ is not there, or parts are so long that it takes less time to sum up all entries, a
Newton method goes on with sums over all parts.
"""

import math
from typing import NamedTuple

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.typing import Array

L1, L2, COUNT, L1_ABOVE, L2_ABOVE, N_NEAR, ESTIMATE, WEIGHT = range(8)
"""What a thread reports of its part of the point: Σ|u| and Σu²; the count, Σ|u| and Σu² of entries
above a size, and how many entries are near it; an estimate of θ for the next point, and its weight.
"""

BELOW, ABOVE = 0.005, 0.03
"""Entries are near an estimate of θμ if they are less than so much below or above it, relative to
it. Estimates of parts are rather too small: see `mean_estimate`."""

PRECISION = 0.005
"""Where an estimate of θ stops, relative to it: parts differ by more."""

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
def estimate(u: Array, radius: float, mu: float, guess: float) -> tuple[float, int]:
    """Estimate θ of a part of a point alone, with its share of the radius.

    A step of Newton's method from any guess is not above θ, and all others come from below.

    Returns
    -------
    theta : float
    count : int
        Entries above θμ.
    """
    if mu == 0.0 or radius <= 0.0:
        return 0.0, 0
    theta, n_before, is_guess = guess, len(u) + 1, guess > 0.0
    while True:
        count, l1, l2 = sums_above(u, theta * mu)
        if is_guess:
            is_guess, theta = False, 0.0
            if count > 0:
                theta = _next_multiplier(l1, l2, count, radius, mu)
            continue
        if count == 0 or count >= n_before:  # rounding may let an entry come back
            return theta, count
        n_before, last, theta = count, theta, _next_multiplier(l1, l2, count, radius, mu)
        if theta - last < PRECISION * theta:
            return theta, count


@inner
def mean_estimate(reports: Array) -> float:
    """Return the θ at which all parts together have their radius, as far as their estimates tell.

    That is where the tangents of their constraints add up to zero. Constraints are convex in θ, so
    that it is rather below θ than above.
    """
    theta, weight = 0.0, _total(reports, WEIGHT)
    for t in range(len(reports)):
        theta += reports[t, WEIGHT] * reports[t, ESTIMATE]
    return 0.0 if weight == 0 else theta / weight


@inner
def needs_no_search(reports: Array, radius: float, mu: float) -> tuple[bool, float]:
    """Return whether Σ|u| and Σu² tell the projection, and then the factor of all entries.

    They do if the point is inside of the ball, or if the ball is an ℓ2 ball.
    """
    l1, l2 = _total(reports, L1), _total(reports, L2)
    if radius <= 0.0:
        return True, 0.0
    if mu == 0.0:
        return True, math.sqrt(radius / l2) if l2 > radius else 1.0
    # The first condition follows from the second, unless the compiler computes μ (l1 − l2) + l2,
    # in which l1 may be lost.
    return mu * l1 <= radius and mu * l1 + (1.0 - mu) * l2 <= radius, 1.0


@inner
def look_at(u: Array, cut: float, report: Array, near: Array) -> None:
    """Sum up the entries of a part above a size, and collect those near it, if there is room.

    Parameters
    ----------
    u : ndarray of shape (q,)
    cut : float
        θμ for an estimate of θ.
    report : ndarray, overwritten
    near : ndarray of shape (q + 1,) or (0,), overwritten
        The sizes of entries near `cut`, which are then not summed up.
    """
    least, most, n_near = u.dtype.type((1 - BELOW) * cut), u.dtype.type(cut), 0
    if len(near) > 0:
        most = u.dtype.type((1 + ABOVE) * cut)
        for n in range(len(u)):
            size = abs(u[n])
            near[n_near] = size
            n_near += (size > least) & (size <= most)
    report[N_NEAR] = n_near
    report[COUNT], report[L1_ABOVE], report[L2_ABOVE] = sums_above(u, most)


@inner
def search_near(guess: float, reports: Array, near: Array, radius: float, mu: float) -> Search:
    """Find θ among the entries that threads have collected, or note that it is not there."""
    n_near = 0
    for t in range(len(reports)):
        size = int(reports[t, N_NEAR])
        if n_near + size > near.shape[1]:
            return Search(guess, NO_ROUND, 0, False)
        for n in range(size):
            near[0, n_near + n] = near[t, n]
        n_near += size
    count, l1, l2 = _total(reports, COUNT), _total(reports, L1_ABOVE), _total(reports, L2_ABOVE)
    theta, n_above = (1 - BELOW) * guess, NO_ROUND
    while True:
        n, l1_near, l2_near = sums_above(near[0, :n_near], theta * mu)
        if count + n == 0:  # the estimate was too large
            return Search(0.0, NO_ROUND, 0, False)
        if n >= n_above and n_above != NO_ROUND:  # rounding may let an entry come back
            return Search(theta, count + n, 0, True)
        n_above, theta = n, _next_multiplier(l1 + l1_near, l2 + l2_near, count + n, radius, mu)
        if not (1 - BELOW) * guess <= theta <= (1 + ABOVE) * guess:
            return Search(theta, NO_ROUND, 0, False)


@inner
def improve_search(search: Search, reports: Array, radius: float, mu: float) -> Search:
    """Improve θ, given count, Σ|u| and Σu² of all entries above θμ.

    Given which entries stay above θμ, θ is the solution of an equation. Entries are chosen by the θ
    before, until they are the same: a Newton method, which comes from below after its first round.
    `AtomBall.project` has the derivation.
    """
    count, n_rounds = _total(reports, COUNT), search.n_rounds + 1
    if count == 0 and search.theta > 0 and n_rounds == 1:  # the estimate was too large
        return Search(0.0, NO_ROUND, n_rounds, False)
    is_same = count == search.n_above
    is_rounding = (count > search.n_above and n_rounds > 2) or n_rounds > MOST_ROUNDS
    if count == 0 or is_same or is_rounding:
        return Search(search.theta, count, n_rounds, True)
    theta = _next_multiplier(
        _total(reports, L1_ABOVE), _total(reports, L2_ABOVE), count, radius, mu
    )
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
def _total(reports: Array, what: int) -> float:
    total = 0.0
    for t in range(len(reports)):
        total += reports[t, what]
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
