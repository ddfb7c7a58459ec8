"""The dictionary update on the CPU, one block of atoms at a time.

The pass over atoms is sequential, but the product D C_J of a block J of atoms is one matrix
product. The sequential part inside a block runs on small arrays, or on atoms that are contiguous.
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
"""Atoms of a block in the ℓ2 ball: a multiple of the tile of BLAS. 33 make products 10 % slower."""

ATOMS_PER_PANEL = 16
"""Atoms of a block in any other ball; a multiple of the tile of BLAS, too."""

ROWS_PER_CHUNK = 4096
"""Rows that a worker reads and writes at once, few enough to stay in the cache."""


def update_atoms(D: Array, B: Array, C: Array, rows: Slices, budget: Array, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    q = sum(s.stop - s.start for s in rows)
    pool = pool_for(2 * q * C.size)
    min_curvature = smallest_curvature(C)
    if ball.l1_ratio == 0.0 and not ball.positive:
        _update_in_l2_ball(D, B, C, rows, budget, min_curvature, pool)
    else:
        _update_in_any_ball(D, B, C, rows, budget, min_curvature, ball, pool)


def _atom_blocks(n_atoms: int, size: int) -> list[slice]:
    """Cut atoms into blocks of the given size; a rest of up to half a block joins the last one."""
    edges = [*range(0, max(n_atoms - size // 2, 1), size), n_atoms]
    return [slice(a, b) for a, b in pairwise(edges)]


def _cache_chunks(rows: list[slice]) -> list[slice]:
    """Cut rows into chunks that fit into the cache."""
    return [
        slice(start, min(start + ROWS_PER_CHUNK, s.stop))
        for s in rows
        for start in range(s.start, s.stop, ROWS_PER_CHUNK)
    ]


def _update_in_l2_ball(
    D: Array,
    B: Array,
    C: Array,
    rows: Slices,
    budget: Array,
    min_curvature: float,
    pool: ThreadPool,
) -> None:
    """Update atoms in the ℓ2 ball without a loop over features for each atom.

    With R = (B_J − D C_J) / diag C_J, every new atom of the block is a linear combination of the
    columns of P = [D_J, R]. Norms come from the small Gram matrix PᵀP, the atoms from one product.

    Every worker has its own rows. The workers meet at one barrier per block, add up their parts of
    PᵀP, and all compute the same weights. Writing the atoms of one block and preparing the next
    block is a single pass over the rows.
    """
    blocks = _atom_blocks(C.shape[0], ATOMS_PER_BLOCK)
    width = max(J.stop - J.start for J in blocks)
    usable = np.diagonal(C) > min_curvature
    inverse = np.where(usable, 1 / np.where(usable, np.diagonal(C), 1), 0).astype(D.dtype)
    columns = [np.ascontiguousarray(C[:, J]) for J in blocks]
    partial_grams: list[dict[int, Array]] = [{} for _ in blocks]

    def work(worker: int) -> None:
        chunks = _cache_chunks(pool.static_chunks(rows, worker))
        n_rows = [c.stop - c.start for c in chunks]
        panel = pool.buffer(worker, "panel", (sum(n_rows), 2 * width), D.dtype)
        panels = [
            panel[stop - n : stop] for n, stop in zip(n_rows, accumulate(n_rows), strict=True)
        ]
        product = pool.buffer(worker, "product", (ROWS_PER_CHUNK, width), D.dtype)
        weights = np.empty((0, 0))
        for n, J in enumerate(blocks):
            m = J.stop - J.start
            K = np.zeros((2 * m, 2 * m))
            for chunk, P in zip(chunks, panels, strict=True):
                if n > 0:
                    _write_atoms(D, chunk, blocks[n - 1], P, weights, product)
                P_J = P[:, : 2 * m]
                D_C = np.matmul(D[chunk], columns[n], out=product[: len(P), :m])
                _fill_columns(D[chunk, J], B[chunk, J], D_C, inverse[J], P_J)
                K += P_J.T @ P_J
            partial_grams[n][worker] = K
            pool.barrier()
            K = np.asarray(sum(partial_grams[n][other] for other in range(pool.size)))
            weights = _atom_weights(K, C[J, J].astype(np.float64), usable[J], budget[J])
            weights = weights.astype(D.dtype)
        for chunk, P in zip(chunks, panels, strict=True):
            _write_atoms(D, chunk, blocks[-1], P, weights, product)

    pool.run(work)


def _write_atoms(
    D: Array, chunk: slice, J: slice, P: Array, weights: Array, product: Array
) -> None:
    """Set the atoms of a block to P · weights; `D` and the buffer `product` are overwritten."""
    D[chunk, J] = np.matmul(
        P[:, : len(weights)], weights, out=product[: len(P), : J.stop - J.start]
    )


@jit
def _fill_columns(D: Array, B: Array, product: Array, inverse: Array, P: Array) -> None:
    """Set `P` to [D, (B − product) · inverse]."""
    m = len(inverse)
    for row in range(len(D)):
        for j in range(m):
            P[row, j] = D[row, j]
            P[row, m + j] = (B[row, j] - product[row, j]) * inverse[j]


@jit
def _atom_weights(K: Array, C: Array, usable: Array, budget: Array) -> Array:
    """Return the weights (2m, m) of the columns of [D_J, R] in the new atoms.

    Parameters
    ----------
    K : ndarray of shape (2m, 2m)
        The Gram matrix of [D_J, R].
    C : ndarray of shape (m, m)
        The rows and columns of C that belong to the block.
    usable : ndarray of bool of shape (m,)
        Whether the atom is updated; the others stay.
    budget : ndarray of shape (m,)
    """
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
    min_curvature: float,
    ball: AtomBall,
    pool: ThreadPool,
) -> None:
    """Update atoms in any ball, on transposed panels (m, q) in which each atom is contiguous."""
    q = sum(s.stop - s.start for s in rows)
    for J in _atom_blocks(C.shape[0], ATOMS_PER_PANEL):
        atoms = np.empty((J.stop - J.start, q), dtype=D.dtype)
        residual = np.empty_like(atoms)
        C_J = np.ascontiguousarray(C[J, J])
        pool.run(partial(_read_panel, pool, D, B, C, rows, J, atoms, residual))
        _sweep_panel(atoms, residual, C_J, budget[J], min_curvature, ball.l1_ratio, ball.positive)
        pool.run(partial(_write_panel, pool, D, rows, J, atoms))


def _read_panel(
    pool: ThreadPool,
    D: Array,
    B: Array,
    C: Array,
    rows: Slices,
    J: slice,
    atoms: Array,
    residual: Array,
    worker: int,
) -> None:
    """Set `atoms` to D_Jᵀ and `residual` to (B_J − D C_J)ᵀ; both have shape (m, q)."""
    for column, row in _panel_columns(pool.static_chunks(rows, worker), rows):
        atoms[:, column] = D[row, J].T
        np.subtract(B[row, J].T, C[J] @ D[row].T, out=residual[:, column])


def _write_panel(
    pool: ThreadPool, D: Array, rows: Slices, J: slice, atoms: Array, worker: int
) -> None:
    """Set D_J to `atoms` transposed; `D` is overwritten."""
    for column, row in _panel_columns(pool.static_chunks(rows, worker), rows):
        D[row, J] = atoms[:, column].T


def _panel_columns(chunks: list[slice], rows: Slices) -> list[tuple[slice, slice]]:
    """Return the pair (columns in the panel, rows of D) for each chunk of the rows."""
    pairs, offset = [], 0
    for s in rows:
        for chunk in chunks:
            if s.start <= chunk.start < s.stop:
                shift = offset - s.start
                pairs.append((slice(chunk.start + shift, chunk.stop + shift), chunk))
        offset += s.stop - s.start
    return pairs


@jit
def _sweep_panel(
    atoms: Array,
    residual: Array,
    C: Array,
    budget: Array,
    min_curvature: float,
    mu: float,
    positive: bool,
) -> None:
    """Do the Gauss–Seidel pass inside a block; `atoms` and `residual` (m, q) are overwritten.

    After the update of an atom, its row of `residual` holds the new atom minus the old one.
    """
    m, q = atoms.shape
    support = np.empty(q, dtype=atoms.dtype)
    for j in range(m):
        u = residual[j]
        if C[j, j] <= min_curvature:
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
    """Project `u` onto the ball, in place; `AtomBall.project` has the derivation.

    `support`, of the shape of `u`, is a buffer.
    """
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
