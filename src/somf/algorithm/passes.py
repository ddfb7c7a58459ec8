"""Passes over all samples, with momentum: the end of a fit to finite data.

A pass is an epoch during which atoms stay as they are, while the codes of all samples on them are
summed up. After it a few sweeps find the atoms that suit these codes. Such alternating minimisation
never makes the objective worse, but is slow near the end. So the atoms of two passes are
extrapolated, with a momentum that begins larger than that of Nesterov; when the objective rises, it
starts again from the atoms before (Ang and Gillis, 2019).
"""

import numpy as np

from somf.algorithm.memory import SampleMemory
from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.kernels.host import to_host
from somf.typing import Ints

PASS_ENTRIES = 2**20
"""Entries of a minibatch of a pass.

Atoms stay as they are until the end of the epoch, so that only speed counts: with so many entries
the fixed cost of an iteration is small.
"""

SWEEPS = 5
"""Gauss–Seidel sweeps over the atoms after a pass. They cost little next to the codes."""


def is_pass_due(state: State) -> bool:
    """Return whether the next minibatch is the first of a pass."""
    is_blank = state.phase == Phase.PASS and state.memory is None  # a file of an earlier version
    return state.phase == Phase.BETWEEN or is_blank


def momentum(n_lowered: int) -> float:
    """Return by how much of their last change atoms are extrapolated.

    Parameters
    ----------
    n_lowered : int
        Passes in a row that have lowered the objective.
    """
    return (n_lowered + 8) / (n_lowered + 10) if n_lowered > 0 else 0.0


def begin_pass(solver: Solver, ids: Ints, n_elsewhere: int) -> None:
    """Extrapolate the atoms, and empty the surrogate, to which the pass adds all samples.

    Parameters
    ----------
    solver : Solver
    ids : ndarray of shape (n,)
        All samples of this rank.
    n_elsewhere : int
        How many samples other ranks have.
    """
    state, memory = solver.state, solver.state.memory
    if memory is None:
        memory = SampleMemory.blank(ids, 0, solver.kernels, state.C, n_elsewhere)
    with solver.kernels.without_gradients():
        memory.weight[:] = 0  # of samples that this pass has not seen yet
        state.begin_sums(memory)
        D, share = np.array(to_host(state.D)), momentum(state.n_lowered)
        if state.D_before.size and share > 0:
            solver.set_atoms(D + share * (D - state.D_before))
        state.D_before = D
        solver.surrogate = solver.new_surrogate()


def end_pass(solver: Solver, has_lowered: bool) -> None:
    """Find the atoms that suit the codes of a pass.

    Parameters
    ----------
    solver : Solver
    has_lowered : bool
        Whether its objective is not above that of the pass before. If it is, the momentum was
        too large, and the atoms are again those before they were extrapolated.
    """
    state = solver.state
    state.phase = Phase.BETWEEN
    if not has_lowered and state.D_before.size:
        state.n_lowered = 0
        solver.set_atoms(state.D_before)
        return
    state.n_lowered += 1
    with solver.kernels.without_gradients():
        everything, C = solver.masks.draw(state.n_iter, solver.reduction), solver.surrogate.total()
        for _ in range(SWEEPS):
            solver.dictionary.update(everything, C)
        solver.objectives.check_atoms()
        # To scale an atom up, and its codes down, changes no reconstruction and raises no penalty.
        solver.set_atoms(to_host(state.D))
