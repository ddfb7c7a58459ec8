"""A team: the threads of a parallel loop, which do many short steps together.

A parallel loop costs some ten microseconds on sixteen cores, because its threads wake up, read
their arguments from the memory of another core, and meet. A pass over atoms that are projected one
after the other has hundreds of short steps. So the threads of one loop stay together for all of
them. One of them *leads*: it decides what the next step is, and publishes it. The others *follow*:
they wait for the next step by looking at a number.

A share of a step is done by the thread that claims it first: its follower, or else the leader.
So a step ends also if followers come late, lose their core, or were never started, as with fewer
cores than threads. Which thread does a share does not change the result.

What a step is and what a member has to report do not lie beside the words by which threads wait for
each other. A thread that writes several numbers to a cache line which others keep reading has to
fetch it back for each of them: with both in one line, a step took ten times as long.
"""

import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.words import BYTES, load, replace, store
from somf.typing import Array

LINE = 16
"""Words of a row of a team: two cache lines, since processors fetch them in pairs."""

CLAIMED, DONE, PRESENT = range(3)
"""Words of a member: the last step whose share was claimed, the last one done, and a flag."""

STEP = 0
"""The word of the leader: the number of the step."""

DISMISSED = -1
"""The number of the step after the last."""

NO_MEMBER = -1
"""What `take_over` returns if all members have done their shares."""

PATIENCE = 2**14
"""How often a thread looks for what it waits for before it lets others have its core.

There is no instruction between two looks that would tell the processor to pause: a virtual machine
takes many of them for a reason to run another one, and then a step takes ten microseconds instead
of two.
"""

GRACE = 64
"""How often the leader looks at all members before it does a share that its follower has not begun.

Such a follower has lost its core to others, perhaps for milliseconds.
"""


@intrinsic
def _yield_core(typing_context: Any) -> Any:  # noqa: ARG001 (types)
    """Let other threads have the core, if there are any that wait for it."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:  # noqa: ARG001
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@inner
def new_team(size: int) -> Array:
    """Return a team of some members, of which number 0 leads.

    Returns
    -------
    team : ndarray of shape (2 size + 1, LINE)
        The words of all members, what the present step is, and the reports of all members. Rows
        begin where cache lines do.
    """
    n_rows = 2 * size + 1
    memory = np.zeros((n_rows + 1) * LINE)
    start = -(memory.ctypes.data // BYTES) % LINE
    return memory[start : start + n_rows * LINE].reshape((n_rows, LINE))


@inner
def _word(team: Array, member: int, n: int) -> int:
    """Return the address of a word."""
    return team.ctypes.data + BYTES * (LINE * member + n)


@inner
def task(team: Array) -> Array:
    """Return the numbers that say what a step is; the leader sets them before it publishes it."""
    numbers: Array = team[len(team) // 2]
    return numbers


@inner
def reports(team: Array) -> Array:
    """Return the numbers that members report, an array of shape (size, LINE)."""
    return team[len(team) // 2 + 1 :]


@inner
def _claim(team: Array, member: int, step: int) -> bool:
    """Claim the share of a member in a step; return whether it was still free."""
    address = _word(team, member, CLAIMED)
    last: int = load(address)
    is_claimed: bool = last < step and replace(address, last, step)
    return is_claimed


@inner
def publish(team: Array) -> int:
    """Let the followers begin the next step; return its number. Called by the leader."""
    step: int = load(_word(team, 0, STEP)) + 1
    store(_word(team, 0, STEP), step)
    return step


@inner
def take_over(team: Array, step: int) -> int:
    """Wait until all shares of a step are done. Called by the leader, after its own share.

    Returns
    -------
    member : int
        `NO_MEMBER` if all are done. Otherwise one that is late; the leader has its share to do.
    """
    n_looks, is_busy = 0, True
    while is_busy:
        is_busy, n_looks = False, n_looks + 1
        for member in range(1, len(team) // 2):
            if load(_word(team, member, DONE)) < step:
                is_busy = True
                is_late = n_looks > GRACE or not load(_word(team, member, PRESENT))
                if is_late and _claim(team, member, step):
                    return member
        if n_looks % PATIENCE == 0:
            _yield_core()
    return NO_MEMBER


@inner
def wait_for_step(team: Array, member: int, last: int) -> int:
    """Wait for a share to do. Called by a follower.

    Parameters
    ----------
    team : ndarray
    member : int
    last : int
        The last step in which this follower did its share, 0 before the first.

    Returns
    -------
    step : int
        0 if the follower is dismissed.
    """
    store(_word(team, member, PRESENT), 1)
    n_looks = 0
    while True:
        step: int = load(_word(team, 0, STEP))
        if step == DISMISSED:
            return 0
        if step > last:
            if _claim(team, member, step):  # from now on the leader waits
                return step
            last = step
        n_looks += 1
        if n_looks % PATIENCE == 0:
            _yield_core()


@inner
def set_done(team: Array, member: int, step: int) -> None:
    """Tell the leader that a share is done."""
    if member > 0:
        store(_word(team, member, DONE), step)


@inner
def dismiss(team: Array) -> None:
    """End the team: followers return."""
    store(_word(team, 0, STEP), DISMISSED)
