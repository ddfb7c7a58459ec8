"""Memory maps: recognising them, and asking the system to read ahead."""

import mmap

import numpy as np

from somf.typing import Array, Ints


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
        self.offset = _address(X) - _address(np.frombuffer(found, dtype=np.uint8))

    def will_need(self, offsets: Ints, length: int) -> None:
        """Let the system begin to read, without waiting for it.

        Parameters
        ----------
        offsets : ndarray of int
            Bytes from the beginning of the array.
        length : int
            How many bytes there are to read at each; views that run backwards have none.
        """
        if length <= 0 or not hasattr(self.map, "madvise"):
            return
        for offset in (self.offset + offsets).tolist():
            start = offset - offset % mmap.PAGESIZE
            self.map.madvise(mmap.MADV_WILLNEED, start, offset + length - start)


def is_mapped(X: Array) -> bool:
    """Return whether an array, or the one of which it is a view, is a memory map."""
    return _map_behind(X) is not None


def _map_behind(X: Array) -> mmap.mmap | None:
    base: object = X
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _address(X: Array) -> int:
    return int(X.__array_interface__["data"][0])
