"""The dictionary update in every ball but the ℓ2 ball: sparse, elastic-net, non-negative atoms.

Atoms are projected one after the other, and a projection couples all rows by one number, the
multiplier θ (see `AtomBall.project`). Everything else concerns each row on its own. So a team of
threads shares the rows of a panel of atoms, and does many short steps: it reads the panel, then for
each atom finishes the one before, given its θ, sets the point to project, and sums up what θ
depends on, a few times; at last it writes the panel.
"""

import math
from typing import NamedTuple

import numpy as np

from somf.kernels.cpu.blas import add_product
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.multiplier import (
    COUNT,
    ESTIMATE,
    L1,
    L2,
    NO_ROUND,
    SUMS_STRIDE,
    Search,
    estimate,
    improve_search,
    start_search,
    sums_above,
)
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.team import (
    dismiss,
    new_team,
    publish,
    set_done,
    take_over,
    wait_for_step,
)
from somf.kernels.cpu.threads import threads_for
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

ATOMS_PER_PANEL = 16
"""Atoms of a panel: a multiple of the tile of BLAS."""

FEW_ROWS = 2048
"""Rows of a thread up to which a panel has twice as many atoms: they still fit the cache."""

WORK_PER_ENTRY = 500.0
"""Operations per entry of an atom, roughly, that decide on threads. They meet for every atom."""

CACHE_LINE = 64
"""Bytes. A row of a panel takes an odd number of lines, so that a column of it fits the cache."""

ROWS_PER_TILE = 64
"""Rows of D that are transposed at once."""

TILE = 1024
"""Features for which an atom is updated at once: few enough for the smallest cache of a core."""

READ, POINT, SUM, WRITE = range(4)
"""The kinds of steps."""

KIND, ATOM, BEFORE, RADIUS, CUT, SCALE, THETA = range(7)
"""What a step is, as numbers: its kind, the atom and its ball, the atom before and its projection,
and the θ whose sums are wanted."""


class Panel(NamedTuple):
    """Some atoms, and how the threads of a team share their rows.

    Attributes
    ----------
    D, B : ndarray of shape (p, k)
    C_J : ndarray of shape (m, k)
        The rows of C of the atoms of this panel, J.
    first : int
        The first of them.
    pieces, edges : ndarray
        See `Shares`.
    columns : ndarray of shape (n_threads + 1,)
        Thread t has the columns of `atoms` and `moved` from ``columns[t]`` to ``columns[t + 1]``.
    mu : float
    positive : bool
    atoms : ndarray of shape (m, q)
        D_Jᵀ.
    moved : ndarray of shape (m, q)
        (B_J − D C_J)ᵀ before the update of an atom, the point to project during it, and the new
        atom minus the old one after it.
    sums : ndarray of shape (n_threads, SUMS_STRIDE)
    step : ndarray of shape (7,)
        What the present step is.
    team : ndarray of int
    """

    D: Array
    B: Array
    C_J: Array
    first: int
    pieces: Ints
    edges: Ints
    columns: Ints
    mu: float
    positive: bool
    atoms: Array
    moved: Array
    sums: Array
    step: Array
    team: Ints


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
    has_few_rows = q <= FEW_ROWS * threads.count
    m = min(ATOMS_PER_PANEL * (2 if has_few_rows else 1), len(C))
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
    """Do the Gauss–Seidel pass, one panel after the other; `atoms` and `moved` are buffers."""
    k, width, n_threads = len(C), len(atoms), len(edges) - 1
    columns, sums = _columns(pieces, edges), np.zeros((n_threads, SUMS_STRIDE))
    for first in range(0, k, width):
        panel = Panel(
            D,
            B,
            np.ascontiguousarray(C[first : min(first + width, k)]),
            first,
            pieces,
            edges,
            columns,
            mu,
            positive,
            atoms,
            moved,
            sums,
            np.zeros(SUMS_STRIDE),
            new_team(n_threads),
        )
        in_parallel(_update_panel, launcher, n_threads, panel, usable, budget)


@inner
def _update_panel(member: int, panel: Panel, usable: Array, budget: Array) -> None:
    """Update the atoms of a panel, as its leader or as one that follows."""
    if member == 0:
        _lead(panel, usable, budget)
    else:
        _follow(member, panel)


@inner
def _follow(member: int, panel: Panel) -> None:
    step = wait_for_step(panel.team, member, 0)
    while step > 0:
        _do_share(member, panel)
        set_done(panel.team, member, step)
        step = wait_for_step(panel.team, member, step)


@inner
def _lead(panel: Panel, usable: Array, budget: Array) -> None:
    panel.step[KIND], panel.step[ATOM], panel.step[BEFORE] = READ, -1, -1
    search = Search(0.0, NO_ROUND, 0, True)
    while True:
        number, member = publish(panel.team), 0
        while member >= 0:
            _do_share(member, panel)
            set_done(panel.team, member, number)
            member = take_over(panel.team, number)
        if panel.step[KIND] == WRITE:
            break
        search = _next_search(search, panel)
        if search.is_over:
            _choose_atom(panel, usable, budget)
        else:
            panel.step[KIND], panel.step[THETA] = SUM, search.theta
    dismiss(panel.team)


