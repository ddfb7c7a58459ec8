"""The dictionary update on the CPU, a block of atoms at a time.

The pass over atoms is sequential, but the product D C_J is not: for a block J of atoms it is one
matrix product. What is sequential inside the block is done on what little the block needs.
"""

import math
from functools import partial
from itertools import accumulate, pairwise

import numpy as np

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import ThreadPool, pool_for
from somf.kernels.protocol import smallest_curvature
from somf.penalties import AtomBall
from somf.typing import Array, Slices

ATOMS_PER_BLOCK = 32
ATOMS_PER_PANEL = 16
"""Multiples of what BLAS takes at once: with 33 atoms every product is a tenth slower."""

ROWS_PER_CHUNK = 4096


def update_atoms(D: Array, B: Array, C: Array, rows: Slices, budget: Array, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    q = sum(s.stop - s.start for s in rows)
    pool = pool_for(2 * q * C.size)
    floor = smallest_curvature(C)
    if ball.l1_ratio == 0.0 and not ball.positive:
        _update_in_l2_ball(D, B, C, rows, budget, floor, pool)
    else:
        _update_in_any_ball(D, B, C, rows, budget, floor, ball, pool)


def _blocks(n_atoms: int, size: int) -> list[slice]:
    """Cut atoms into blocks of the given size; a rest up to half of that goes to the last."""
    edges = [*range(0, max(n_atoms - size // 2, 1), size), n_atoms]
    return [slice(a, b) for a, b in pairwise(edges)]


def _chunks(rows: list[slice]) -> list[slice]:
    """Cut rows into pieces that fit into the cache."""
    return [
        slice(start, min(start + ROWS_PER_CHUNK, s.stop))
        for s in rows
        for start in range(s.start, s.stop, ROWS_PER_CHUNK)
    ]


def _update_in_l2_ball(
    D: Array, B: Array, C: Array, rows: Slices, budget: Array, floor: float, pool: ThreadPool
) -> None:
    """Update atoms in the ℓ2 ball without touching the features one atom at a time.

    With R = (B_J − D C_J) / diag C_J, every new atom of the block is a combination of the columns
    of P = [D_J, R]. Norms come from the small Gram matrix PᵀP, the atoms from one product.

    Every thread has its own rows. They meet once per block, to add up PᵀP, and each goes on with
    the same weights; finishing one block and preparing the next is a single pass over the rows.
    """
    blocks = _blocks(C.shape[0], ATOMS_PER_BLOCK)
    width = max(J.stop - J.start for J in blocks)
    usable = np.diagonal(C) > floor
    inverse = np.where(usable, 1 / np.where(usable, np.diagonal(C), 1), 0).astype(D.dtype)
    columns = [np.ascontiguousarray(C[:, J]) for J in blocks]
    shares: list[dict[int, Array]] = [{} for _ in blocks]

    def work(member: int) -> None:
        chunks = _chunks(pool.share(rows, member))
        n_rows = [c.stop - c.start for c in chunks]
        panel = pool.scratch(member, "panel", (sum(n_rows), 2 * width), D.dtype)
        panels = [
            panel[stop - n : stop] for n, stop in zip(n_rows, accumulate(n_rows), strict=True)
        ]
        product = pool.scratch(member, "product", (ROWS_PER_CHUNK, width), D.dtype)
        weights = np.empty((0, 0))
        for n, J in enumerate(blocks):
            m = J.stop - J.start
            K = np.zeros((2 * m, 2 * m))
            for chunk, P in zip(chunks, panels, strict=True):
                if n > 0:
                    _finish(D, chunk, blocks[n - 1], P, weights, product)
                P_J = P[:, : 2 * m]
                R = np.matmul(D[chunk], columns[n], out=product[: len(P), :m])
                _fill(D[chunk, J], B[chunk, J], R, inverse[J], P_J)
                K += P_J.T @ P_J
            shares[n][member] = K
            pool.wait()
            total = np.asarray(sum(shares[n][other] for other in range(pool.size)))
            weights = _combine(total, C[J, J].astype(np.float64), usable[J], budget[J])
            weights = weights.astype(D.dtype)
        for chunk, P in zip(chunks, panels, strict=True):
            _finish(D, chunk, blocks[-1], P, weights, product)

    pool.run(work)


def _finish(D: Array, chunk: slice, J: slice, P: Array, weights: Array, scratch: Array) -> None:
    """Set the atoms of a block to their combinations of the columns of P."""
    D[chunk, J] = np.matmul(
        P[:, : len(weights)], weights, out=scratch[: len(P), : J.stop - J.start]
    )


@jit
def _fill(D: Array, B: Array, product: Array, inverse: Array, P: Array) -> None:
    """Set P to [D, (B − product) · inverse]."""
    m = len(inverse)
    for row in range(len(D)):
        for j in range(m):
            P[row, j] = D[row, j]
            P[row, m + j] = (B[row, j] - product[row, j]) * inverse[j]


@jit
def _combine(K: Array, C: Array, usable: Array, budget: Array) -> Array:
    """Return the (2m, m) weights that make the new atoms out of [D_J, R], given its Gram K."""
    m = len(C)
    weights = np.zeros((2 * m, m))
    moved = np.zeros((m, 2 * m))  # new atom minus old atom
    for j in range(m):
        weights[j, j] = 1.0
        if not usable[j]:
            continue
        u = np.zeros(2 * m)
        u[j] = 1.0
        u[m + j] = 1.0
        for i in range(j):
            u -= moved[i] * (C[i, j] / C[j, j])
        sq_norm = np.dot(u, np.dot(K, u))
        if sq_norm > budget[j]:
            u *= math.sqrt(max(budget[j], 0.0) / sq_norm)
        weights[:, j] = u
        moved[j] = u
        moved[j, j] -= 1.0
    return weights


def _update_in_any_ball(
    D: Array,
    B: Array,
    C: Array,
    rows: Slices,
    budget: Array,
    floor: float,
    ball: AtomBall,
    pool: ThreadPool,
) -> None:
    """Update atoms in any ball, on transposed panels where each atom is contiguous."""
    q = sum(s.stop - s.start for s in rows)
    for J in _blocks(C.shape[0], ATOMS_PER_PANEL):
        atoms = np.empty((J.stop - J.start, q), dtype=D.dtype)
        residual = np.empty_like(atoms)
        within = np.ascontiguousarray(C[J, J])
        pool.run(partial(_fill_panel, pool, D, B, C, rows, J, atoms, residual))
        _sweep_panel(atoms, residual, within, budget[J], floor, ball.l1_ratio, ball.positive)
        pool.run(partial(_empty_panel, pool, D, rows, J, atoms))


def _fill_panel(
    pool: ThreadPool,
    D: Array,
    B: Array,
    C: Array,
    rows: Slices,
    J: slice,
    atoms: Array,
    residual: Array,
    member: int,
) -> None:
    """Set `atoms` to D_Jᵀ and `residual` to (B_J − D C_J)ᵀ."""
    for column, row in _columns(pool.share(rows, member), rows):
        atoms[:, column] = D[row, J].T
        np.subtract(B[row, J].T, C[J] @ D[row].T, out=residual[:, column])


def _empty_panel(
    pool: ThreadPool, D: Array, rows: Slices, J: slice, atoms: Array, member: int
) -> None:
    """Set D_J to `atoms` transposed."""
    for column, row in _columns(pool.share(rows, member), rows):
        D[row, J] = atoms[:, column].T


def _columns(part: list[slice], rows: Slices) -> list[tuple[slice, slice]]:
    """Return, for each slice of a part of the rows, its columns in a panel of all of them."""
    pairs, offset = [], 0
    for s in rows:
        for mine in part:
            if s.start <= mine.start < s.stop:
                shift = offset - s.start
                pairs.append((slice(mine.start + shift, mine.stop + shift), mine))
        offset += s.stop - s.start
    return pairs


@jit
def _sweep_panel(
    atoms: Array,
    residual: Array,
    C: Array,
    budget: Array,
    floor: float,
    mu: float,
    positive: bool,
) -> None:
    """Do the Gauss–Seidel pass inside a block; `atoms` and `residual` (m, q) are overwritten.

    Once an atom has been dealt with, its row of `residual` holds how far it has moved.
    """
    m, q = atoms.shape
    support = np.empty(q, dtype=atoms.dtype)
    for j in range(m):
        u = residual[j]
        if C[j, j] <= floor:
            u[:] = 0
            continue
        for i in range(j):
            coupling = C[i, j]
            if coupling != 0:
                for n in range(q):
                    u[n] -= coupling * residual[i, n]
        for n in range(q):
            u[n] = atoms[j, n] + u[n] / C[j, j]
        _project(u, budget[j], mu, positive, support)
        for n in range(q):
            new = u[n]
            u[n] = new - atoms[j, n]
            atoms[j, n] = new


@jit
def _project(u: Array, radius: float, mu: float, positive: bool, support: Array) -> None:
    """Project `u` onto the ball, in place; `AtomBall.project` derives it. `support` is scratch."""
    c = 1.0 - mu
    size = 0
    for n in range(len(u)):
        if radius <= 0 or (positive and u[n] < 0):
            u[n] = 0
        if u[n] != 0:
            support[size] = abs(u[n])
            size += 1
    theta = 0.0
    while True:
        l1, l2 = 0.0, 0.0
        for n in range(size):
            l1 += support[n]
            l2 += support[n] * support[n]
        excess = mu * l1 + c * l2 - radius
        if excess <= 0 or size == 0:
            break
        rhs = excess / (size * mu**2 + 4 * radius * c)
        theta = 2 * rhs / (1 + math.sqrt(1 + 4 * c * rhs))
        kept = 0
        for n in range(size):
            if support[n] > theta * mu:
                support[kept] = support[n]
                kept += 1
        if kept == size:
            break
        size = kept
    if theta > 0:
        cut, scale = theta * mu, 1 / (1 + 2 * theta * c)
        for n in range(len(u)):
            u[n] = math.copysign(max(abs(u[n]) - cut, 0.0) * scale, u[n])
