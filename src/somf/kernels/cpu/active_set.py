"""The active-set method for one code (feature-sign search, Lee et al., 2007).

On the support, with fixed signs, the objective is a quadratic, whose minimum is the solution of one
linear system. A Cholesky factor of G + l2 I on the support is kept while atoms enter and leave;
its diagonal has the reciprocals of the entries, since a product is faster than a division.
g = β − Gα tells which atom enters next: the one that violates |g| ≤ l1 most.
"""

import math

import numpy as np

from somf.kernels.cpu.certificate import largest_coordinate, lasso_gap, objective_of
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.largest import largest_outside
from somf.typing import Array, Ints

FIRST_CAPACITY = 32
"""Atoms for which the Cholesky factor has room at first; it grows when it must."""

SINGULAR = 1e-7
"""A pivot below this fraction of its diagonal entry counts as zero: the atom depends on others."""

STEPS_PER_ATOM = 4
"""Steps per atom of the dictionary after which the method gives up."""


@inner
def solve(
    G: Array,
    beta: Array,
    sq_norm: float,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    a: Array,
    g: Array,
    support: Ints,
    step: Array,
    factor: Array,
) -> tuple[bool, Array]:
    """Solve one code; `a`, the code, and g = β − Gα are overwritten.

    There is at least one step, so that every visit improves a warm start however loose the
    tolerance.

    Parameters
    ----------
    G : ndarray of shape (k, k)
    beta : ndarray of shape (k,)
    sq_norm, l1, l2 : float
    positive : bool
    tol : float
        Relative duality gap at which to stop. Without an l1 penalty the method does not stop early.
    a : ndarray of shape (k,), overwritten
        A start on entry, the solution on return.
    g : ndarray of shape (k,), overwritten
    support : ndarray of int of shape (k + 1,), overwritten
    step : ndarray of float64 of shape (k + 1,), overwritten
    factor : ndarray of float64 of shape (m, m), overwritten
        Buffers.

    Returns
    -------
    is_solved : bool
        False if atoms of the support depend on each other, or if there is no minimum.
    factor : ndarray
        The buffer, which may have had to grow.
    """
    k, eps = len(beta), np.finfo(beta.dtype).eps
    bound = largest_coordinate(sq_norm, l1, l2)
    m, factor = _warm_start(G, beta, l2, a, g, support, factor)
    if m < 0:  # start from zero, and go on to the solution, which is not worse than the start
        m, tol = 0, 0.0
        for j in range(k):
            a[j], g[j] = 0, beta[j]
    slack = 8 * eps * math.sqrt(sq_norm)
    is_first, is_stuck, entering = True, False, k  # no atom yet
    for _ in range(STEPS_PER_ATOM * k):
        if m > 0:
            m, is_stuck = _minimise(G, l1, l2, a, g, support, m, entering, step, factor)
            for i in range(m):
                if not abs(a[support[i]]) <= bound:
                    return False, factor
        entering = largest_outside(g, a, positive)  # an atom of zeros has g = 0, and never enters
        if entering < 0 or abs(g[entering]) <= l1 + slack or is_stuck:
            return True, factor
        if l1 > 0 and tol > 0 and not is_first:
            objective, gap = _objective_and_gap(
                beta, g, a, support, m, sq_norm, l1, l2, abs(g[entering])
            )
            if gap <= tol * objective + eps * sq_norm:
                return True, factor
        if m == len(factor):
            factor = _grown(factor)
        if not _append(G, l2, support, m, entering, factor):
            return False, factor
        support[m] = entering
        m += 1
        is_first = False
    return False, factor


@inner
def _objective_and_gap(
    beta: Array,
    g: Array,
    a: Array,
    support: Ints,
    m: int,
    sq_norm: float,
    l1: float,
    l2: float,
    steepest: float,
) -> tuple[float, float]:
    """Return what `certificate` does, in a time that depends on the support alone.

    `steepest` is the largest |g − l2 α|, that of an atom outside of the support: on it, all are l1.
    """
    abs_sum, sq_sum, explained, slope = 0.0, 0.0, 0.0, 0.0
    for i in range(m):
        j = support[i]
        abs_sum += abs(a[j])
        sq_sum += a[j] * a[j]
        explained += a[j] * beta[j]
        slope += a[j] * g[j]
    sums = abs_sum, sq_sum, explained, slope
    return objective_of(sums, sq_norm, l1, l2), lasso_gap(sums, sq_norm, l1, l2, steepest)


