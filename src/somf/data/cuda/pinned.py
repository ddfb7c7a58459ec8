"""Rows in pinned memory of the host, which the device can read."""

import os
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from somf.kernels.cuda import device as cuda
from somf.typing import Array, Ints

PIECE_BYTES = 2**25
"""Bytes of a piece of pinned memory by which a reading thread sends rows."""

N_PIECES = 3
"""Pieces of pinned memory of a reading thread: while one is sent, others are filled."""

COPYING_THREADS = 8
"""Threads that copy rows into a piece of pinned memory."""

WORTH_PINNING = 2**26
"""Bytes from which on pinning an array costs less than it saves."""

LARGEST_PINNED_SHARE = 0.75
"""Largest part of the machine's memory that is pinned for an array."""


class PinnedArray:
    """An array in the memory of the host that the device reads itself.

    Pinning costs about as much as sending the array once. After that the host copies nothing.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Its rows are contiguous.
    is_ours : bool
        Whether somf has pinned its memory, and unpins it with the last reference to this object.

    Attributes
    ----------
    tensor : tensor of shape (n, p)
        The array, see `tensor_of`.
    """

    def __init__(self, X: Array, is_ours: bool) -> None:
        self.X, self.tensor = X, tensor_of(X)
        self.begin, self.end = X.ctypes.data, X.ctypes.data + X.nbytes
        self.memory_of: PinnedArray | None = None
        if is_ours:
            _ours.add(self)
            weakref.finalize(self, _unregister, self.begin)


_ours: "weakref.WeakSet[PinnedArray]" = weakref.WeakSet()
"""Arrays that somf has pinned."""


def pinned(X: Array) -> PinnedArray | None:
    """Pin an array for the device to read; return None if that is impossible or not worth it."""
    if cuda.DEVICE.type != "cuda" or not X.flags.c_contiguous or not can_be_sent(X.dtype):
        return None
    begin, end = X.ctypes.data, X.ctypes.data + X.nbytes
    for other in list(_ours):
        if other.begin < end and begin < other.end:
            if not other.begin <= begin <= end <= other.end:
                return None
            view = PinnedArray(X, is_ours=False)
            view.memory_of = other  # keeps it pinned as long as there is the view
            return view
    if tensor_of(X).is_pinned():
        return PinnedArray(X, is_ours=False)
    largest = LARGEST_PINNED_SHARE * _machine_memory()
    if not WORTH_PINNING <= X.nbytes <= largest or not _register(begin, X.nbytes):
        return None
    return PinnedArray(X, is_ours=True)


def _register(address: int, size: int) -> bool:
    """Pin memory and return whether that worked."""
    if int(torch.cuda.cudart().cudaHostRegister(address, size, 0)) == 0:
        return True
    with suppress(RuntimeError):
        torch.zeros(1, device=cuda.DEVICE)  # CUDA reports its last error once more, and forgets it
    return False


def _unregister(address: int) -> None:
    torch.cuda.synchronize()  # the device may still be reading it
    torch.cuda.cudart().cudaHostUnregister(address)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Staging:
    """Pinned memory by which a thread sends rows to the device, a piece at a time.

    Pieces that fit into the cache of the CPU were measured to be nearly twice as fast as whole
    minibatches. Small pieces are much slower, since each costs the host some work.
    """

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.sent: list[Any] = []
        self.copiers = ThreadPoolExecutor(COPYING_THREADS, "somf-copy")

    def send(self, X: Array, positions: Ints) -> Any:
        """Return rows of an array on the device; the current CUDA stream still copies them.

        Parameters
        ----------
        X : ndarray of shape (n, p)
        positions : ndarray of shape (b,)

        Returns
        -------
        rows : tensor of shape (b, p)
            Of the type of `tensor_of` X.
        """
        shape, row_bytes = (len(positions), X.shape[1]), X.shape[1] * X.itemsize
        rows = torch.empty(shape, dtype=tensor_of(X[:0]).dtype, device=cuda.DEVICE)
        self._reserve(max(PIECE_BYTES, row_bytes))
        per_piece = len(self.pieces[0]) // row_bytes
        for number, start in enumerate(range(0, len(positions), per_piece)):
            part, turn = slice(start, start + per_piece), number % N_PIECES
            if self.sent:
                self.sent[turn].synchronize()
            ids = positions[part]
            piece = self.pieces[turn][: len(ids) * row_bytes].numpy().view(X.dtype)
            copy = piece.reshape(len(ids), X.shape[1])
            self._copy(X, ids, copy)
            rows[part].copy_(tensor_of(copy), non_blocking=True)
            if self.sent:
                self.sent[turn].record()
        return rows

    def _reserve(self, size: int) -> None:
        if self.pieces and len(self.pieces[0]) >= size:
            return
        on_gpu = cuda.DEVICE.type == "cuda"
        self.pieces = [
            torch.empty(size, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(N_PIECES)
        ]
        self.sent = [torch.cuda.Event() for _ in self.pieces] if on_gpu else []

    def _copy(self, X: Array, ids: Ints, rows: Array) -> None:
        """Copy rows with several threads: one alone does not reach the bandwidth of the memory."""

        def copy(part: Ints) -> None:
            if part.size:
                out = rows[part[0] : part[-1] + 1]
                np.take(X, ids[part], axis=0, out=out, mode="clip")  # "raise" would copy twice

        list(self.copiers.map(copy, np.array_split(np.arange(len(ids)), COPYING_THREADS)))


def can_be_sent(dtype: np.dtype[Any]) -> bool:
    """Return whether rows of a type can go to the device as they are, see `tensor_of`."""
    return dtype == np.uint16 or (dtype.isnative and dtype.kind in "fi" and dtype.itemsize <= 8)


def tensor_of(X: Array) -> Any:
    """Return an array as a tensor without a copy, also if it is read-only; uint16 as int16."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns of read-only arrays
        # torch has few operations for uint16
        return torch.from_numpy(X.view(np.int16) if X.dtype == np.uint16 else X)
