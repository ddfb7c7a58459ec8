"""Atoms in panels, in which each atom is contiguous, and how threads share their rows."""

from typing import NamedTuple

import numpy as np

from somf.kernels.cpu.blas import add_product
from somf.kernels.cpu.jit import body, inner
from somf.kernels.cpu.transpose import transpose
from somf.typing import Array, Ints

ROWS_AT_ONCE = 512
"""Rows of a panel that are read at once: few enough for the cache of a core."""


class Pass(NamedTuple):
    """A pass over all atoms, and how the threads of a team share the rows.

    Attributes
    ----------
    D, B : ndarray of shape (p, k)
    C : ndarray of shape (k, k)
    usable : ndarray of bool of shape (k,)
        Whether the atom is updated; the others stay.
    pieces, edges : ndarray
        See `Shares`.
    columns : ndarray of shape (n_threads + 1,)
        Thread t has the columns of `atoms` and `moved` from ``columns[t]`` to ``columns[t + 1]``.
    mu : float
    positive : bool
    atoms : ndarray of shape (m, q)
        D_Jᵀ for the atoms J of a panel.
    moved : ndarray of shape (m, q)
        (B_J − D C_J)ᵀ before the update of an atom, the point to project during it, and the new
        atom minus the old one after it. Zero for atoms that stay.
    near : ndarray of shape (n_threads, n)
        Room for the entries of the point near an estimate of θ, of every thread.
    sizes : ndarray of shape (n_threads, n)
        Room for the sizes of some entries of the next point.
    C_J : ndarray of shape (n_threads, k, m)
    product : ndarray of shape (n_threads, ROWS_AT_ONCE, m)
    transposed : ndarray of shape (n_threads, m, ROWS_AT_ONCE)
        Room for columns of C, and for D C_J and its transpose on some rows, of every thread. A
        member of a team must not allocate memory: if it fails, the others would wait for ever.
    team : ndarray
    """

    D: Array
    B: Array
    C: Array
    usable: Array
    pieces: Ints
    edges: Ints
    columns: Ints
    mu: float
    positive: bool
    atoms: Array
    moved: Array
    near: Array
    sizes: Array
    C_J: Array
    product: Array
    transposed: Array
    team: Array


@inner
def columns_of(pieces: Ints, edges: Ints) -> Ints:
    """Return where in a panel the columns of every thread begin, and where the last ones end."""
    columns = np.zeros(len(edges), np.int64)
    for t in range(1, len(edges)):
        columns[t] = columns[t - 1]
        for n in range(edges[t - 1], edges[t]):
            columns[t] += pieces[n, 1] - pieces[n, 0]
    return columns


@body
def change_panel(t: int, work: Pass, first: int) -> None:
    """Write a panel, and read the next, on the rows of a thread.

    That sets D_J to `atoms` transposed, then some columns of `atoms` to D_Jᵀ and of `moved` to
    (B_J − D C_J)ᵀ for the next atoms J.

    Parameters
    ----------
    t : int
    work : Pass
    first : int
        The first atom of the next panel; beyond the last atom if there is none.
    """
    width, k = len(work.atoms), len(work.C)
    old, m = min(width, k - (first - width)), max(min(width, k - first), 0)
    C_J, product, transposed = work.C_J[t], work.product[t], work.transposed[t]
    transpose(work.C, (first, 0), C_J, (0, 0), (m, k))
    for n in range(work.edges[t], work.edges[t + 1]):
        piece = work.pieces[n]
        for row in range(piece[0], piece[1], ROWS_AT_ONCE):
            count, column = min(ROWS_AT_ONCE, piece[1] - row), piece[2] + row - piece[0]
            if first > 0:
                transpose(work.atoms, (0, column), work.D, (row, first - width), (old, count))
            if m == 0:
                continue
            transpose(work.D, (row, first), work.atoms, (0, column), (count, m))
            transpose(work.B, (row, first), work.moved, (0, column), (count, m))
            add_product(work.D[row : row + count], False, C_J[:, :m], 0.0, product[:count, :m])
            transpose(product, (0, 0), transposed, (0, 0), (count, m))
            for j in range(m):
                is_moved = 1.0 if work.usable[first + j] else 0.0
                _subtract(transposed[j], is_moved, work.moved[j, column : column + count])


@inner
def _subtract(row: Array, factor: float, out: Array) -> None:
    """Set an array to a factor times its difference to a row."""
    c = out.dtype.type(factor)
    for n in range(len(out)):
        out[n] = c * (out[n] - row[n])
