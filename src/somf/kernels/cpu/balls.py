"""The dictionary update in every ball but the ℓ2 ball: sparse, elastic-net, non-negative atoms.

Atoms are projected one after the other, and a projection couples all rows by one number, the
multiplier θ (see `AtomBall.project`). Everything else concerns each row on its own. So threads
share the rows, and are a team, which does many short steps. In the first, they read some atoms into
a panel, in which each atom is contiguous. Then there is one step for each atom as a rule. In it,
threads finish the atom before, given its θ, set the point to project, collect what θ depends on,
and prepare the next atom: all but the change of the present one is known by then, which is enough
to estimate its θ.
"""

import numpy as np

from somf.kernels.cpu.jit import body, inner
from somf.kernels.cpu.multiplier import (
    ESTIMATE,
    L1,
    L2,
    NO_ROUND,
    WEIGHT,
    Search,
    estimate,
    improve_search,
    look_at,
    mean_estimate,
    needs_no_search,
    search_near,
)
from somf.kernels.cpu.panel import ROWS_AT_ONCE, Pass, change_panel, columns_of
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.team import (
    NO_MEMBER,
    dismiss,
    new_team,
    publish,
    reports,
    set_done,
    take_over,
    task,
    wait_for_step,
)
from somf.kernels.cpu.threads import current_threads, threads_for
from somf.kernels.cpu.usable import usable_atoms
from somf.kernels.protocol import precision
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

PANEL, POINT, SUM = range(3)
"""The kinds of steps."""

KIND, ATOM, BEFORE, NEXT, NEXT_RADIUS, CUT, SCALE, THETA, RADIUS, FIRST = range(10)
"""What a step is, as numbers: its kind; the atom, the one before and the next; the budget of the
next; the projection of the one before; and the θ at which to look for that of the atom. All of
these are in one cache line. The budget of the atom and the first atom of its panel are not: atoms
need them rarely."""

NO_ATOM = -1
"""The atom before the first of a panel, and the one after the last."""


