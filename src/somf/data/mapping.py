"""Memory maps: recognising them, reading ahead, and giving up what has been used."""

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np

from somf.typing import Array, Ints

CAN_ASK = hasattr(mmap, "MADV_WILLNEED")
"""Whether the system takes advice about maps."""

LARGEST_USE = 2**28
"""Bytes of a map that are used before its pages are given up."""


class Mapping:
    """The memory map behind an array.

    Parameters
    ----------
    X : ndarray
        A memory map, or a view of one.
    """

    def __init__(self, X: Array) -> None:
        found = _map_behind(X)
        assert found is not None
        self.map = found
        self.address = _address(X)
        self.is_shared = _mode(X) in {"r", "r+", "w+"}
        self.n_used = 0

    def will_need(self, offsets: Ints, length: int) -> None:
        """Let the system begin to read, without waiting for it.

        Parameters
        ----------
        offsets : ndarray of int
            Bytes from the beginning of the array.
        length : int
            How many bytes there are to read at each; views that run backwards have none.
        """
        if length <= 0 or not CAN_ASK:
            return
        madvise = _madvise()
        for address in (self.address + offsets).tolist():
            start = address - address % mmap.PAGESIZE
            madvise(start, address + length - start, mmap.MADV_WILLNEED)
        self.use(len(offsets) * length)

    def use(self, n_bytes: int) -> None:
        """Take note that some of the map is going to be used; now and then, give up all of it.

        The pages stay in the system's cache, and come back at little cost, but no longer count as
        memory of this process. (From a private map, changes would be lost.)
        """
        self.n_used += n_bytes
        if self.n_used > LARGEST_USE and self.is_shared and hasattr(mmap, "MADV_DONTNEED"):
            self.map.madvise(mmap.MADV_DONTNEED)
            self.n_used = 0


@cache
def _madvise() -> Callable[[int, int, int], int]:
    """Return the system's own function: that of the map keeps the interpreter while it works.

    Nobody else can compute meanwhile, which made a fit take a fifth longer.
    """
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):  # an interpreter that is linked statically
        return lambda *_: -1
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return cast(Callable[[int, int, int], int], function)


def is_mapped(X: Array) -> bool:
    """Return whether an array, or the one of which it is a view, is a memory map."""
    return _map_behind(X) is not None


def _map_behind(X: Array) -> mmap.mmap | None:
    base: object = X
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _mode(X: Array) -> str | None:
    """Return how the map behind an array was opened, as far as NumPy knows."""
    base: object = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return str(base.mode)
        base = base.base
    return None


def _address(X: Array) -> int:
    return int(X.__array_interface__["data"][0])
