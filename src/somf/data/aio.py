"""Reads that Linux does by itself while others compute: its asynchronous I/O."""

import ctypes
import os
import platform
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import cast

import numpy as np

from somf.typing import Ints

CALLS = {
    "x86_64": {"io_setup": 206, "io_destroy": 207, "io_getevents": 208, "io_submit": 209},
    "aarch64": {"io_setup": 0, "io_destroy": 1, "io_submit": 2, "io_getevents": 4},
}
"""Numbers of the calls, for which the C library has no functions."""

REQUEST = np.dtype(
    [
        ("tag", "u8"),
        ("key", "u4"),
        ("flags", "u4"),
        ("operation", "u2"),  # 0 is to read
        ("priority", "i2"),
        ("file", "u4"),
        ("address", "u8"),
        ("length", "u8"),
        ("offset", "i8"),
        ("reserved", "u8"),
        ("more_flags", "u4"),
        ("eventfd", "u4"),
    ]
)
"""`struct iocb` of linux/aio_abi.h."""

EVENT = np.dtype([("tag", "u8"), ("request", "u8"), ("result", "i8"), ("result2", "i8")])
"""`struct io_event`."""

IS_AVAILABLE = (
    sys.platform == "linux"
    and platform.machine() in CALLS
    and ctypes.sizeof(ctypes.c_void_p) == 8
    and sys.byteorder == "little"
)
"""Whether there can be such reads; the system may still refuse them."""


class Reads:
    """Reads from files into memory, begun now and finished some time later.

    Parameters
    ----------
    most : int
        How many are on their way at a time.

    Raises
    ------
    OSError
        If the system does not allow it.
    """

    def __init__(self, most: int) -> None:
        context = ctypes.c_ulong(0)
        _call("io_setup", most, ctypes.addressof(context))
        self._context = context.value
        self._events = np.empty(most, dtype=EVENT)
        self.end = weakref.finalize(self, _end, self._context)
        """Waits for what is still on its way; after that nothing can begin any more."""

    def begin(self, tags: Ints, files: Ints, offsets: Ints, addresses: Ints, lengths: Ints) -> int:
        """Begin to read, without waiting; return how many of the reads have begun.

        Parameters
        ----------
        tags : ndarray of shape (m,)
            What to call the reads.
        files : ndarray of shape (m,)
            Descriptors, which may be closed at once.
        offsets, addresses, lengths : ndarray of shape (m,)
            Where to read from, where to write to, and how many bytes.
        """
        requests = np.zeros(len(tags), dtype=REQUEST)
        requests["tag"], requests["file"], requests["offset"] = tags, files, offsets
        requests["address"], requests["length"] = addresses, lengths
        pointers = requests.ctypes.data + REQUEST.itemsize * np.arange(len(tags))
        n_begun = 0
        with suppress(OSError):  # which is about the first that has not begun
            while n_begun < len(tags):
                at = pointers.ctypes.data + pointers.itemsize * n_begun
                n_begun += _call("io_submit", self._context, len(tags) - n_begun, at)
        return n_begun

    def finished(self, seconds: float) -> tuple[Ints, Ints]:
        """Wait until some reads are finished, or for so long; return which, and what came of them.

        Parameters
        ----------
        seconds : float

        Returns
        -------
        tags : ndarray of int
        results : ndarray of int
            Bytes that were read, or a negative number for an error.
        """
        timeout = np.array([int(seconds), int(seconds % 1 * 1e9)], dtype=np.int64)
        most, events = len(self._events), self._events.ctypes.data
        try:
            n = _call("io_getevents", self._context, 1, most, events, timeout.ctypes.data)
        except InterruptedError:
            n = 0
        return self._events["tag"][:n].astype(np.int64), self._events["result"][:n].copy()


def _end(context: int) -> None:
    """Wait for what is still on its way; this takes a while even if there is nothing."""
    with suppress(OSError):  # the process may be a fork of the one that began
        _call("io_destroy", context)


def _call(name: str, *arguments: int) -> int:
    """Call the system, without the interpreter; raise OSError for what it does not do."""
    filled = (*arguments, *[0] * (5 - len(arguments)))
    result = _system()(CALLS[platform.machine()][name], *filled)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


@cache
def _system() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.argtypes, function.restype = (ctypes.c_long,) * 6, ctypes.c_long
    return cast(Callable[..., int], function)
