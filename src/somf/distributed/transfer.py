"""How rows travel between ranks: in copies of their own, or where all ranks can read them."""

from typing import Any, Protocol

import numpy as np

from somf.kernels import Kernels
from somf.typing import Array


class Transfer(Protocol):
    """Gives room for rows, and then those of other ranks, which last until the next transfer."""

    def room_for_each(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return room for rows for each rank, as (size, *shape), of the type of an array."""
        ...

    def exchange(self) -> Array:
        """Give each rank its rows; return those that each rank has for this one."""
        ...

    def share(self, rows: Array) -> Array:
        """Give all ranks the same rows; return those of each rank, as (size, *shape)."""
        ...


class ByGroup:
    """Sends copies of rows, on any device, between any machines.

    Parameters
    ----------
    group : ProcessGroup
    kernels : Kernels
    """

    def __init__(self, group: Any, kernels: Kernels) -> None:
        self.group, self.kernels = group, kernels
        self._buffers: dict[str, Array] = {}
        self._shape: tuple[int, ...] = (0, 0)
        self._like = np.empty((0, 0))

    def room_for_each(self, shape: tuple[int, ...], like: Array) -> Array:
        """See `Transfer.room_for_each`."""
        self._shape, self._like = shape, like
        return self._buffer("send")

    def exchange(self) -> Array:
        """See `Transfer.exchange`."""
        received: Array = self.group.carry(self._buffer("send"), self._buffer("received"))
        return received

    def share(self, rows: Array) -> Array:
        """See `Transfer.share`."""
        self.room_for_each(tuple(rows.shape), rows)[:] = rows
        return self.exchange()

    def _buffer(self, name: str) -> Array:
        """Return memory for messages, which is used again and again."""
        (m, k), size = self._shape, self.group.size
        memory = self._buffers.get(name)
        if memory is None or memory.shape[1] != k or len(memory) < size * m:
            memory = self._buffers[name] = self.kernels.zeros((size * m, k), self._like)
        return memory[: size * m].reshape(size, m, k)


def transfer_for(group: Any, kernels: Kernels) -> Transfer:
    """Return how rows that kernels work on travel."""
    is_on_gpu = kernels.IS_ASYNCHRONOUS
    if group.shared_memory is None or is_on_gpu:
        return ByGroup(group, kernels)
    shared: Transfer = group.shared_memory
    return shared
