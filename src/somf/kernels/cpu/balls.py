"""The dictionary update in every ball but the ℓ2 ball: sparse, elastic-net, non-negative atoms.

Atoms are projected one after the other, and a projection couples all rows by one number, the
multiplier θ (see `AtomBall.project`). Everything else concerns each row on its own. So threads
share the rows. They read some atoms into a panel, in which each atom is contiguous. Then they are a
team, which does many short steps: for each atom it finishes the one before, given its θ, sets the
point to project, and collects what θ depends on.
"""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.multiplier import (
    COUNT,
    ESTIMATE,
    L1,
    L2,
    NO_ROUND,
    Search,
    collect_near,
    estimate,
    improve_search,
    search_near,
    start_search,
    sums_above,
)
from somf.kernels.cpu.panel import Pass, columns_of, read_panel, write_panel
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.team import (
    NO_MEMBER,
    dismiss,
    new_team,
    publish,
    reports,
    reset,
    set_done,
    take_over,
    task,
    wait_for_step,
)
from somf.kernels.cpu.threads import current_threads, threads_for
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

ATOMS_PER_PANEL = 16
"""Atoms of a panel: a multiple of the tile of BLAS."""

FEW_ROWS = 2048
"""Rows of a thread up to which a panel has twice as many atoms, which still fit the cache, and up
to which it takes less time to collect entries near θ than to meet again."""

WORK_PER_ENTRY = 64.0
"""Operations per entry of an atom and thread, roughly, that decide on threads.

With fewer entries it takes less time to do the work than to meet, once for every atom.
"""

CACHE_LINE = 64
"""Bytes. A row of a panel takes an odd number of lines, so that a column of it fits the cache."""

TILE = 1024
"""Features for which an atom is updated at once: few enough for the smallest cache of a core."""

POINT, COLLECT, SUM = range(3)
"""The kinds of steps."""

KIND, ATOM, BEFORE, RADIUS, CUT, SCALE, THETA = range(7)
"""What a step is, as numbers: its kind, the atom and its ball, the atom before and its projection,
and the θ whose sums are wanted."""

NO_ATOM = -1
"""The atom before the first of a panel."""


