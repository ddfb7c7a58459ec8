"""Messages between ranks on one machine, through memory that all of them have mapped.

A rank writes what it has for others, tells them by a number that it counts up, and waits until the
numbers of all ranks are as high. By TCP, gloo takes four times as long for a short message between
eight ranks, and copies a long one three times, on cores that have other work.
"""

import math
import mmap
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np

from somf.errors import RankError
from somf.typing import Array

TOKEN_BYTES = 32
"""Random bytes by which a rank knows that it has opened the right memory."""

VARIABLE = "SOMF_SHARED_MEMORY"
"""The environment variable that is 0 if ranks are to send messages by gloo nevertheless."""

NO_FILE = -1
"""The descriptor of no file."""

LEFT = -1
"""What a rank brings that has left, instead of the bytes of a message or, negative, of a growth."""

WORDS_PER_RANK = 16
"""Words of each rank, of which three are used: two cache lines, which are fetched in pairs."""


class SharedMemory:
    """Memory that all ranks of a group have mapped.

    After the words of all ranks it has two halves, which are used in turns. A rank that writes to
    one of them has met all ranks since it was used before. So all have read what was there, if each
    is done with what it has received before it sends its own next message.

    Parameters
    ----------
    group : ProcessGroup
    file : int
        The descriptor of the memory, which has no name, and is gone with the last rank.
    processes : list of (int, str)
        The processes of all ranks, see `_birth`.
    """

    def __init__(self, group: Any, file: int, processes: list[tuple[int, str]]) -> None:
        self.group, self.file, self.processes = group, file, processes
        shape = (group.size, WORDS_PER_RANK)
        self._start = -(-8 * WORDS_PER_RANK * group.size // mmap.PAGESIZE) * mmap.PAGESIZE
        words = np.frombuffer(mmap.mmap(file, self._start), np.int64)
        self._words = words[: group.size * WORDS_PER_RANK].reshape(shape)
        self._number, self._turn = 0, 0
        self._halves, self._parts = np.empty((2, 0), np.uint8), np.empty(0)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # the system closes files then
            self.close()

    def close(self) -> None:
        """Leave the memory, so that ranks that wait for this one notice it."""
        if self.file == NO_FILE:
            return
        self._announce(LEFT)
        self._words, self._halves = np.empty((0, 0), np.int64), np.empty((2, 0), np.uint8)
        self._parts = np.empty(0)
        os.close(self.file)
        self.file = NO_FILE

    def room_for_each(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return room for a part for each rank, as (size, *shape), of the type of an array."""
        size = self.group.size
        self._parts = self._next_half((size, size, *shape), like.dtype)  # for, and from
        return self._parts[:, self.group.rank]

    def exchange(self) -> Array:
        """Give each rank its part; return those that each rank has for this one.

        They last until the next message.
        """
        own: Array = self._parts[self.group.rank]
        self._send(own)
        return own

    def share(self, part: Array) -> Array:
        """Give a part to all ranks; return those of each rank, which last likewise."""
        parts = self._next_half((self.group.size, *part.shape), part.dtype)
        parts[self.group.rank] = part
        self._send(parts)
        return parts

    def _send(self, parts: Array) -> None:
        self.group.count_message(parts.nbytes - parts[0].nbytes)
        self._meet(parts.nbytes)

    def _announce(self, n_bytes: int) -> None:
        """Tell others that this rank has come to its next meeting, and what it brings.

        Ranks are at most one meeting apart. So each has a word for even ones and one for odd ones.
        """
        from somf.distributed.meeting import set_number  # Numba is slow to import

        self._number += 1
        self._words[self.group.rank, 1 + self._number % 2] = n_bytes
        set_number(self._words, self.group.rank, self._number)

    def _meet(self, n_bytes: int) -> None:
        """Wait until all ranks have called this as often, for as many bytes."""
        from somf.distributed.meeting import have_reached  # Numba is slow to import

        self._announce(n_bytes)
        self.group.wait(lambda: have_reached(self._words, self._number), self._check_processes)
        others = np.flatnonzero(self._words[:, 1 + self._number % 2] != n_bytes).tolist()
        if others:
            self.group.is_broken = True
            raise RankError(
                others,
                self.group.size,
                "has left, or sends something else. All ranks must do the same, with the same "
                "parameters.",
            )

    def _check_processes(self) -> None:
        """Raise an error if the process of a rank has ended."""
        for process, birth in self.processes:
            if _birth(process) != birth:
                raise RuntimeError(f"process {process} has ended")

    def _next_half(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array in the other half, which grows on all ranks if it must."""
        self.group.check_whole()
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > self._halves.shape[1]:
            self._grow(n_bytes)
        self._turn = 1 - self._turn
        return self._halves[self._turn, :n_bytes].view(dtype).reshape(shape)

    def _grow(self, n_bytes: int) -> None:
        n_bytes += -n_bytes % mmap.PAGESIZE
        if self.group.rank == 0:  # now, and not when a rank writes to it
            os.posix_fallocate(self.file, self._start, 2 * n_bytes)
        self._meet(-n_bytes)
        mapped = mmap.mmap(self.file, 2 * n_bytes, offset=self._start)
        self._halves = np.frombuffer(mapped, np.uint8).reshape(2, n_bytes)


def make_shared_memory(group: Any) -> SharedMemory | None:
    """Return memory that all ranks share, or None if they are not all on one machine.

    Parameters
    ----------
    group : ProcessGroup
    """
    token, is_wanted = os.urandom(TOKEN_BYTES), os.environ.get(VARIABLE) != "0"
    file = _created(group.size, token) if group.rank == 0 else NO_FILE
    facts = group.tell([os.getpid(), _birth(os.getpid()), _machine(), file, token.hex()])
    processes = [(process, birth) for process, birth, *_ in facts]
    process, _, machine, number, text = facts[0]
    if group.rank > 0 and number != NO_FILE and machine and machine == _machine():
        file = _opened(int(process), int(number), bytes.fromhex(text))
    can_see_all = all(birth and _birth(process) == birth for process, birth in processes)
    if group.any(file == NO_FILE or not can_see_all or not is_wanted):
        if file != NO_FILE:
            os.close(file)
        return None
    if group.rank == 0:
        os.pwrite(file, bytes(TOKEN_BYTES), 0)
    group.any(False)  # wait for it
    return SharedMemory(group, file, processes)


def _created(size: int, token: bytes) -> int:
    """Create memory with room for the words of all ranks, which begins with a token."""
    if not hasattr(os, "memfd_create"):
        return NO_FILE
    try:
        file = os.memfd_create("somf")
    except OSError:  # the container does not allow it
        return NO_FILE
    try:
        os.posix_fallocate(file, 0, mmap.PAGESIZE * size)
        os.pwrite(file, token, 0)
    except OSError:  # there is no memory left
        os.close(file)
        return NO_FILE
    return file


def _machine() -> str:
    """Return what tells this machine and the processes that can be seen on it from others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _opened(process: int, number: int, token: bytes) -> int:
    """Open a file of another process by its descriptor, if it begins with a token."""
    try:
        path = f"/proc/{process}/fd/{number}"
        if not stat.S_ISREG(os.stat(path).st_mode):
            return NO_FILE
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return NO_FILE
    try:
        if os.pread(file, len(token), 0) == token:
            return file
    except OSError:
        pass
    os.close(file)
    return NO_FILE


def _birth(process: int) -> str:
    """Return when a process of this machine was started; an empty text if it has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
