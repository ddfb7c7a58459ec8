"""The dictionary update in every ball but the ℓ2 ball: sparse, elastic-net, non-negative atoms.

Atoms are projected one after the other, and a projection couples all rows by one number, the
multiplier θ (see `AtomBall.project`). Everything else concerns each row on its own. So a team of
threads shares the rows, and does one step per atom: the threads finish the atom before, given its
θ, and set the point to project. A few more steps find its θ.
"""

import math

import numpy as np

from somf.kernels.cpu.blas import add_product
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.multiplier import ESTIMATE, L1, L2, SUMS_STRIDE, estimate, multiplier
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.team import dismiss, follow, launcher_of, new_team
from somf.kernels.cpu.threads import threads_for
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

ATOMS_PER_PANEL = 16
"""Atoms of a block: a multiple of the tile of BLAS."""

WORK_PER_ENTRY = 500.0
"""Operations per entry of an atom, roughly, that decide on threads. They meet once per atom."""

CACHE_LINE = 64
"""Bytes. A row of a panel takes an odd number of lines, so that a column of it fits the cache."""

ROWS_PER_TILE = 64
"""Rows of D that are transposed at once."""

TILE = 1024
"""Features for which an atom is updated at once: few enough for the smallest cache of a core."""


def update_panel(
    D: Array,
    B: Array,
    C: Array,
    rows: Slices,
    usable: Array,
    budget: Array,
    ball: AtomBall,
) -> None:
    """Do what `Kernels.update_atoms` says, in any ball.

    Parameters
    ----------
    D : ndarray of shape (p, k), overwritten
    B : ndarray of shape (p, k)
    C : ndarray of shape (k, k)
    rows : tuple of slices
    usable : ndarray of bool of shape (k,)
        Whether the atom is updated; the others stay.
    budget : ndarray of shape (k,)
    ball : AtomBall
    """
    q = count_rows(rows)
    threads = threads_for(WORK_PER_ENTRY * q)
    pieces, edges = shares(rows, threads.count)
    m = min(ATOMS_PER_PANEL, len(C))
    line = CACHE_LINE // D.itemsize
    stride = (-(-q // line) | 1) * line
    atoms = threads.buffer("atoms", (m, stride), D.dtype)
    moved = threads.buffer("moved", (m, stride), D.dtype)
    _update(
        threads.count,
        D,
        B,
        C,
        usable,
        budget.astype(np.float64),
        pieces,
        edges,
        ball.l1_ratio,
        ball.positive,
        atoms,
        moved,
    )


@region
def _update(
    launcher: int,
    D: Array,
    B: Array,
    C: Array,
    usable: Array,
    budget: Array,
    pieces: Ints,
    edges: Ints,
    mu: float,
    positive: bool,
    atoms: Array,
    moved: Array,
) -> None:
    """Do the Gauss–Seidel pass; `atoms` and `moved` (m, q) are buffers.

    `moved` holds (B_J − D C_J)ᵀ before the update of an atom, the point to project during it, and
    the new atom minus the old one after it.
    """
    k, width, n_threads = len(C), len(atoms), len(edges) - 1
    columns = _columns(pieces, edges)
    sums = np.zeros((n_threads, SUMS_STRIDE))
    for first in range(0, k, width):
        C_J = np.ascontiguousarray(C[first : min(first + width, k)])
        in_parallel(
            _update_block,
            launcher,
            n_threads,
            new_team(launcher, n_threads),
            D,
            B,
            C_J,
            first,
            usable,
            budget,
            pieces,
            edges,
            columns,
            mu,
            positive,
            atoms,
            moved,
            sums,
        )


@inner
def _update_block(
    member: int,
    team: Ints,
    D: Array,
    B: Array,
    C_J: Array,
    first: int,
    usable: Array,
    budget: Array,
    pieces: Ints,
    edges: Ints,
    columns: Ints,
    mu: float,
    positive: bool,
    atoms: Array,
    moved: Array,
    sums: Array,
) -> None:
    """Update a block of atoms as the leader of a team, or follow its leader."""
    if member > 0:
        follow(team, member)
        return
    launcher, size = launcher_of(team), len(sums)
    in_parallel(_read_share, launcher, size, D, B, C_J, first, pieces, edges, atoms, moved)
    before, cut, scale = -1, 0.0, 1.0
    for j in range(len(C_J)):
        if not usable[first + j]:
            moved[j] = 0
            continue
        radius = budget[first + j]
        in_parallel(
            _next_atom,
            launcher,
            size,
            atoms,
            moved,
            columns,
            C_J,
            first,
            before,
            cut,
            scale,
            j,
            radius,
            mu,
            positive,
            sums,
        )
        cut, scale = multiplier(launcher, moved[j], columns, radius, mu, sums)
        before = j
    in_parallel(
        _write_share,
        launcher,
        size,
        D,
        first,
        len(C_J),
        pieces,
        edges,
        columns,
        before,
        cut,
        scale,
        atoms,
        moved,
    )
    dismiss(team)


@inner
def _read_share(
    t: int,
    D: Array,
    B: Array,
    C_J: Array,
    first: int,
    pieces: Ints,
    edges: Ints,
    atoms: Array,
    moved: Array,
) -> None:
    for n in range(edges[t], edges[t + 1]):
        _read_panel(D, B, C_J, first, pieces[n], atoms, moved)


@inner
def _next_atom(
    t: int,
    atoms: Array,
    moved: Array,
    columns: Ints,
    C_J: Array,
    first: int,
    before: int,
    cut: float,
    scale: float,
    j: int,
    radius: float,
    mu: float,
    positive: bool,
    sums: Array,
) -> None:
    """Finish the atom before, if there is one, and set the point to project of atom j."""
    start, stop = columns[t], columns[t + 1]
    l1, l2 = 0.0, 0.0
    for at in range(start, stop, TILE):
        end = min(at + TILE, stop)
        if before >= 0:
            _finish(atoms[before, at:end], moved[before, at:end], cut, scale)
        norms = _set_point(atoms, moved, at, end, C_J, first, j, positive)
        l1, l2 = l1 + norms[0], l2 + norms[1]
    sums[t, L1], sums[t, L2] = l1, l2
    part = moved[j, start : min(start + TILE, stop)]
    share = len(part) / columns[len(columns) - 1]
    sums[t, ESTIMATE] = estimate(part, radius * share, mu)


@inner
def _write_share(
    t: int,
    D: Array,
    first: int,
    m: int,
    pieces: Ints,
    edges: Ints,
    columns: Ints,
    before: int,
    cut: float,
    scale: float,
    atoms: Array,
    moved: Array,
) -> None:
    """Finish the last atom of a panel, if there is one, and write the panel back."""
    start, stop = columns[t], columns[t + 1]
    if before >= 0:
        _finish(atoms[before, start:stop], moved[before, start:stop], cut, scale)
    for n in range(edges[t], edges[t + 1]):
        _write_panel(D, first, m, pieces[n], atoms)


@inner
def _columns(pieces: Ints, edges: Ints) -> Ints:
    """Return where in a panel the columns of every thread begin, and where the last ones end."""
    columns = np.zeros(len(edges), np.int64)
    for t in range(1, len(edges)):
        columns[t] = columns[t - 1]
        for n in range(edges[t - 1], edges[t]):
            columns[t] += pieces[n, 1] - pieces[n, 0]
    return columns


@inner
def _read_panel(
    D: Array, B: Array, C_J: Array, first: int, piece: Ints, atoms: Array, moved: Array
) -> None:
    """Set some columns of `atoms` to D_Jᵀ and of `moved` to (B_J − D C_J)ᵀ."""
    m, n_rows = len(C_J), piece[1] - piece[0]
    D_rows, B_rows = D[piece[0] : piece[1]], B[piece[0] : piece[1]]
    for start in range(0, n_rows, ROWS_PER_TILE):
        for j in range(m):
            for row in range(start, min(start + ROWS_PER_TILE, n_rows)):
                atoms[j, piece[2] + row] = D_rows[row, first + j]
                moved[j, piece[2] + row] = B_rows[row, first + j]
    add_product(-C_J, False, D_rows, 1.0, moved[:m, piece[2] : piece[2] + n_rows], True)


@inner
def _write_panel(D: Array, first: int, m: int, piece: Ints, atoms: Array) -> None:
    """Set D_J to `atoms` transposed on some rows."""
    n_rows = piece[1] - piece[0]
    for start in range(0, n_rows, ROWS_PER_TILE):
        for j in range(m):
            for row in range(start, min(start + ROWS_PER_TILE, n_rows)):
                D[piece[0] + row, first + j] = atoms[j, piece[2] + row]


@inner
def _set_point(
    atoms: Array,
    moved: Array,
    start: int,
    stop: int,
    C_J: Array,
    first: int,
    j: int,
    positive: bool,
) -> tuple[float, float]:
    """Set row j of `moved` to u = d + (b − D c) / Cⱼⱼ, made non-negative if it must be.

    This is done from column `start` to `stop`.

    Returns
    -------
    l1, l2 : float
        Σ|u| and Σu² of these columns.
    """
    u, atom, scale = moved[j, start:stop], atoms[j, start:stop], 1 / C_J[j, first + j]
    for i in range(j):
        coupling = C_J[i, first + j]
        if coupling != 0:
            row = moved[i, start:stop]
            for n in range(len(u)):
                u[n] -= coupling * row[n]
    smallest = u.dtype.type(0.0 if positive else -np.inf)
    l1, l2 = u.dtype.type(0), u.dtype.type(0)
    for n in range(len(u)):
        entry = max(atom[n] + u[n] * scale, smallest)
        u[n] = entry
        l1 += abs(entry)
        l2 += entry * entry
    return l1, l2


@inner
def _finish(atom: Array, moved: Array, cut: float, scale: float) -> None:
    """Project a point that is in `moved`: the new atom goes to `atom`, its change to `moved`."""
    for n in range(len(atom)):
        u = moved[n]
        new = atom.dtype.type(math.copysign(max(abs(u) - cut, 0.0) * scale, u))
        moved[n] = new - atom[n]
        atom[n] = new
