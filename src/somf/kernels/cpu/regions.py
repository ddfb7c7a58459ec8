"""Parallel regions: compiled loops whose iterations Numba's threads share.

Numba's thread pool belongs to the process. What follows from that is settled here:

- Several Python threads may compute at the same time, but regions take turns: some of Numba's
  threading layers allow one at a time only, and two at once would fight for the cores anyway.
- After a fork, OpenMP cannot be used in the child. Regions that ran in parallel before the fork run
  on one thread in the child.
- Where Numba finds no threading layer at all, regions run on one thread.
"""

import logging
import os
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import get_num_threads, set_num_threads

from somf.kernels.cpu.jit import jit

logger = logging.getLogger("somf")


class _Pool:
    """What is known of Numba's thread pool in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.was_used, self.is_usable = False, True

    def forked(self) -> None:
        """Note, in the child, that a fork has happened; another thread may have held the lock."""
        self.lock = threading.Lock()
        self.is_usable = self.is_usable and not self.was_used


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forked)


def region(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a function whose loops over `prange` are shared by threads.

    Parameters
    ----------
    function : callable
        Writes its results into its arguments.

    Returns
    -------
    launch : callable
        Takes the number of threads, and then the arguments. On one thread nothing is launched.
    """
    serial = jit(function)
    parallel = jit(_twin(function), parallel=True)

    def launch(n_threads: int, *arguments: Any) -> None:
        if n_threads == 1 or not _pool.is_usable:
            serial(*arguments)
            return
        with _pool.lock:
            before = get_num_threads()
            set_num_threads(n_threads)
            try:
                _pool.was_used = True
                parallel(*arguments)
            finally:
                set_num_threads(before)

    return launch


def _twin(function: Any) -> FunctionType:
    """Return the same function by another name: Numba's cache goes by the name."""
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__qualname__ = f"{function.__qualname__}_parallel"
    return twin
