"""Memory maps: recognising them, prefetching their pages, and releasing pages that were used."""

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

from somf.errors import DamagedFileError
from somf.typing import Array, Ints

CAN_PREFETCH = hasattr(mmap, "MADV_WILLNEED")
"""Whether the system can prefetch pages of a memory map."""

MAX_RESIDENT_BYTES = 2**28
"""Bytes of a memory map that are used before its pages are released."""


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
        """Let the system begin to read pages, without waiting for them.

        Parameters
        ----------
        offsets : ndarray of int
            Bytes from the beginning of the array.
        length : int
            How many bytes to read at each offset. It is not positive for a view that runs
            backwards, of which nothing is prefetched.
        """
        if length <= 0 or not CAN_PREFETCH:
            return
        madvise = _madvise()
        for address in (self.address + offsets).tolist():
            start = address - address % mmap.PAGESIZE
            madvise(start, address + length - start, mmap.MADV_WILLNEED)
        self.use(len(offsets) * length)

    def use(self, n_bytes: int) -> None:
        """Count bytes that are going to be used, and release all pages when there are many.

        Released pages stay in the page cache, and come back at little cost, but no longer count as
        memory of this process. (A private map is not released: its changes would be lost.)
        """
        self.n_used += n_bytes
        if self.n_used > MAX_RESIDENT_BYTES and self.is_shared and hasattr(mmap, "MADV_DONTNEED"):
            self.map.madvise(mmap.MADV_DONTNEED)
            self.n_used = 0

    def check_file(self) -> None:
        """Raise DamagedFileError if the file was cut short after it was mapped.

        The system would kill the process where it touches a page that is no longer in the file, and
        what is missing of the last page would be read as zeros. The map has a descriptor of its
        file, so the name of the file does not matter.
        """
        memmap = self._memmap
        end = len(self.map) if memmap is None else memmap.offset + memmap.nbytes
        try:
            size = self.map.size()
        except (OSError, ValueError):
            return  # a map without a descriptor: anonymous memory, or made with trackfd=False
        if size < end:
            name = None if memmap is None else memmap.filename
            what = "The file of a memory map" if name is None else repr(os.fspath(name))
            raise DamagedFileError(f"{what} is damaged: its end has been cut off.")

    @property
    def files(self) -> tuple[str, ...]:
        """The mapped file, if NumPy knows its name."""
        name = None if self._memmap is None else self._memmap.filename
        return () if name is None else (os.fspath(name),)


@cache
def _madvise() -> Callable[[int, int, int], int]:
    """Return the system's own madvise: `mmap.madvise` holds the GIL while it runs.

    No other thread can run Python code meanwhile, which made a fit take a fifth longer.
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
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    return base if isinstance(base, mmap.mmap) else None


def _memmap_behind(X: Array) -> "np.memmap[Any, Any] | None":
    """Return the array that owns a map; its views copy its attributes, such as `offset`."""
    base: object = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base
        base = base.base
    return None


def _address(X: Array) -> int:
    return int(X.__array_interface__["data"][0])
