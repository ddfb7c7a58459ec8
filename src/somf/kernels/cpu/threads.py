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
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from somf.typing import Array

MIN_PARALLEL_WORK = 2**20
"""Floating-point operations below which one thread is faster than several."""

CGROUP_LIMITS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
"""Files in which Linux has the CPU quota of a container (control groups, versions 2 and 1)."""


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
        return ThreadPoolExecutor(self.count - 1, "somf-read")

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
    return _current.get() if n_operations >= MIN_PARALLEL_WORK else SERIAL


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
    from numba.core import config  # Numba is slow to import

    from somf.kernels.cpu.regions import restore_num_threads

    opened = Threads(min(n_threads or available_cores(), config.NUMBA_NUM_THREADS))
    try:
        with use_threads(opened), _ONE_BLAS_THREAD:
            yield
    finally:
        restore_num_threads()
        opened.close()


def available_cores() -> int:
    """Return how many cores this process may use: its affinity, and the quota of its container."""
    has_affinity = hasattr(os, "sched_getaffinity")
    n_cores = len(os.sched_getaffinity(0)) if has_affinity else (os.cpu_count() or 1)
    quota = _cgroup_quota()
    return n_cores if quota is None else max(1, min(n_cores, math.ceil(quota)))


@cache
def _cgroup_quota() -> float | None:
    """Return the CPU quota of the control group in cores; None if there is none."""
    try:
        quota, period = Path(CGROUP_LIMITS[0]).read_text().split()
    except (OSError, ValueError):
        try:
            path = Path(CGROUP_LIMITS[1])
            quota = path.read_text().strip()
            period = path.with_name("cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else None
    except ValueError:  # "max"
        return None


class _BlasLimit:
    """Limits BLAS to one thread while any context is open, in whichever Python thread.

    Most builds of BLAS have one limit for the process. So the contexts are counted: each sets the
    limit, and the last one restores what the first one found. Builds on OpenMP have a limit for
    each thread, which every context restores for its own.
    """

    def __init__(self) -> None:
        self._lock, self._n_open = threading.Lock(), 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            libraries = _blas().lib_controllers
            if self._n_open == 0:
                self._before = [library.get_num_threads() for library in libraries]
            self._n_open += 1
            for library in libraries:
                _set_blas_threads(library, 1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_open -= 1
            for library, before in zip(_blas().lib_controllers, self._before, strict=True):
                if self._n_open == 0 or library.threading_layer == "openmp":
                    _set_blas_threads(library, before)


def _set_blas_threads(library: Any, count: int) -> None:
    # Since 3.8, threadpoolctl lets only the thread that was first change the limit of the process.
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(count)


_ONE_BLAS_THREAD = _BlasLimit()
"""The one limit of this process."""


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 (has a BLAS of its own, which must be limited, too)

    return ThreadpoolController().select(user_api="blas")
