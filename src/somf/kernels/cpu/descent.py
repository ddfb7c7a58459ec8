"""Coordinate descent for one code: slower than the active set, and never at a loss.

It solves problems in which atoms depend on each other, or whose quadratic has no minimum.
"""

import math

import numpy as np

from somf.kernels.cpu.certificate import certificate, largest_coordinate, residual
from somf.kernels.cpu.jit import inner
from somf.kernels.protocol import MAX_SWEEPS
from somf.typing import Array

SWEEPS_PER_NEWTON_STEP = 8
"""Sweeps of coordinate descent per Newton step."""

MAX_NEWTON_SUPPORT = 256
"""Nonzero coefficients of a code up to which a Newton step is tried; its cost is cubic in them."""


@inner
def descend(
    G: Array,
    beta: Array,
    sq_norm: float,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    a: Array,
    g: Array,
) -> None:
    """Solve one code by cyclic coordinate descent; `a`, the code, and g = β − Gα are overwritten.

    g is kept up to date: a coordinate that moves costs one
    row of G, one that stays costs nothing, and the duality gap costs only k. There is at least one
    sweep, so that every visit improves a warm start however loose the tolerance. Nearly collinear
    atoms would take thousands of sweeps; Newton steps on the support, every few sweeps, avoid that.
    """
    k = len(beta)
    eps = np.finfo(beta.dtype).eps
    residual(G, beta, a, g)
    bound = largest_coordinate(sq_norm, l1, l2)
    lower = 0.0 if positive else -bound

    for sweep in range(MAX_SWEEPS):
        if sweep % SWEEPS_PER_NEWTON_STEP == SWEEPS_PER_NEWTON_STEP - 1:
            _newton_step(G, g, a, l1, l2, bound)
        largest, largest_change = 0.0, 0.0
        for j in range(k):
            curvature = G[j, j] + l2
            old = a[j]
            if curvature > 0:
                pull = g[j] + G[j, j] * old
                size = max(abs(pull) - l1, 0.0) / curvature
                a[j] = min(max(math.copysign(size, pull), lower), bound)
            else:
                a[j] = 0
            change = a[j] - old
            if change != 0:
                for n in range(k):
                    g[n] -= change * G[j, n]
            largest = max(largest, abs(a[j]))
            largest_change = max(largest_change, abs(change))
        objective, gap = certificate(G, beta, g, a, sq_norm, l1, l2, positive)
        if tol > 0 and gap <= tol * objective + eps * sq_norm:
            break
        if largest_change <= eps * largest:
            break


@inner
def _newton_step(G: Array, g: Array, a: Array, l1: float, l2: float, bound: float) -> None:
    """Minimise over the support with fixed signs; `a` and g = β − Gα are overwritten.

    On the support the objective is a quadratic. If a coefficient would change its sign, the step
    ends where it is zero, and the next step is tried without it.
    """
    support = np.flatnonzero(a)
    while 0 < len(support) <= MAX_NEWTON_SUPPORT:
        m = len(support)
        H = np.empty((m, m))
        slope = np.empty(m)
        for i in range(m):
            j = support[i]
            slope[i] = g[j] - l2 * a[j] - math.copysign(l1, a[j])
            for n in range(i + 1):
                H[i, n] = G[j, support[n]]
        step = slope.copy()
        if not _solve(H, step, l2):
            return
        length, blocking = 1.0, -1
        for i in range(m):
            old = a[support[i]]
            if old * (old + step[i]) < 0 and -old / step[i] < length:
                length, blocking = -old / step[i], i
        for i in range(m):
            if abs(a[support[i]] + length * step[i]) > bound:
                return
        for i in range(m):
            j = support[i]
            old = a[j]
            a[j] = 0 if i == blocking else old + length * step[i]
            change = a[j] - old
            for n in range(len(a)):
                g[n] -= change * G[j, n]
        if blocking < 0:
            return
        for i in range(blocking, m - 1):
            support[i] = support[i + 1]
        support = support[: m - 1]


@inner
def _solve(H: Array, x: Array, l2: float) -> bool:
    """Solve (H + l2 I) y = x by Cholesky, in place; only the lower half of H is read.

    `H` and `x` are overwritten. A small shift of the diagonal turns a singular H into a long step
    in a direction of descent. Return whether H was positive definite.
    """
    m = len(x)
    top = 0.0
    for i in range(m):
        top = max(top, H[i, i])
    shift = l2 + 1e-10 * top
    for i in range(m):
        H[i, i] += shift
        for n in range(i + 1):
            total = H[i, n]
            for q in range(n):
                total -= H[i, q] * H[n, q]
            if n < i:
                H[i, n] = total / H[n, n]
            elif total > 1e-12 * top:
                H[i, i] = math.sqrt(total)
            else:
                return False
    for i in range(m):
        for q in range(i):
            x[i] -= H[i, q] * x[q]
        x[i] /= H[i, i]
    for i in range(m - 1, -1, -1):
        for q in range(i + 1, m):
            x[i] -= H[q, i] * x[q]
        x[i] /= H[i, i]
    return True
