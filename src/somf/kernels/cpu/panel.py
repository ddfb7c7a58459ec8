"""Atoms in panels, in which each atom is contiguous, and how threads share their rows."""

from typing import NamedTuple

import numpy as np

from somf.kernels.cpu.blas import add_product
from somf.kernels.cpu.jit import inner
from somf.typing import Array, Ints

ROWS_AT_ONCE = 32
"""Rows of D and B that are transposed at once: few enough for the smallest cache of a core."""


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


@inner
def read_panel(work: Pass, first: int, piece: Ints) -> None:
    """Set some columns of `atoms` to D_Jᵀ and of `moved` to (B_J − D C_J)ᵀ."""
    m, n_rows = min(len(work.atoms), len(work.C) - first), piece[1] - piece[0]
    D_rows, B_rows = work.D[piece[0] : piece[1]], work.B[piece[0] : piece[1]]
    product = np.empty((n_rows, m), work.D.dtype)
    C_J = np.ascontiguousarray(work.C[first : first + m].T)
    add_product(D_rows, False, C_J, 0.0, product)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, n_rows)
        for j in range(m):
            atom = work.atoms[j, piece[2] + start : piece[2] + stop]
            moved = work.moved[j, piece[2] + start : piece[2] + stop]
            for n in range(stop - start):
                atom[n] = D_rows[start + n, first + j]
                moved[n] = B_rows[start + n, first + j] - product[start + n, j]
    for j in range(m):
        if not work.usable[first + j]:
            work.moved[j, piece[2] : piece[2] + n_rows] = 0


@inner
def write_panel(work: Pass, first: int, piece: Ints) -> None:
    """Set D_J to `atoms` transposed on some rows."""
    m, n_rows = min(len(work.atoms), len(work.C) - first), piece[1] - piece[0]
    for start in range(0, n_rows, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, n_rows)
        for j in range(m):
            atom = work.atoms[j, piece[2] + start : piece[2] + stop]
            for n in range(stop - start):
                work.D[piece[0] + start + n, first + j] = atom[n]
