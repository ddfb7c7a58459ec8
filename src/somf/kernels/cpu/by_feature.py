"""The dictionary update on the CPU where every feature has a matrix C of its own.

The curvature of an atom then differs from feature to feature, and so the minimum inside the ball is
not a projection: see `AtomBall.weighted_minimum`. Threads share the features; the multiplier of an
atom couples them, which one thread finds.

All loops run over the features of a tile, `WIDTH` of them, side by side in memory: rows of D and of
triangles are too short to be loops that compilers make fast.
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

WIDTH = 64
"""Features of a tile. Where there are fewer, the others are as if nothing were known of them."""

UNCHANGED = -1.0
"""In the place of a multiplier, for an atom that stays as it is."""


def update_atoms_by_feature(
    D: Array,
    B: Array,
    C: Array,
    E: Array,
    ridge: Array | None,
    rows: Slices,
    budget: Array,
    ball: AtomBall,
) -> None:
    """See `Kernels.update_atoms_by_feature`."""
    k = D.shape[1]
    threads = threads_for(2.0 * count_rows(rows) * k)  # for each atom
    tiles, edges = shares(rows, threads.count, WIDTH)
    n = len(tiles)
    # C_f, and of every atom: d, b − C_f d, and then |u|, signed u and c
    triangles = threads.buffer("triangles", (n, E.shape[1], WIDTH), D.dtype)
    atoms = threads.buffer("atoms", (2, n, k, WIDTH), D.dtype)
    vectors = threads.buffer("minimum of an atom", (3, n, WIDTH), D.dtype)
    n_known = np.empty(threads.count, np.int64)
    _update(
        threads.count,
        D,
        B,
        C,
        E,
        np.zeros(len(D), D.dtype) if ridge is None else ridge,
        tiles,
        edges,
        np.asarray(budget, dtype=np.float64),
        smallest_curvatures(C, E).astype(D.dtype),
        ball.l1_ratio,
        ball.positive,
        triangles,
        atoms,
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
    ridge: Array,
    tiles: Ints,
    edges: Ints,
    radii: Array,
    floors: Array,
    mu: float,
    positive: bool,
    triangles: Array,
    atoms: Array,
    vectors: Array,
    n_known: Ints,
) -> None:
    n_parts, k = len(edges) - 1, D.shape[1]
    in_parallel(_begin, launcher, n_parts, D, B, C, E, ridge, tiles, edges, triangles, atoms)
    theta = UNCHANGED
    for j in range(k + 1):
        in_parallel(
            _advance,
            launcher,
            n_parts,
            j,
            edges,
            floors,
            positive,
            radii,
            theta,
            mu,
            triangles,
            atoms,
            vectors,
            n_known,
        )
        theta = UNCHANGED
        if j < k and n_known.sum() > 0:
            theta = _multiplier(vectors[0].ravel(), vectors[2].ravel(), radii[j], mu)
    in_parallel(_end, launcher, n_parts, D, tiles, edges, atoms)


@inner
def _begin(
    t: int,
    D: Array,
    B: Array,
    C: Array,
    E: Array,
    ridge: Array,
    tiles: Ints,
    edges: Ints,
    triangles: Array,
    atoms: Array,
) -> None:
    """Fill the tiles of a thread: C_f, d, and b − C_f d."""
    k, zero = D.shape[1], D.dtype.type(0)
    for n in range(edges[t], edges[t + 1]):
        start, stop = tiles[n, 0], tiles[n, 1]
        D_n, B_n, E_n = D[start:stop], B[start:stop], E[start:stop]
        for j in range(k):
            _gather(D_n, j, zero, atoms[0, n, j])
            _gather(B_n, j, zero, atoms[1, n, j])
        at = 0
        for j in range(k):
            for i in range(j, k):
                c = triangles[n, at]
                _gather(E_n, at, C[j, i], c)
                if i == j:
                    for f in range(stop - start):
                        c[f] += ridge[start + f]
                else:
                    _subtract_product(c, atoms[0, n, j], atoms[1, n, i])
                _subtract_product(c, atoms[0, n, i], atoms[1, n, j])
                at += 1


@inner
def _subtract_product(a: Array, b: Array, out: Array) -> None:
    for f in range(WIDTH):
        out[f] -= a[f] * b[f]


@inner
def _gather(A: Array, column: int, added: float, out: Array) -> None:
    """Set `out` to a column of A plus a number, and to zero behind its last row."""
    for f in range(len(A)):
        out[f] = A[f, column] + added
    for f in range(len(A), WIDTH):
        out[f] = 0


@inner
def _advance(
    t: int,
    j: int,
    edges: Ints,
    floors: Array,
    positive: bool,
    radii: Array,
    theta: float,
    mu: float,
    triangles: Array,
    atoms: Array,
    vectors: Array,
    n_known: Ints,
) -> None:
    """Write atom j − 1, and look at atom j, in the tiles of a thread.

    What is left, b − C_f d, is kept up to date for the atoms that are still to come.
    """
    k = atoms.shape[2]
    n_known[t] = 0
    for n in range(edges[t], edges[t + 1]):
        c, d, left, vector = triangles[n], atoms[0, n], atoms[1, n], vectors[:, n]
        if theta != UNCHANGED:
            _write(j - 1, radii[j - 1], theta, mu, c, d, left, vector)
        if j < k:
            diagonal = c[j * k - j * (j - 1) // 2]
            n_known[t] += _look(diagonal, d[j], left[j], floors[j], positive, vector)


@inner
def _look(c: Array, d: Array, left: Array, floor: float, positive: bool, vector: Array) -> int:
    """Set `vector` to |u|, u and c of an atom in a tile; return how many features are known.

    A feature of which nothing is known has c = 0 and u = 0.
    """
    zero, n_known = c.dtype.type(0), 0
    for f in range(WIDTH):
        u = c[f] * d[f] + left[f]
        is_known = c[f] > floor
        u = zero if not is_known or (positive and u < zero) else u
        vector[0, f], vector[1, f] = abs(u), u
        vector[2, f] = c[f] if is_known else zero
        n_known += is_known
    return n_known


@inner
def _write(
    j: int,
    radius: float,
    theta: float,
    mu: float,
    c: Array,
    d: Array,
    left: Array,
    vector: Array,
) -> None:
    """Set an atom in a tile to its minimum, and subtract the change from what is left of others.

    Where nothing is known, the atom is zero.
    """
    k, change = len(d), np.empty(WIDTH, d.dtype)
    zero, one = d.dtype.type(0), d.dtype.type(1)
    cut, added = d.dtype.type(theta * mu), d.dtype.type(2 * theta * (1 - mu))
    for f in range(WIDTH):
        is_known = vector[2, f] > zero and radius > 0
        below = vector[2, f] + added if is_known else one
        size = max(vector[0, f] - cut, zero) / below if is_known else zero
        new = size if vector[1, f] >= zero else -size
        change[f] = new - d[j, f]
        d[j, f] = new
    at = j * k - j * (j - 1) // 2
    for i in range(j + 1, k):
        _subtract_product(change, c[at + i - j], left[i])


@inner
def _end(t: int, D: Array, tiles: Ints, edges: Ints, atoms: Array) -> None:
    """Copy the atoms of the tiles of a thread."""
    for n in range(edges[t], edges[t + 1]):
        for f in range(tiles[n, 0], tiles[n, 1]):
            for j in range(D.shape[1]):
                D[f, j] = atoms[0, n, j, f - tiles[n, 0]]


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
    low, high = 0.0, np.inf
    theta, precision = 0.0, max(1e-15, 1e-2 * np.finfo(size.dtype).eps)
    for _ in range(MOST_STEPS):
        # φ^−½ − r^−½ = 0, with the derivative −½ φ^−³ᐟ² φ'
        following = low  # all entries are zero there, if the slope is
        if slope < 0:
            step = 2.0 * norm * (math.sqrt(norm / radius) - 1.0) / -slope
            # Compilers may compare steps where we compare sums, in which a short step is lost.
            if abs(step) <= precision * theta:
                return theta
            following = theta + step
        if not low < following < high:
            if high == np.inf:  # it is hardly ever needed
                high = _largest(size, radius, mu)
            following = 0.5 * (low + high)
        if following <= low or following >= high:
            return high
        theta = following
        norm, slope = _norm_and_slope(size, curvature, theta, mu)
        if norm > radius:
            low = theta
        else:
            high = theta
        if abs(norm - radius) <= precision * radius:
            return theta
    return theta


@inner
def _norm_and_slope(size: Array, curvature: Array, theta: float, mu: float) -> tuple[float, float]:
    """Return the norm of the point of a multiplier, and its derivative."""
    rest, norm, slope = 1.0 - mu, 0.0, 0.0
    for n in range(len(size)):  # without a branch, so that it is done for several at once
        left = size[n] - theta * mu
        is_left = 1.0 if left > 0 else 0.0
        inverse = is_left / (curvature[n] + 2.0 * theta * rest + (1.0 - is_left))
        d = left * inverse
        norm += mu * d + rest * d * d
        slope -= (mu + 2.0 * rest * d) * (mu + 2.0 * rest * d) * inverse
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
