"""The dictionary update on the CPU where every feature has a matrix C of its own.

The curvature of an atom then differs from feature to feature, and so the minimum inside the ball is
not a projection: see `AtomBall.weighted_minimum`. Threads share the features; the multiplier of an
atom couples them, which one thread finds.
"""

import math

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import threads_for
from somf.kernels.protocol import smallest_curvatures
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

MOST_STEPS = 200
"""Steps of the search for a multiplier. Newton's method takes some five, bisection some sixty."""


def update_atoms_by_feature(
    D: Array, B: Array, C: Array, E: Array, rows: Slices, budget: Array, ball: AtomBall
) -> None:
    """See `Kernels.update_atoms_by_feature`."""
    q, k = count_rows(rows), D.shape[1]
    threads = threads_for(2.0 * q * k)  # for each atom
    pieces, edges = shares(rows, threads.count)
    # |u|, signed u and c of an atom
    vectors = threads.buffer("minimum of an atom", (3, q), D.dtype)
    n_known = np.empty(threads.count, np.int64)
    floors = smallest_curvatures(C, E)
    radii = np.asarray(budget, dtype=np.float64)
    _update(
        threads.count,
        D,
        B,
        C,
        E,
        pieces,
        edges,
        radii,
        floors,
        ball.l1_ratio,
        ball.positive,
        vectors,
        n_known,
    )


@region
def _update(
    launcher: int,
    D: Array,
    B: Array,
    C: Array,
    E: Array,
    pieces: Ints,
    edges: Ints,
    radii: Array,
    floors: Array,
    mu: float,
    positive: bool,
    vectors: Array,
    n_known: Ints,
) -> None:
    n_parts = len(edges) - 1
    for j in range(D.shape[1]):
        in_parallel(
            _look,
            launcher,
            n_parts,
            j,
            D,
            B,
            C,
            E,
            pieces,
            edges,
            floors[j],
            positive,
            vectors,
            n_known,
        )
        if n_known.sum() == 0:
            continue
        theta = _multiplier(vectors[0], vectors[2], radii[j], mu)
        in_parallel(_write, launcher, n_parts, j, D, pieces, edges, vectors, radii[j], theta, mu)


@inner
def _look(
    t: int,
    j: int,
    D: Array,
    B: Array,
    C: Array,
    E: Array,
    pieces: Ints,
    edges: Ints,
    floor: float,
    positive: bool,
    vectors: Array,
    n_known: Ints,
) -> None:
    """Compute |u|, u and c of an atom at the features of a thread; count those that are known.

    A feature of which nothing is known has c = 0 and u = 0.
    """
    k = D.shape[1]
    size, signed, curvature = vectors[0], vectors[1], vectors[2]
    n_known[t] = 0
    for n in range(edges[t], edges[t + 1]):
        for f in range(pieces[n, 0], pieces[n, 1]):
            at = pieces[n, 2] + f - pieces[n, 0]
            c = C[j, j] + E[f, j * k + j]
            u = c * D[f, j] + B[f, j]
            for i in range(k):
                u -= (C[j, i] + E[f, j * k + i]) * D[f, i]
            if c <= floor:
                c, u = C.dtype.type(0), C.dtype.type(0)
            else:
                n_known[t] += 1
                if positive and u < 0:
                    u = C.dtype.type(0)
            size[at], signed[at], curvature[at] = abs(u), u, c


@inner
def _write(
    t: int,
    j: int,
    D: Array,
    pieces: Ints,
    edges: Ints,
    vectors: Array,
    radius: float,
    theta: float,
    mu: float,
) -> None:
    """Write an atom at the features of a thread."""
    size, signed, curvature = vectors[0], vectors[1], vectors[2]
    for n in range(edges[t], edges[t + 1]):
        for f in range(pieces[n, 0], pieces[n, 1]):
            at = pieces[n, 2] + f - pieces[n, 0]
            value = 0.0
            if curvature[at] > 0 and radius > 0:
                left = max(size[at] - theta * mu, 0.0) / (curvature[at] + 2 * theta * (1 - mu))
                value = math.copysign(left, signed[at])
            D[f, j] = value


@inner
def _multiplier(size: Array, curvature: Array, radius: float, mu: float) -> float:
    """Return θ: 0 inside the ball, else by Newton's method, which bisection keeps on its way.

    For μ = 0 and equal curvatures, 1/√norm is linear in θ. So Newton's method is for that function.
    """
    if radius <= 0.0:
        return 0.0
    norm, slope = _norm_and_slope(size, curvature, 0.0, mu)
    if norm <= radius:
        return 0.0
    low, high = 0.0, _largest(size, radius, mu)
    theta = 0.0
    for _ in range(MOST_STEPS):
        # φ^−½ − r^−½ = 0, with the derivative −½ φ^−³ᐟ² φ'
        following = theta + 2.0 * norm * (math.sqrt(norm / radius) - 1.0) / -slope
        if not low < following < high:
            following = 0.5 * (low + high)
        if following <= low or following >= high:
            return high
        theta = following
        norm, slope = _norm_and_slope(size, curvature, theta, mu)
        if norm > radius:
            low = theta
        else:
            high = theta
        if abs(norm - radius) <= 1e-15 * radius:
            return theta
    return high


@inner
def _norm_and_slope(size: Array, curvature: Array, theta: float, mu: float) -> tuple[float, float]:
    """Return the norm of the point of a multiplier, and its derivative."""
    rest, norm, slope = 1.0 - mu, 0.0, 0.0
    for n in range(len(size)):
        left = size[n] - theta * mu
        if left > 0:
            below = curvature[n] + 2.0 * theta * rest
            d = left / below
            norm += mu * d + rest * d * d
            slope -= (mu + 2.0 * rest * d) * (mu + 2.0 * rest * d) / below
    return norm, slope


@inner
def _largest(size: Array, radius: float, mu: float) -> float:
    """See `somf.penalties.largest_multiplier`."""
    top = 0.0
    for n in range(len(size)):
        top = max(top, size[n])
    l1, l2 = 0.0, 0.0
    for n in range(len(size)):
        l1 += size[n]
        l2 += (size[n] / top) ** 2
    bound = np.inf if mu == 0.0 else top / mu
    if mu < 1.0:
        rest = radius * (1.0 - mu)
        bound = min(bound, max(mu * l1 / rest, top * math.sqrt(l2 / (2.0 * rest))))
    return bound
