"""The thread pool that all CPU kernels use.

BLAS has a thread pool, and so has Numba. On few cores they disturb each other: idle threads of one
pool spin while threads of the other pool have work. This was seen to cost more than the work
itself. Inside `threads`, BLAS is therefore limited to one thread, Numba functions are serial and
release the GIL, and one `ThreadPool` of Python threads divides the rows of a matrix, which are
features or samples.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from somf.typing import Array, Slices

T = TypeVar("T")
"""The result of one worker."""

MIN_PARALLEL_WORK = 2**21
"""Floating-point operations below which one thread is faster than several."""

CHUNKS_PER_WORKER = 6
"""Chunks per worker where workers take chunks dynamically."""


class ThreadPool:
    """A fixed number of workers that run the same function, each on its own rows.

    Worker 0 is the thread that calls `run`.

    Parameters
    ----------
    size : int
        The number of workers.
    keeps_buffers : bool
        Whether `buffer` reuses memory. Must be False if several threads call `run`.
    """

    def __init__(self, size: int, keeps_buffers: bool = True) -> None:
        self.size, self.keeps_buffers = size, keeps_buffers
        self._buffers: dict[tuple[int, str], Array] = {}
        self._barrier = threading.Barrier(size)
        self._executor: ThreadPoolExecutor | None = None
        if size > 1:
            # Some builds of BLAS have one limit per calling thread.
            self._executor = ThreadPoolExecutor(
                size - 1, "somf", initializer=lambda: _blas().limit(limits=1)
            )

    def run(self, work: Callable[[int], T]) -> list[T]:
        """Return [work(0), work(1), …], computed in parallel.

        If workers fail, the first error is raised after all of them have ended.

        Parameters
        ----------
        work : callable
            Takes the number of a worker.
        """
        if self._executor is None:
            return [work(0)]

        def guarded(worker: int) -> T:
            try:
                with use_pool(SERIAL_POOL):  # all workers are busy already
                    return work(worker)
            except BaseException:
                self._barrier.abort()  # wakes the workers that wait for this one
                raise

        futures = [self._executor.submit(guarded, worker) for worker in range(1, self.size)]
        results: list[T] = []
        errors: list[BaseException] = []
        pending: list[Callable[[], T]] = [partial(guarded, 0), *(f.result for f in futures)]
        for result in pending:
            try:
                results.append(result())
            except BaseException as error:
                errors.append(error)
        if errors:
            self._barrier.reset()
            # A broken barrier is the consequence of another worker's error.
            raise min(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError))
        return results

    def barrier(self) -> None:
        """Wait, inside `run`, until every worker has reached this call."""
        if self.size > 1:
            self._barrier.wait()

    def static_chunks(self, rows: Slices, worker: int) -> list[slice]:
        """Return the rows of one worker.

        Each worker always gets the same rows, so sums over rows are reproducible.

        Parameters
        ----------
        rows : tuple of slices
            The rows of all workers.
        worker : int
        """
        total = sum(s.stop - s.start for s in rows)
        first, last = total * worker // self.size, total * (worker + 1) // self.size
        chunks, offset = [], 0
        for s in rows:
            start = s.start + max(first - offset, 0)
            stop = s.start + min(last - offset, s.stop - s.start)
            if start < stop:
                chunks.append(slice(start, stop))
            offset += s.stop - s.start
        return chunks

    def dynamic_chunks(self, n_rows: int, max_rows: int | None = None) -> Iterator[slice]:
        """Return an iterator over chunks of rows; a worker takes the next chunk when it is free.

        A worker whose core is needed elsewhere, for example by a reader thread, does not delay the
        others. Do not use this for sums over chunks: their rounding would depend on timing.

        Parameters
        ----------
        n_rows : int
        max_rows : int, optional
            Upper limit on the rows of a chunk.
        """
        n_chunks = self.size * CHUNKS_PER_WORKER if self.size > 1 else 1
        size = max(1, min(-(-n_rows // n_chunks), max_rows or n_rows))
        starts = range(0, n_rows, size)
        return iter([slice(start, min(start + size, n_rows)) for start in starts])

    def buffer(self, worker: int, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return an uninitialised array that stays valid until the same buffer is requested again.

        The memory is reused: to touch new pages costs more than to compute what goes into them.

        Parameters
        ----------
        worker : int
        name : str
            Distinguishes the buffers of a worker.
        shape : tuple of (int, int)
        dtype : numpy.dtype
        """
        if not self.keeps_buffers:
            return np.empty(shape, dtype=dtype)
        key = (worker, name)
        size = shape[0] * shape[1]
        memory = self._buffers.get(key)
        if memory is None or memory.dtype != dtype or memory.size < size:
            memory = self._buffers[key] = np.empty(size, dtype=dtype)
        return memory[:size].reshape(shape)

    def close(self) -> None:
        """End the threads and free the buffers."""
        self._buffers.clear()
        if self._executor is not None:
            self._executor.shutdown()


SERIAL_POOL = ThreadPool(1, keeps_buffers=False)
"""The pool of one worker, which any number of threads may use at the same time."""

_current_pool: ContextVar[ThreadPool] = ContextVar("pool", default=SERIAL_POOL)
"""The pool that `threads` has opened in this context."""


@contextmanager
def use_pool(pool: ThreadPool) -> Iterator[None]:
    """Make a pool the current one inside this context."""
    token = _current_pool.set(pool)
    try:
        yield
    finally:
        _current_pool.reset(token)


def pool_for(n_operations: int) -> ThreadPool:
    """Return the current thread pool, or the serial pool if there is little to compute."""
    return _current_pool.get() if n_operations >= MIN_PARALLEL_WORK else SERIAL_POOL


@contextmanager
def threads(n_threads: int | None) -> Iterator[None]:
    """Open a thread pool for the kernels that are called inside this context.

    Parameters
    ----------
    n_threads : int or None
        At most the number of cores that Numba detects; None means all of them.
    """
    from numba.core import config

    n_threads = min(n_threads or config.NUMBA_NUM_THREADS, config.NUMBA_NUM_THREADS)
    pool = ThreadPool(n_threads)
    try:
        with use_pool(pool), _ONE_BLAS_THREAD:
            yield
    finally:
        pool.close()


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
    import scipy.linalg  # noqa: F401 (SciPy may load a second BLAS, which must be limited too)

    return ThreadpoolController().select(user_api="blas")
