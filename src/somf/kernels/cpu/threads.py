"""How many threads kernels use, and the memory that they use again and again.

BLAS has a thread pool, Numba has another, and on few cores they disturb each other: idle threads of
one pool spin while those of the other have work. Inside `threads`, BLAS is limited to one thread.
Numba's pool runs the parallel regions of the kernels (see `region`), which call BLAS from inside.
"""

import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from somf.kernels.cpu.cores import available_cores
from somf.typing import Array

MIN_WORK_PER_THREAD = 2**16
"""Floating-point operations of each of several threads below which one alone is faster."""


class Threads:
    """The threads of a fit.

    Parameters
    ----------
    count : int
    keeps_buffers : bool
        Whether `buffer` reuses memory. Must be False if several Python threads use this object.
    """

    def __init__(self, count: int, keeps_buffers: bool = True) -> None:
        self.count, self.keeps_buffers = count, keeps_buffers
        self._buffers: dict[str, Array] = {}

    def buffer(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an uninitialised array that stays valid until the same buffer is requested again.

        The memory is reused: to touch new pages costs more than to compute what goes into them.

        Parameters
        ----------
        name : str
        shape : tuple of int
        dtype : numpy.dtype
        """
        if not self.keeps_buffers:
            return np.empty(shape, dtype=dtype)
        size = math.prod(shape)
        memory = self._buffers.get(name)
        if memory is None or memory.dtype != dtype or memory.size < size:
            memory = self._buffers[name] = np.empty(size, dtype=dtype)
        return memory[:size].reshape(shape)

    @cached_property
    def readers(self) -> ThreadPoolExecutor:
        """Python threads for sources that are read by calls of Python."""
        return ThreadPoolExecutor(self.count, "somf-read")

    def close(self) -> None:
        """End the reader threads and free the buffers."""
        self._buffers.clear()
        if "readers" in vars(self):
            self.readers.shutdown()


SERIAL = Threads(1, keeps_buffers=False)
"""One thread, the one that calls; any number of Python threads may use it at the same time."""

_current: ContextVar[Threads] = ContextVar("threads", default=SERIAL)
"""The threads that `threads` has opened in this context."""


def threads_for(n_operations: float) -> Threads:
    """Return the threads of this context, or a single one if there is little to compute."""
    threads = _current.get()
    return threads if n_operations >= MIN_WORK_PER_THREAD * threads.count else SERIAL


def current_threads() -> Threads:
    """Return the threads of this context."""
    return _current.get()


@contextmanager
def use_threads(opened: Threads) -> Iterator[None]:
    """Make threads those of this context."""
    token = _current.set(opened)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def threads(n_threads: int | None) -> Iterator[None]:
    """Let the kernels that are called inside this context use some threads.

    Parameters
    ----------
    n_threads : int or None
        At most as many as Numba's pool has; None means `available_cores`.
    """
    from somf.kernels.cpu.regions import restore_num_threads  # Numba is slow to import

    opened = Threads(thread_count(n_threads))
    try:
        with use_threads(opened), _ONE_BLAS_THREAD:
            yield
    finally:
        restore_num_threads()
        opened.close()


def thread_count(n_threads: int | None) -> int:
    """Return how many threads a fit has for a given `n_threads`."""
    from numba.core import config  # Numba is slow to import

    return min(n_threads or available_cores(), int(config.NUMBA_NUM_THREADS))


class _BlasLimit:
    """Limits BLAS to one thread while any context is open, in whichever Python thread.

    Most builds of BLAS have one limit for the process. So the contexts are counted: each sets the
    limit, and the last one restores what the first one found. Builds on OpenMP have a limit for
    each thread, which every context restores for its own.
    """

    def __init__(self) -> None:
        # A signal handler that computes may interrupt the thread that holds the lock.
        self._lock, self._n_open = threading.RLock(), 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            libraries = _blas().lib_controllers
            if self._n_open == 0:
                self._before = [library.get_num_threads() for library in libraries]
            self._n_open += 1
            try:
                for library in libraries:
                    _set_blas_threads(library, 1)
            except BaseException:  # Ctrl-C, too
                self._leave()
                raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        self._n_open -= 1
        for library, before in zip(_blas().lib_controllers, self._before, strict=True):
            if self._n_open == 0 or library.threading_layer == "openmp":
                _set_blas_threads(library, before)

    def forked(self) -> None:
        """Forget, in the child, the contexts of threads that exist in the parent only."""
        self._lock = threading.RLock()
        if self._n_open > 0:
            self._n_open = 1
            self._leave()


def _set_blas_threads(library: Any, count: int) -> None:
    # Since 3.8, threadpoolctl lets only the thread that was first change the limit of the process.
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(count)


_ONE_BLAS_THREAD = _BlasLimit()
"""The one limit of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ONE_BLAS_THREAD.forked)


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 (has a BLAS of its own, which must be limited, too)

    return ThreadpoolController().select(user_api="blas")