def update_in_any_ball(
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
    threads = threads_for(WORK_PER_ENTRY * q * current_threads().count)
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
    """Do the Gauss–Seidel pass; `atoms` and `moved` are buffers."""
    n_threads, columns = len(edges) - 1, columns_of(pieces, edges)
    near, team = np.empty((n_threads, FEW_ROWS + 1), D.dtype), new_team(n_threads)
    work = Pass(D, B, C, usable, pieces, edges, columns, mu, positive, atoms, moved, near, team)
    k, width = len(C), len(atoms)
    task(team)[BEFORE] = NO_ATOM
    for first in range(0, k, width):
        in_parallel(_change_panel, launcher, n_threads, work, first - width, first)
        reset(team)
        in_parallel(_take_part, launcher, n_threads, work, first, budget)
    in_parallel(_change_panel, launcher, n_threads, work, k - 1 - (k - 1) % width, k)


@inner
def _change_panel(t: int, work: Pass, old: int, new: int) -> None:
    """Finish the last atom of a panel, write the panel, and read the next, on a thread's rows.

    Parameters
    ----------
    t : int
    work : Pass
    old, new : int
        The first atoms of both panels; below 0 or beyond the last atom if there is no such panel.
    """
    step, start, stop = task(work.team), work.columns[t], work.columns[t + 1]
    if step[BEFORE] != NO_ATOM:
        n = int(step[BEFORE]) % len(work.atoms)
        atom, moved = work.atoms[n, start:stop], work.moved[n, start:stop]
        _finish(atom, moved, step[CUT], step[SCALE])
    for n in range(work.edges[t], work.edges[t + 1]):
        if old >= 0:
            write_panel(work, old, work.pieces[n])
        if new < len(work.C):
            read_panel(work, new, work.pieces[n])


@inner
def _take_part(member: int, work: Pass, first: int, budget: Array) -> None:
    """Update the atoms of a panel, as the leader of a team or as one that follows.

    Both do shares in the same place, since each copy of that code has to be compiled.
    """
    team, step, search = work.team, task(work.team), Search(0.0, NO_ROUND, 0, True)
    last, number, share = min(first + len(work.atoms), len(work.C)) - 1, 0, NO_MEMBER
    if member == 0:
        step[ATOM], step[BEFORE] = first - 1, NO_ATOM
    while True:
        if member > 0:
            share, number = member, wait_for_step(team, member, number)
            if number == 0:
                return
        elif share == NO_MEMBER:  # all shares of the step before are done
            if search.is_over and not _choose_atom(work, last, step, budget):
                dismiss(team)
                return
            step[THETA] = search.theta
            share, number = 0, publish(team)
        _do_share(share, work)
        set_done(team, share, number)
        if member == 0:
            share = take_over(team, number)
            if share == NO_MEMBER:
                search = _next_search(search, work, step)


@inner
def _next_search(search: Search, work: Pass, step: Array) -> Search:
    """Begin or go on to search for θ after a step; set the projection when it is found."""
    of_members, radius, mu, kind = reports(work.team), step[RADIUS], work.mu, step[KIND]
    step[KIND] = SUM
    if kind == POINT:
        search, step[SCALE] = start_search(of_members, radius, mu)
        n_threads = len(work.near)
        if work.columns[n_threads] <= FEW_ROWS * n_threads and search.theta > 0:
            step[KIND] = COLLECT
    elif kind == COLLECT:
        search = search_near(search, of_members, work.near, radius, mu)
    else:
        search = improve_search(search, of_members, radius, mu)
    if kind != POINT:
        step[SCALE] = 1.0 / (1.0 + 2.0 * search.theta * (1.0 - mu))
    step[CUT], step[BEFORE] = search.theta * mu, step[ATOM]
    return search


@inner
def _choose_atom(work: Pass, last: int, step: Array, budget: Array) -> bool:
    """Go on to the next atom that is updated; return False after the last."""
    j = int(step[ATOM]) + 1
    while j <= last and not work.usable[j]:
        j += 1
    step[KIND], step[ATOM] = POINT, j
    if j <= last:
        step[RADIUS] = budget[j]
    return j <= last


@inner
def _do_share(t: int, work: Pass) -> None:
    """Do the share of a thread in a step."""
    step, report = task(work.team), reports(work.team)[t]
    kind, j = int(step[KIND]), int(step[ATOM]) % len(work.atoms)
    u = work.moved[j, work.columns[t] : work.columns[t + 1]]
    if kind == POINT:
        _next_atom(t, work, step, report)
    elif kind == COLLECT:
        collect_near(u, step[THETA] * work.mu, report, work.near[t])
    else:
        report[COUNT], report[L1], report[L2] = sums_above(u, step[THETA] * work.mu)


@inner
def _next_atom(t: int, work: Pass, step: Array, report: Array) -> None:
    """Finish the atom before in the panel, if there is one, and set the point to project."""
    start, stop, width = work.columns[t], work.columns[t + 1], len(work.atoms)
    j, before = int(step[ATOM]), int(step[BEFORE])
    l1, l2 = 0.0, 0.0
    for at in range(start, stop, TILE):
        end = min(at + TILE, stop)
        if before != NO_ATOM:
            n = before % width
            _finish(work.atoms[n, at:end], work.moved[n, at:end], step[CUT], step[SCALE])
        norms = _set_point(work, j, at, end)
        l1, l2 = l1 + norms[0], l2 + norms[1]
    part = work.moved[j % width, start : min(start + TILE, stop)]
    share = len(part) / work.columns[len(work.columns) - 1]
    report[L1], report[L2] = l1, l2
    start_at, radius = step[THETA], step[RADIUS] * share
    report[ESTIMATE], report[COUNT] = estimate(part, radius, work.mu, start_at)


@inner
def _set_point(work: Pass, j: int, start: int, stop: int) -> tuple[float, float]:
    """Set the row of atom j in `moved` to u = d + (b − D c) / Cⱼⱼ, non-negative if it must be.

    This is done from column `start` to `stop`.

    Returns
    -------
    l1, l2 : float
        Σ|u| and Σu² of these columns.
    """
    n_row = j % len(work.moved)
    u, atom = work.moved[n_row, start:stop], work.atoms[n_row, start:stop]
    _subtract_changes(work, j, start, stop, u)
    scale = 1 / work.C[j, j]
    smallest = u.dtype.type(0.0 if work.positive else -np.inf)
    l1, l2 = u.dtype.type(0), u.dtype.type(0)
    for n in range(len(u)):
        entry = max(atom[n] + u[n] * scale, smallest)
        u[n] = entry
        l1 += abs(entry)
        l2 += entry * entry
    return l1, l2


@inner
def _subtract_changes(work: Pass, j: int, start: int, stop: int, u: Array) -> None:
    """Subtract Σ Cᵢⱼ times the change of atom i over the atoms i before j in the panel.

    Four of them are subtracted at once, so that u is read and written less often.
    """
    n, moved, i = j % len(work.moved), work.moved, 0
    c = work.C[j, j - n : j]
    while i + 3 < n:
        c_0, c_1, c_2, c_3 = c[i], c[i + 1], c[i + 2], c[i + 3]
        row_0, row_1 = moved[i, start:stop], moved[i + 1, start:stop]
        row_2, row_3 = moved[i + 2, start:stop], moved[i + 3, start:stop]
        for m in range(len(u)):
            u[m] -= c_0 * row_0[m] + c_1 * row_1[m] + c_2 * row_2[m] + c_3 * row_3[m]
        i += 4
    while i < n:
        c_0, row_0 = c[i], moved[i, start:stop]
        for m in range(len(u)):
            u[m] -= c_0 * row_0[m]
        i += 1


@inner
def _finish(atom: Array, moved: Array, cut: float, scale: float) -> None:
    """Project a point that is in `moved`: the new atom goes to `atom`, its change to `moved`."""
    least, factor, zero = atom.dtype.type(cut), atom.dtype.type(scale), atom.dtype.type(0)
    for n in range(len(atom)):
        u = moved[n]
        size = max(abs(u) - least, zero) * factor
        new = size if u > 0 else -size
        moved[n] = new - atom[n]
        atom[n] = new