@inner
def _next_search(search: Search, panel: Panel) -> Search:
    """Begin or go on to search for θ after a step; set the projection when it is found."""
    step, mu = panel.step, panel.mu
    if step[KIND] == READ:
        return search
    if step[KIND] == POINT:
        search, step[SCALE] = start_search(panel.sums, step[RADIUS], mu)
    else:
        search = improve_search(search, panel.sums, step[RADIUS], mu)
        step[SCALE] = 1.0 / (1.0 + 2.0 * search.theta * (1.0 - mu))
    step[CUT], step[BEFORE] = search.theta * mu, step[ATOM]
    return search


@inner
def _choose_atom(panel: Panel, usable: Array, budget: Array) -> None:
    """Go on to the next atom that is updated, or to the end of the panel."""
    j, m = int(panel.step[ATOM]) + 1, len(panel.C_J)
    while j < m and not usable[panel.first + j]:
        panel.moved[j] = 0
        j += 1
    panel.step[KIND], panel.step[ATOM] = (POINT if j < m else WRITE), j
    if j < m:
        panel.step[RADIUS] = budget[panel.first + j]


@inner
def _do_share(t: int, panel: Panel) -> None:
    """Do the share of a thread in a step."""
    step, start, stop = panel.step, panel.columns[t], panel.columns[t + 1]
    kind, j, before = int(step[KIND]), int(step[ATOM]), int(step[BEFORE])
    if kind == READ:
        for n in range(panel.edges[t], panel.edges[t + 1]):
            _read_panel(panel, panel.pieces[n])
    elif kind == POINT:
        _next_atom(t, panel, before, j)
    elif kind == SUM:
        count, l1, l2 = sums_above(panel.moved[j, start:stop], step[THETA] * panel.mu)
        panel.sums[t, COUNT], panel.sums[t, L1], panel.sums[t, L2] = count, l1, l2
    else:
        if before >= 0:
            atom, moved = panel.atoms[before, start:stop], panel.moved[before, start:stop]
            _finish(atom, moved, step[CUT], step[SCALE])
        for n in range(panel.edges[t], panel.edges[t + 1]):
            _write_panel(panel, panel.pieces[n])


@inner
def _next_atom(t: int, panel: Panel, before: int, j: int) -> None:
    """Finish the atom before, if there is one, and set the point to project of atom j."""
    start, stop, step = panel.columns[t], panel.columns[t + 1], panel.step
    l1, l2 = 0.0, 0.0
    for at in range(start, stop, TILE):
        end = min(at + TILE, stop)
        if before >= 0:
            atom, moved = panel.atoms[before, at:end], panel.moved[before, at:end]
            _finish(atom, moved, step[CUT], step[SCALE])
        norms = _set_point(
            panel.atoms, panel.moved, at, end, panel.C_J, panel.first, j, panel.positive
        )
        l1, l2 = l1 + norms[0], l2 + norms[1]
    part = panel.moved[j, start : min(start + TILE, stop)]
    share = len(part) / panel.columns[len(panel.columns) - 1]
    panel.sums[t, L1], panel.sums[t, L2] = l1, l2
    panel.sums[t, ESTIMATE] = estimate(part, step[RADIUS] * share, panel.mu)


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
def _read_panel(panel: Panel, piece: Ints) -> None:
    """Set some columns of `atoms` to D_Jᵀ and of `moved` to (B_J − D C_J)ᵀ."""
    m, n_rows = len(panel.C_J), piece[1] - piece[0]
    D_rows, B_rows = panel.D[piece[0] : piece[1]], panel.B[piece[0] : piece[1]]
    product = np.empty((n_rows, m), panel.D.dtype)
    add_product(D_rows, False, np.ascontiguousarray(panel.C_J.T), 0.0, product)
    for start in range(0, n_rows, ROWS_PER_TILE):
        for j in range(m):
            for row in range(start, min(start + ROWS_PER_TILE, n_rows)):
                panel.atoms[j, piece[2] + row] = D_rows[row, panel.first + j]
                panel.moved[j, piece[2] + row] = B_rows[row, panel.first + j] - product[row, j]


@inner
def _write_panel(panel: Panel, piece: Ints) -> None:
    """Set D_J to `atoms` transposed on some rows."""
    n_rows = piece[1] - piece[0]
    for start in range(0, n_rows, ROWS_PER_TILE):
        for j in range(len(panel.C_J)):
            for row in range(start, min(start + ROWS_PER_TILE, n_rows)):
                panel.D[piece[0] + row, panel.first + j] = panel.atoms[j, piece[2] + row]


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