@inner
def _warm_start(
    G: Array, beta: Array, l2: float, a: Array, g: Array, support: Ints, factor: Array
) -> tuple[int, Array]:
    """Set `g`, the support and its factor from a code.

    Return the size of the support, or −1 if its atoms depend on each other.
    """
    for j in range(len(beta)):
        g[j] = beta[j]
    m = 0
    for j in range(len(beta)):
        if a[j] == 0:
            continue
        if m == len(factor):
            factor = _grown(factor)
        if not _append(G, l2, support, m, j, factor):
            return -1, factor
        support[m] = j
        m += 1
        for n in range(len(beta)):
            g[n] -= a[j] * G[j, n]
    return m, factor


@inner
def _minimise(
    G: Array,
    l1: float,
    l2: float,
    a: Array,
    g: Array,
    support: Ints,
    m: int,
    entering: int,
    step: Array,
    factor: Array,
) -> tuple[int, bool]:
    """Minimise over the support with fixed signs; an atom that reaches zero leaves the support.

    Return the size of the support, and whether the atom that has entered last, `entering`, has left
    it without a step: then rounding alone had made it enter.
    """
    is_stuck = False
    while m > 0:
        for i in range(m):
            j = support[i]
            sign = math.copysign(1.0, a[j] if a[j] != 0 else g[j])
            step[i] = g[j] - l2 * a[j] - l1 * sign
        _solve_factored(factor, m, step)
        length, blocking = 1.0, m  # none
        for i in range(m):
            j = support[i]
            if a[j] == 0 and step[i] * g[j] <= 0:
                length, blocking, is_stuck = 0.0, i, j == entering
            elif a[j] * (a[j] + step[i]) <= 0 and a[j] != 0 and -a[j] / step[i] <= length:
                length, blocking = -a[j] / step[i], i
        for i in range(m):
            j = support[i]
            old = a[j]
            a[j] = 0 if i == blocking else old + length * step[i]
            change = a[j] - old
            if change != 0:
                for n in range(len(g)):
                    g[n] -= change * G[j, n]
        if blocking == m:
            break
        _remove(factor, m, blocking)
        for i in range(blocking, m - 1):
            support[i] = support[i + 1]
        m -= 1
    return m, is_stuck


@inner
def _append(G: Array, l2: float, support: Ints, m: int, entering: int, factor: Array) -> bool:
    """Add an atom to the factor; return False if it depends on those of the support."""
    for i in range(m):
        total = np.float64(G[entering, support[i]])
        for n in range(i):
            total -= factor[i, n] * factor[m, n]
        factor[m, i] = total * factor[i, i]
    diagonal = G[entering, entering] + l2
    pivot = diagonal
    for n in range(m):
        pivot -= factor[m, n] * factor[m, n]
    if not pivot > SINGULAR * diagonal:
        return False
    factor[m, m] = 1 / math.sqrt(pivot)
    return True


@inner
def _remove(factor: Array, m: int, at: int) -> None:
    """Remove an atom from the factor, by Givens rotations that restore its triangle."""
    for i in range(at, m - 1):
        for n in range(i + 2):
            factor[i, n] = factor[i + 1, n]
    for i in range(at, m - 1):
        a, b = factor[i, i], 1 / factor[i, i + 1]
        shrink = 1 / math.hypot(a, b)
        c, s = a * shrink, b * shrink
        factor[i, i] = shrink
        for n in range(i + 1, m - 1):
            x, y = factor[n, i], factor[n, i + 1]
            factor[n, i] = c * x + s * y
            factor[n, i + 1] = c * y - s * x


@inner
def _solve_factored(factor: Array, m: int, x: Array) -> None:
    """Solve L Lᵀ y = x in place."""
    for i in range(m):
        total = x[i]
        for n in range(i):
            total -= factor[i, n] * x[n]
        x[i] = total * factor[i, i]
    for i in range(m - 1, -1, -1):
        x[i] *= factor[i, i]
        for n in range(i):
            x[n] -= factor[i, n] * x[i]


@inner
def _grown(factor: Array) -> Array:
    """Return a copy of a factor with room for twice as many atoms."""
    m = len(factor)
    grown = np.empty((2 * m, 2 * m))
    for i in range(m):
        for n in range(i + 1):
            grown[i, n] = factor[i, n]
    return grown
