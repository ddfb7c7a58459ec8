"""A team: threads that do many short steps together, inside of one loop of the pool.

A loop of the pool costs some ten microseconds on sixteen cores, because its threads wake up and
meet. A pass over atoms that are projected one after the other has hundreds of short steps. So the
threads of one loop stay together for all of them: one of them *leads*, that is, it runs the
sequential code and publishes the steps, and the others *follow*, that is, they wait for steps by
spinning.

A share of a step is done by the thread that claims it first: its follower, or else the leader.
So a step ends also if followers come late, have left, or were never started, as with fewer cores
than threads. Which thread does a share does not change the result.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import SERIAL, call_body
from somf.typing import Ints

LINE = 16
"""Words of a row of a team: two cache lines, since processors fetch them in pairs."""

LEAD, SIZE, BODY, ARGUMENTS, COUNT = range(5)
"""Words of the first row: address of the loop, number of members, and what the step does."""

STEP = 0
"""The word of the leader's row: the number of the step. Followers read it all the time."""

CLAIMED, DONE = range(2)
"""Words of a follower's row: the last step whose share was claimed, and the last one done."""

DISMISSED = -1
"""The number of the step after the last."""

PATIENCE = 2**14
"""How often a follower looks for a next step before it leaves: some tenths of a millisecond.

The leader has been interrupted then, and others may need the core.
"""

LOOKS_BEFORE_CLAIM = 64
"""How often the leader looks whether followers are done before it does the shares that are left."""

WORD = ir.IntType(64)
"""A word."""

BYTES = 8
"""Of a word."""

PAUSE = {
    "x86_64": ("llvm.x86.sse2.pause", []),
    "AMD64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [ir.IntType(32)(1)]),
    "arm64": ("llvm.aarch64.hint", [ir.IntType(32)(1)]),
}
"""The instruction, by processor, that leaves a core to the other thread on it: name, arguments."""


@intrinsic
def _load(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 (types)
    """Return a word that other threads write, and what they have written before it."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:  # noqa: ARG001
        pointer = builder.inttoptr(values[0], WORD.as_pointer())
        return builder.load_atomic(pointer, "acquire", BYTES)

    return types.int64(types.intp), generate


@intrinsic
def _store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001 (types)
    """Write a word that other threads read, after all that was written before."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], WORD.as_pointer())
        builder.store_atomic(values[1], pointer, "release", BYTES)
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), generate


@intrinsic
def _replace(typing_context: Any, address: Any, old: Any, new: Any) -> Any:  # noqa: ARG001 (types)
    """Replace a word, if it has not changed; return whether it was replaced."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:  # noqa: ARG001
        pointer = builder.inttoptr(values[0], WORD.as_pointer())
        found = builder.cmpxchg(pointer, values[1], values[2], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(types.intp, types.int64, types.int64), generate


@intrinsic
def _pause(typing_context: Any) -> Any:  # noqa: ARG001 (types)
    """Tell the processor that this thread only waits."""

    def generate(context: Any, builder: Any, _: Any, __: Any) -> Any:
        if platform.machine() in PAUSE:
            name, arguments = PAUSE[platform.machine()]
            kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
            builder.call(builder.module.declare_intrinsic(name, (), kind), arguments)
        return context.get_dummy_value()

    return types.void(), generate


@inner
def new_team(launcher: int, size: int) -> Ints:
    """Return a team for the members of a loop of the pool.

    Parameters
    ----------
    launcher : int
        That of the region. After the address of its loop comes that of the loop of a leader.
    size : int
        Members.
    """
    team = np.zeros((1 + size, LINE), np.int64)
    if launcher != SERIAL:
        team[0, LEAD] = _load(launcher + BYTES)
    team[0, SIZE] = size
    return team


@inner
def launcher_of(team: Ints) -> int:
    """Return the launcher of the steps that the leader publishes."""
    return team.ctypes.data if team[0, LEAD] != 0 else SERIAL


@inner
def _task(team: int, n: int) -> int:
    """Return the address of a word of the first row."""
    return team + BYTES * n


@inner
def _word(team: int, member: int, n: int) -> int:
    """Return the address of a word of a member's row."""
    return team + BYTES * (LINE * (1 + member) + n)


@inner
def _claim(team: int, member: int, step: int) -> bool:
    """Claim the share of a member in a step; return whether it was still free."""
    address = _word(team, member, CLAIMED)
    last = _load(address)
    return last < step and _replace(address, last, step)


def lead(team: int, body: int, arguments: int, count: int) -> None:
    """Do a step: call a body for all i below `count`, together with those who follow."""
    step, size = _load(_word(team, 0, STEP)) + 1, _load(_task(team, SIZE))
    _store(_task(team, BODY), body)
    _store(_task(team, ARGUMENTS), arguments)
    _store(_task(team, COUNT), count)
    _store(_word(team, 0, STEP), step)
    call_body(body, 0, arguments)
    for _ in range(LOOKS_BEFORE_CLAIM):
        if _n_busy(team, size, step) == 0:
            return
        _pause()
    for member in range(1, size):
        if _claim(team, member, step):
            if member < count:
                call_body(body, member, arguments)
            _store(_word(team, member, DONE), step)
    while _n_busy(team, size, step) > 0:
        _pause()


@inner
def _n_busy(team: int, size: int, step: int) -> int:
    """Return how many followers have not done their share of a step."""
    count = 0
    for member in range(1, size):
        count += _load(_word(team, member, DONE)) < step
    return count


@inner
def follow(team: Ints, member: int) -> None:
    """Do shares of steps until the leader dismisses the team, or does nothing for too long."""
    address, seen, patience = team.ctypes.data, 0, PATIENCE
    while patience > 0:
        step = _load(_word(address, 0, STEP))
        if step == DISMISSED:
            return
        if step == seen:
            patience -= 1
            _pause()
            continue
        seen, patience = step, PATIENCE
        if _claim(address, member, step):  # from now on the leader waits
            if member < _load(_task(address, COUNT)):
                body, arguments = _load(_task(address, BODY)), _load(_task(address, ARGUMENTS))
                call_body(body, member, arguments)
            _store(_word(address, member, DONE), step)


@inner
def dismiss(team: Ints) -> None:
    """End the team: followers return."""
    _store(_word(team.ctypes.data, 0, STEP), DISMISSED)
