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
from typing import Any

from numba import get_num_threads, set_num_threads
from numba.np.ufunc import parallel

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.parallel import SERIAL, launcher

logger = logging.getLogger("somf")

SPIN_SETTING = "GOMP_SPINCOUNT"
"""The environment variable that says how long idle threads of GNU OpenMP spin."""

SPIN_COUNT = "10000"
"""Some thirty microseconds, which is longer than Python takes from one region to the next."""


class _Pool:
    """What is known of Numba's thread pool in this process."""

    def __init__(self) -> None:
        # A signal handler that computes may interrupt the thread that holds the lock.
        self.lock, self.settings = threading.RLock(), threading.local()
        self.launcher, self.is_usable = SERIAL, True

    def use(self, n_threads: int) -> None:
        """Set how many threads a region of this Python thread has, unless it was the last setting.

        To set it takes longer than a small region.
        """
        settings = vars(self.settings)
        if settings.get("n_threads") != n_threads:
            settings.setdefault("before", get_num_threads())
            set_num_threads(n_threads)
            settings["n_threads"] = n_threads

    def restore(self) -> None:
        """Give Numba the number of threads back that it had before `use`."""
        settings = vars(self.settings)
        if settings:
            set_num_threads(settings["before"])
            settings.clear()

    def start(self) -> None:
        """Start Numba's threads.

        Those of GNU OpenMP spin for milliseconds when they have nothing to do. That burns the time
        slice of a core that other processes want as well: on two busy cores a region was seen to
        take 16 ms instead of 0.3. A shorter spin covers the gap between two regions as well. OpenMP
        reads its setting when it is loaded; one that the user has made stays.
        """
        is_set = SPIN_SETTING in os.environ or "OMP_WAIT_POLICY" in os.environ
        if not is_set:
            os.environ[SPIN_SETTING] = SPIN_COUNT
        try:
            self.launcher = launcher()
        except ValueError:  # Numba finds no threading layer
            self.is_usable = False
            logger.info("Numba has no threading layer here, so that kernels run on one thread")
        finally:
            if not is_set:
                del os.environ[SPIN_SETTING]

    def forked(self) -> None:
        """Note, in the child, that a fork has happened; another thread may have held the lock."""
        self.lock = threading.RLock()
        # Other code may have used the pool, too.
        self.is_usable = self.is_usable and not parallel._is_initialized


_pool = _Pool()
"""The one thread pool of this process."""

restore_num_threads = _pool.restore
"""Called when a context of threads ends."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forked)


def region(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that runs loops by `in_parallel`.

    Parameters
    ----------
    function : callable
        Takes a launcher, and then its arguments, into which it writes its results. It may return
        a number.

    Returns
    -------
    run : callable
        Takes the number of threads instead of the launcher.
    """
    compiled = jit(function)

    def run(n_threads: int, *arguments: Any) -> Any:
        if n_threads > 1 and _pool.is_usable:
            with _pool.lock:
                if _pool.launcher == SERIAL:
                    _pool.start()
                if _pool.is_usable:
                    _pool.use(n_threads)
                    return compiled(_pool.launcher, *arguments)
        return compiled(SERIAL, *arguments)

    return run
