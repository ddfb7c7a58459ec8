"""The dictionary update on the CPU, one block of atoms at a time, rows divided among threads.

The pass over atoms is sequential, but the product D C_J of a block J of atoms is one matrix
product. The sequential part inside a block runs on small matrices (ℓ2 ball), or on panels in which
each atom is contiguous (all other balls).
"""

import math
from functools import cache
from itertools import pairwise

import numpy as np

from somf.kernels.cpu.balls import update_in_any_ball
from somf.kernels.cpu.blas import add_gram, add_product, mirror
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import SERIAL, in_parallel
from somf.kernels.cpu.products import MANY_ENTRIES, PER_BLAS_OPERATION
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import threads_for
from somf.kernels.cpu.usable import usable_atoms
from somf.kernels.protocol import precision
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

ATOMS_PER_BLOCK = 32
"""Atoms of a block in the ℓ2 ball: a multiple of the tile of BLAS. 33 make products 10 % slower."""

MANY_ROWS = 1024
"""Rows below which blocks have half as many atoms, since the small matrices take most time."""


def update_atoms(D: Array, B: Array, C: Array, rows: Slices, budget: Array, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    if ball.l1_ratio != 0.0 or ball.positive:
        update_in_any_ball(D, B, C, rows, budget, ball)
        return
    q, k = count_rows(rows), len(C)
    blocks, width = split_atoms(k, ATOMS_PER_BLOCK if q >= MANY_ROWS else ATOMS_PER_BLOCK // 2)
    threads = threads_for(PER_BLAS_OPERATION * 2.0 * q * width * (k + 4 * width))
    pieces, edges = shares(rows, threads.count)
    panel = threads.buffer("panel", (q, 2 * width), D.dtype)
    grams = threads.buffer("panel grams", (threads.count, 2 * width, 2 * width), D.dtype)
    _update_in_l2_ball(
        threads.count,
        D,
        B,
        C,
        *precision(C.dtype),
        budget,
        pieces,
        edges,
        blocks,
        panel,
        grams,
    )


@cache
def split_atoms(n_atoms: int, size: int) -> tuple[Ints, int]:
    """Cut atoms into blocks; a rest of up to half a block joins the last one.

    Returns
    -------
    edges : ndarray of shape (n_blocks + 1,)
    width : int
        Atoms of the largest block.
    """
    edges = [*range(0, max(n_atoms - size // 2, 1), size), n_atoms]
    return np.array(edges, dtype=np.int64), max(b - a for a, b in pairwise(edges))


@region
def _update_in_l2_ball(
    launcher: int,
    D: Array,
    B: Array,
    C: Array,
    eps: float,
    tiny: float,
    budget: Array,
    pieces: Ints,
    edges: Ints,
    blocks: Ints,
    panel: Array,
    grams: Array,
) -> None:
    """Update atoms in the ℓ2 ball without a loop over features for each atom.

    With R = (B_J − D C_J) / diag C_J, every new atom of the block is a linear combination of the
    columns of P = [D_J, R]. Norms come from the small Gram matrix PᵀP, the atoms from one product.
    Writing the atoms of one block and preparing the next block is a single pass over the rows.
    """
    n_threads, weights = len(edges) - 1, np.zeros((0, 0), D.dtype)
    usable = usable_atoms(C, eps, tiny)
    for n_block in range(len(blocks) - 1):
        first, m = blocks[n_block], blocks[n_block + 1] - blocks[n_block]
        K = panel_gram(launcher, D, B, C, usable, first, m, pieces, edges, panel, weights, grams)
        weights = atom_weights(K, C, usable, budget, first, m).astype(D.dtype)
    in_parallel(last_block, launcher, n_threads, D, pieces, edges, panel, weights)


@inner
def panel_gram(
    launcher: int,
    D: Array,
    B: Array,
    C: Array,
    usable: Array,
    first: int,
    m: int,
    pieces: Ints,
    edges: Ints,
    panel: Array,
    weights: Array,
    grams: Array,
) -> Array:
    """Write the atoms of the block before, fill the panel of this one, and return its Gram."""
    columns, inverse = _columns(C, usable, first, m)
    in_parallel(
        _next_block,
        launcher,
        len(edges) - 1,
        D,
        B,
        columns,
        inverse,
        first,
        pieces,
        edges,
        panel,
        weights,
        grams,
    )
    return _sum_of(launcher, grams, 2 * m)


@inner
def _next_block(
    t: int,
    D: Array,
    B: Array,
    columns: Array,
    inverse: Array,
    first: int,
    pieces: Ints,
    edges: Ints,
    panel: Array,
    weights: Array,
    grams: Array,
) -> None:
    """Write the atoms of the block before `first`, if there is one, and fill the panel."""
    for i in range(grams.shape[1]):
        for j in range(grams.shape[2]):
            grams[t, i, j] = 0
    for n in range(edges[t], edges[t + 1]):
        if first > 0:
            _write_atoms(D, first - weights.shape[1], pieces[n], panel, weights)
        _fill_panel(D, B, columns, inverse, first, pieces[n], panel, grams[t])


@inner
def last_block(t: int, D: Array, pieces: Ints, edges: Ints, panel: Array, weights: Array) -> None:
    """Write the atoms of the last block on the rows of a thread."""
    for n in range(edges[t], edges[t + 1]):
        _write_atoms(D, D.shape[1] - weights.shape[1], pieces[n], panel, weights)


@inner
def _columns(C: Array, usable: Array, first: int, m: int) -> tuple[Array, Array]:
    """Return −C_J / diag C_J and 1 / diag C_J of a block of atoms, zero for those that stay."""
    columns, inverse = np.zeros((len(C), m), C.dtype), np.zeros(m, C.dtype)
    for j in range(m):
        if usable[first + j]:
            inverse[j] = 1 / C[first + j, first + j]
    for i in range(len(C)):
        for j in range(m):
            columns[i, j] = -C[i, first + j] * inverse[j]
    return columns, inverse


@inner
def _panel_rows(panel: Array, piece: Ints, m: int) -> Array:
    return panel[piece[2] : piece[2] + piece[1] - piece[0], : 2 * m]


@inner
def _write_atoms(D: Array, first: int, piece: Ints, panel: Array, weights: Array) -> None:
    """Set atoms to P · weights on the rows of a piece."""
    m = weights.shape[1]
    atoms = D[piece[0] : piece[1], first : first + m]
    add_product(_panel_rows(panel, piece, m), False, weights, 0.0, atoms)


@inner
def _fill_panel(
    D: Array,
    B: Array,
    columns: Array,
    inverse: Array,
    first: int,
    piece: Ints,
    panel: Array,
    gram: Array,
) -> None:
    """Set P to [D_J, (B_J − D C_J) / diag C_J] on the rows of a piece, and add PᵀP to `gram`."""
    m = columns.shape[1]
    P = _panel_rows(panel, piece, m)
    for row in range(len(P)):
        at = piece[0] + row
        for j in range(m):
            P[row, j] = D[at, first + j]
            P[row, m + j] = B[at, first + j] * inverse[j]
    add_product(D[piece[0] : piece[1]], False, columns, 1.0, P[:, m:])
    add_gram(P, 1.0, gram[: 2 * m, : 2 * m])


@inner
def _sum_of(launcher: int, grams: Array, size: int) -> Array:
    """Return the sum of the parts of all threads, in their order."""
    K = np.zeros((size, size))
    is_large = len(grams) * size * size >= MANY_ENTRIES
    in_parallel(_sum_row, launcher if is_large else SERIAL, size, grams, K)
    mirror(K)
    return K


@inner
def _sum_row(i: int, grams: Array, K: Array) -> None:
    for t in range(len(grams)):
        for j in range(len(K)):
            K[i, j] += grams[t, i, j]


@inner
def atom_weights(K: Array, C: Array, usable: Array, budget: Array, first: int, m: int) -> Array:
    """Return the weights (2m, m) of the columns of [D_J, R] in the new atoms.

    K times what has been moved is kept beside it, so that a norm costs no product with K.

    Parameters
    ----------
    K : ndarray of shape (2m, 2m)
        The Gram matrix of [D_J, R].
    C : ndarray of shape (k, k)
    usable : ndarray of bool of shape (k,)
        Whether the atom is updated; the others stay.
    budget : ndarray of shape (k,)
    first, m : int
        The atoms of the block J.
    """
    weights = np.zeros((2 * m, m))
    moved, image = np.zeros((m, 2 * m)), np.zeros((m, 2 * m))  # new minus old atoms; times K
    u, K_u = np.empty(2 * m), np.empty(2 * m)
    for j in range(m):
        weights[j, j] = 1.0
        if not usable[first + j]:
            continue
        for n in range(2 * m):
            u[n], K_u[n] = 0.0, K[j, n] + K[m + j, n]
        u[j], u[m + j] = 1.0, 1.0
        for i in range(j):
            share = np.float64(C[first + i, first + j]) / C[first + j, first + j]
            if share != 0:
                for n in range(2 * m):
                    u[n] -= share * moved[i, n]
                    K_u[n] -= share * image[i, n]
        sq_norm = 0.0
        for n in range(2 * m):
            sq_norm += u[n] * K_u[n]
        scale = 1.0
        if sq_norm > budget[first + j]:
            scale = math.sqrt(max(budget[first + j], 0.0) / sq_norm)
        for n in range(2 * m):
            weights[n, j] = scale * u[n]
            moved[j, n] = scale * u[n]
            image[j, n] = scale * K_u[n] - K[j, n]
        moved[j, j] -= 1.0
    return weights
