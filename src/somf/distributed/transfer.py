"""How rows travel between ranks: in messages, or through memory that all ranks share.

Ranks on one machine need not send what they can read. There, a rank writes rows into memory that
all ranks have mapped, says in a short message that they are there, and reads those of the others.
Between two machines, and on GPUs, rows are sent.
"""

import mmap
import os
from typing import Any, Protocol

import numpy as np

from somf.kernels import Kernels
from somf.typing import Array

TOKEN_BYTES = 32
"""Random bytes by which a rank knows that it has opened the right memory."""


class Transfer(Protocol):
    """Gives room for rows, and then those of other ranks, which last until the next transfer."""

    def room_for_each(self, shape: tuple[int, int], like: Array) -> Array:
        """Return room for rows for each rank, as (size, *shape), of the type of an array."""
        ...

    def exchange(self) -> Array:
        """Give each rank its rows; return those that each rank has for this one."""
        ...

    def room(self, shape: tuple[int, int], like: Array) -> Array:
        """Return room for rows that are the same for all ranks."""
        ...

    def share(self) -> Array:
        """Give all ranks these rows; return those of each rank, as (size, *shape)."""
        ...


class Messages:
    """Sends rows.

    Parameters
    ----------
    group : ProcessGroup
    kernels : Kernels
    """

    def __init__(self, group: Any, kernels: Kernels) -> None:
        self.group, self.kernels = group, kernels
        self._buffers: dict[str, Array] = {}
        self._shape, self._like = (0, 0), np.empty((0, 0))

    def room_for_each(self, shape: tuple[int, int], like: Array) -> Array:
        """See `Transfer.room_for_each`."""
        self._shape, self._like = shape, like
        return self._buffer("send")

    def exchange(self) -> Array:
        """See `Transfer.exchange`."""
        received: Array = self.group.carry(self._buffer("send"), self._buffer("received"))
        return received

    def room(self, shape: tuple[int, int], like: Array) -> Array:
        """See `Transfer.room`."""
        room: Array = self.room_for_each(shape, like)[0]
        return room

    def share(self) -> Array:
        """See `Transfer.share`."""
        send = self._buffer("send")
        send[1:] = send[0]
        return self.exchange()

    def _buffer(self, name: str) -> Array:
        """Return memory for messages, which is used again and again."""
        (m, k), size = self._shape, self.group.size
        memory = self._buffers.get(name)
        if memory is None or memory.shape[1] != k or len(memory) < size * m:
            memory = self._buffers[name] = self.kernels.zeros((size * m, k), self._like)
        return memory[: size * m].reshape(size, m, k)


class SharedMemory:
    """Memory that all ranks of a group have mapped.

    It has two halves, which transfers use in turns. A rank that writes to one of them has had word
    of the transfer before from all ranks. So all have read what was there.

    Parameters
    ----------
    group : ProcessGroup
    file : int
        The descriptor of the memory, which has no name, and is gone with the last rank.
    """

    def __init__(self, group: Any, file: int) -> None:
        self.group, self.file = group, file
        self._halves = np.empty((2, 0), np.uint8)
        self._turn, self._rows = 0, np.empty(0)

    def __del__(self) -> None:
        os.close(self.file)

    def room_for_each(self, shape: tuple[int, int], like: Array) -> Array:
        """See `Transfer.room_for_each`."""
        size = self.group.size
        self._rows = self._next_half((size, size, *shape), like.dtype)  # for, and from
        return self._rows[:, self.group.rank]

    def exchange(self) -> Array:
        """See `Transfer.exchange`."""
        own: Array = self._rows[self.group.rank]
        self.group.meet(own.nbytes - own[0].nbytes)
        return own

    def room(self, shape: tuple[int, int], like: Array) -> Array:
        """See `Transfer.room`."""
        self._rows = self._next_half((self.group.size, *shape), like.dtype)
        room: Array = self._rows[self.group.rank]
        return room

    def share(self) -> Array:
        """See `Transfer.share`."""
        self.group.meet(self._rows.nbytes - self._rows[0].nbytes)
        return self._rows

    def _next_half(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array in the other half, which grows on all ranks if it must."""
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        if n_bytes > self._halves.shape[1]:
            self._grow(n_bytes)
        self._turn = 1 - self._turn
        return self._halves[self._turn, :n_bytes].view(dtype).reshape(shape)

    def _grow(self, n_bytes: int) -> None:
        n_bytes += -n_bytes % mmap.PAGESIZE
        if self.group.rank == 0:
            os.posix_fallocate(self.file, 0, 2 * n_bytes)  # now, and not when a rank writes to it
        self.group.meet()
        mapped = mmap.mmap(self.file, 2 * n_bytes)
        self._halves = np.frombuffer(mapped, np.uint8).reshape(2, n_bytes)


def shared_memory(group: Any) -> SharedMemory | None:
    """Return memory that all ranks share, or None if they are not all on one machine.

    Parameters
    ----------
    group : ProcessGroup
    """
    file = os.memfd_create("somf") if group.rank == 0 and hasattr(os, "memfd_create") else None
    token = os.urandom(TOKEN_BYTES)
    if file is not None:
        os.write(file, token)
    path, token_text = group.tell([f"/proc/{os.getpid()}/fd/{file}", token.hex()])[0]
    if group.rank > 0:
        file = _opened(path, bytes.fromhex(token_text))
    if group.any(file is None):
        if file is not None:
            os.close(file)
        return None
    return SharedMemory(group, file)  # type: ignore[arg-type] # it is open


def _opened(path: str, token: bytes) -> int | None:
    """Open the memory of another process, if it is there and begins with a token."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # on another machine, or in another container
        return None
    if os.pread(file, len(token), 0) == token:
        return file
    os.close(file)
    return None


def transfer_for(group: Any, kernels: Kernels) -> Transfer:
    """Return how rows that kernels work on travel."""
    if group.shared_memory is None or kernels.IS_ASYNCHRONOUS:  # on a GPU
        return Messages(group, kernels)
    shared: Transfer = group.shared_memory
    return shared
