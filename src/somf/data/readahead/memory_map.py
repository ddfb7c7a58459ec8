"""Memory maps: recognising them, reading ahead, and giving up what has been used."""

import ctypes
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from somf.errors import DamagedFileError
from somf.typing import Array, Ints

CAN_ASK = hasattr(mmap, "MADV_WILLNEED")
"""Whether the system takes advice about maps."""

LARGEST_USE = 2**28
"""Bytes of a map that are used before its pages are given up."""


class Place(NamedTuple):
    """At which byte of a file something begins; with `inode`, the file must have this number."""

    path: str
    offset: int
    inode: int | None = None


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
        self._memmap = _memmap_behind(X)
        self.is_shared = self._memmap is not None and self._memmap.mode in {"r", "r+", "w+"}
        self.n_used = 0

    def prefetch(self, offsets: Ints, length: int) -> None:
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

    @cached_property
    def place(self) -> Place | None:
        """Where in its file the array begins, if the map can only be read."""
        memmap = self._memmap
        if memmap is None or memmap.mode != "r" or memmap.filename is None:
            return None
        inode, offset = _inode(self.address), memmap.offset + self.address - _address(memmap)
        return None if inode is None else Place(os.fspath(memmap.filename), offset, inode)

    def check_file(self) -> None:
        """Raise if the file has become too short: the program would end where it is touched."""
        if self._memmap is None or self.place is None:
            return
        with suppress(OSError):  # one that was removed is still there as long as it is mapped
            status = os.stat(self.place.path)
            is_short = status.st_size < self._memmap.offset + self._memmap.nbytes
            if is_short and status.st_ino == self.place.inode:
                raise DamagedFileError(f"{self.place.path!r} is damaged: its end has been cut off.")


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


def _memmap_behind(X: Array) -> "np.memmap[Any, Any] | None":
    """Return the array with which NumPy opened a map; its views repeat what it says of itself."""
    base: object = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base
        base = base.base
    return None


def _inode(address: int) -> int | None:
    """Return the number of the file that is mapped at an address, if the system tells."""
    with suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps:
            where, _, _, _, inode, *_ = line.split()
            start, stop = (int(end, 16) for end in where.split("-"))
            if start <= address < stop:
                return int(inode)
    return None


def _address(X: Array) -> int:
    return int(X.__array_interface__["data"][0])