def update_in_any_ball(
    D: Array,
    B: Array,
    C: Array,
    rows: Slices,
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
        *precision(C.dtype),
        budget,
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
    eps: float,
    tiny: float,
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
    near, sizes = np.empty((n_threads, FEW_ROWS + 1), D.dtype), np.empty((n_threads, TILE), D.dtype)
    C_J = np.empty((n_threads, len(C), len(atoms)), D.dtype)
    product = np.empty((n_threads, ROWS_AT_ONCE, len(atoms)), D.dtype)
    transposed = np.empty((n_threads, len(atoms), ROWS_AT_ONCE), D.dtype)
    parts, buffers = (pieces, edges, columns), (atoms, moved, near, sizes, C_J, product, transposed)
    work = Pass(
        D, B, C, usable_atoms(C, eps, tiny), *parts, mu, positive, *buffers, new_team(n_threads)
    )
    in_parallel(_take_part, launcher, n_threads, work, budget)


@body
def _take_part(member: int, work: Pass, budget: Array) -> None:
    """Update all atoms, as the leader of a team or as one that follows.

    Both do shares in the same place, since each copy of that code has to be compiled.
    """
    team, step, search = work.team, task(work.team), Search(0.0, NO_ROUND, 0, True)
    number, share = 0, NO_MEMBER
    if member == 0:
        step[KIND], step[FIRST], step[BEFORE] = PANEL, 0, NO_ATOM
    while True:
        if member > 0:
            share, number = member, wait_for_step(team, member, number)
            if number == 0:
                return
        elif share == NO_MEMBER:  # all shares of the step before are done
            share, number = 0, publish(team)
        if step[KIND] == PANEL:
            _finish_last(share, work)
            change_panel(share, work, int(step[FIRST]))
        else:
            _do_share(share, work)
        set_done(team, share, number)
        if member == 0:
            share = take_over(team, number)
            if share == NO_MEMBER and step[KIND] == PANEL:
                if step[FIRST] >= len(work.C):
                    dismiss(team)
                    return
                step[KIND], step[ATOM], step[BEFORE] = POINT, NO_ATOM, NO_ATOM
                _choose_next(work, int(step[FIRST]), step, budget)
            elif share == NO_MEMBER:
                search = _next_search(search, work, step)
                step[THETA] = search.theta
                if search.is_over:
                    _go_on(work, step, budget)


@body
def _next_search(search: Search, work: Pass, step: Array) -> Search:
    """Begin or go on to search for θ after a step; set the projection when it is found.

    The first step of a panel has no atom, and nothing to search for.
    """
    if step[ATOM] == NO_ATOM:
        return Search(0.0, NO_ROUND, 0, True)
    of_members, radius, mu = reports(work.team), step[RADIUS], work.mu
    is_point, is_over = step[KIND] == POINT, False
    step[KIND] = SUM
    if is_point:
        is_over, step[SCALE] = needs_no_search(of_members, radius, mu)
    if is_over:
        step[CUT], search = 0.0, Search(0.0, NO_ROUND, 0, True)
    elif is_point and step[THETA] > 0 and _has_few_rows(work):
        search = search_near(step[THETA], of_members, work.near, radius, mu)
    elif is_point and step[THETA] == 0:
        search = Search(0.0, NO_ROUND, 0, False)
    else:
        start = Search(step[THETA], NO_ROUND, 0, False)
        search = improve_search(start if is_point else search, of_members, radius, mu)
    if not is_over:
        step[CUT], step[SCALE] = search.theta * mu, 1.0 / (1.0 + 2.0 * search.theta * (1.0 - mu))
    return search


@inner
def _has_few_rows(work: Pass) -> bool:
    """Return whether it takes less time to collect entries near θ than to meet again."""
    n_threads = len(work.near)
    return bool(work.columns[n_threads] <= FEW_ROWS * n_threads)


@body
def _go_on(work: Pass, step: Array, budget: Array) -> None:
    """Let the next atom be the present one, or change the panel after its last."""
    step[KIND], step[BEFORE], step[ATOM] = POINT, step[ATOM], step[NEXT]
    if step[ATOM] == NO_ATOM:
        step[KIND], step[FIRST] = PANEL, step[FIRST] + len(work.atoms)
        return
    step[RADIUS], step[THETA] = step[NEXT_RADIUS], mean_estimate(reports(work.team))
    _choose_next(work, int(step[ATOM]) + 1, step, budget)


@inner
def _choose_next(work: Pass, start: int, step: Array, budget: Array) -> None:
    """Let the first atom of the panel from `start` on that is updated be the next one."""
    j, stop = start, min(int(step[FIRST]) + len(work.atoms), len(work.C))
    while j < stop and not work.usable[j]:
        j += 1
    step[NEXT] = j if j < stop else NO_ATOM
    if j < stop:
        step[NEXT_RADIUS] = budget[j]


@body
def _do_share(t: int, work: Pass) -> None:
    """Do the share of a thread in a step."""
    step, report = task(work.team), reports(work.team)[t]
    start, stop, sizes = work.columns[t], work.columns[t + 1], work.sizes[t]
    if step[KIND] == POINT:
        l1, l2 = 0.0, 0.0
        for at in range(start, stop, TILE):
            n_sizes = TILE if at == start and work.mu > 0 else 0
            norms = _set_points(work, step, at, min(at + TILE, stop), sizes[:n_sizes])
            l1, l2 = l1 + norms[0], l2 + norms[1]
        report[L1], report[L2] = l1, l2
    if step[ATOM] != NO_ATOM and (step[KIND] == SUM or step[THETA] > 0):
        u, cut = work.moved[int(step[ATOM]) % len(work.atoms), start:stop], step[THETA] * work.mu
        collects = step[KIND] == POINT and _has_few_rows(work)
        look_at(u, cut, report, work.near[t] if collects else work.near[t, :0])
    if step[KIND] == POINT and step[NEXT] != NO_ATOM:
        n_sizes, n_columns = min(TILE, stop - start), work.columns[len(work.columns) - 1]
        radius = step[NEXT_RADIUS] * n_sizes / n_columns
        found = estimate(sizes[:n_sizes], radius, work.mu, step[THETA])
        report[ESTIMATE], report[WEIGHT] = found


@body
def _set_points(
    work: Pass, step: Array, start: int, stop: int, sizes: Array
) -> tuple[float, float]:
    """Finish the atom before, set the point to project, and prepare that of the next atom.

    Parameters
    ----------
    work : Pass
    step : ndarray
    start, stop : int
        The columns.
    sizes : ndarray, overwritten
        The sizes of the first entries of the next point.

    Returns
    -------
    l1, l2 : float
        Σ|u| and Σu² of the point.
    """
    width, norms = len(work.atoms), (0.0, 0.0)
    j, before, following = int(step[ATOM]), int(step[BEFORE]), int(step[NEXT])
    if j != NO_ATOM:
        u = change = work.moved[j % width, start:stop]
        c = work.C.dtype.type(0)
        if before != NO_ATOM:
            change, c = work.moved[before % width, start:stop], work.C[j, before]
            _finish(work.atoms[before % width, start:stop], change, step[CUT], step[SCALE])
        atom = work.atoms[j % width, start:stop]
        norms = _complete(u, atom, change, c, work.C[j, j], work.positive)
    if following != NO_ATOM:
        n_known = j % width if j != NO_ATOM else 0
        _prepare(work, following, n_known, start, stop, sizes)
    return norms


@inner
def _complete(
    u: Array, atom: Array, change: Array, c: float, curvature: float, positive: bool
) -> tuple[float, float]:
    """Set u to the point to project, d + (u − c change) / Cⱼⱼ, non-negative if it must be.

    Returns
    -------
    l1, l2 : float
        Σ|u| and Σu².
    """
    smallest = u.dtype.type(0.0 if positive else -np.inf)
    scale, l1, l2 = u.dtype.type(1) / curvature, u.dtype.type(0), u.dtype.type(0)
    for n in range(len(u)):
        entry = max(atom[n] + (u[n] - c * change[n]) * scale, smallest)
        u[n] = entry
        l1 += abs(entry)
        l2 += entry * entry
    return l1, l2


@inner
def _prepare(work: Pass, j: int, n_known: int, start: int, stop: int, sizes: Array) -> None:
    """Subtract from the row of an atom in `moved` the changes of the first atoms of the panel."""
    n_row, scale = j % len(work.atoms), sizes.dtype.type(1) / work.C[j, j]
    u, atom = work.moved[n_row, start:stop], work.atoms[n_row, start:stop]
    first = j - n_row
    _subtract_changes(work.moved, work.C[j, first : first + n_known], start, stop, u)
    smallest = u.dtype.type(0.0 if work.positive else -np.inf)
    for n in range(min(len(u), len(sizes))):
        sizes[n] = abs(max(atom[n] + u[n] * scale, smallest))


@inner
def _subtract_changes(moved: Array, c: Array, start: int, stop: int, u: Array) -> None:
    """Subtract Σ cᵢ times the change of atom i over the first atoms of the panel.

    Four of them are subtracted at once, so that u is read and written less often.
    """
    i, n = 0, len(c)
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
def _finish_last(t: int, work: Pass) -> None:
    """Finish the last atom of a panel, on the rows of a thread."""
    step, start, stop = task(work.team), work.columns[t], work.columns[t + 1]
    if step[BEFORE] != NO_ATOM:
        n = int(step[BEFORE]) % len(work.atoms)
        _finish(work.atoms[n, start:stop], work.moved[n, start:stop], step[CUT], step[SCALE])


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
