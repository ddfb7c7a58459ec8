"""One pool of threads for everything.

BLAS has threads of its own, and so has Numba. On a machine with few cores they take turns badly:
threads of one pool spin while those of the other want to work, which was seen to cost more than
the work itself. So while somf computes, BLAS is held to one thread, Numba functions are serial and
release the GIL, and a `ThreadPool` of plain threads shares out rows (of features) or samples.
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

from somf.typing import Array

T = TypeVar("T")

SMALLEST_SHARED_WORK = 2**21
"""Operations below which sharing work costs more than it saves."""

PIECES_PER_MEMBER = 6
"""How finely work is cut that goes to whoever is free."""


class ThreadPool:
    """Some threads that run the same function, each on its share of the work.

    Parameters
    ----------
    size : int
    is_shared : bool
        Whether several threads of the caller use this pool, which then must not keep anything.
    """

    def __init__(self, size: int, is_shared: bool = False) -> None:
        self.size, self.is_shared = size, is_shared
        self._scratch: dict[tuple[int, str], Array] = {}
        self._barrier = threading.Barrier(size)
        self._pool: ThreadPoolExecutor | None = None
        if size > 1:
            # Some builds of BLAS have a limit for each thread that calls them.
            self._pool = ThreadPoolExecutor(
                size - 1, "somf", initializer=lambda: _blas().limit(limits=1)
            )

    def run(self, work: Callable[[int], T]) -> list[T]:
        """Return work(0), work(1), …, computed at the same time; the first error is raised."""
        if self._pool is None:
            return [work(0)]

        def guarded(member: int) -> T:
            try:
                with _alone():  # all threads have work already
                    return work(member)
            except BaseException:
                self._barrier.abort()  # nobody shall wait for this one
                raise

        others = [self._pool.submit(guarded, member) for member in range(1, self.size)]
        results: list[T] = []
        errors: list[BaseException] = []
        answers: list[Callable[[], T]] = [partial(guarded, 0), *(other.result for other in others)]
        for answer in answers:
            try:
                results.append(answer())
            except BaseException as error:
                errors.append(error)
        if errors:
            self._barrier.reset()
            raise min(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError))
        return results

    def wait(self) -> None:
        """Wait, inside `run`, until all have come this far."""
        if self.size > 1:
            self._barrier.wait()

    def share(self, rows: tuple[slice, ...], member: int) -> list[slice]:
        """Return the part of some rows that a member is to work on, as few slices."""
        total = sum(s.stop - s.start for s in rows)
        first, last = total * member // self.size, total * (member + 1) // self.size
        mine, offset = [], 0
        for s in rows:
            start = s.start + max(first - offset, 0)
            stop = s.start + min(last - offset, s.stop - s.start)
            if start < stop:
                mine.append(slice(start, stop))
            offset += s.stop - s.start
        return mine

    def deal(self, n_rows: int, most: int | None = None) -> Iterator[slice]:
        """Return pieces of work for all members, who each take the next when they are free.

        A member whose core is needed for something else, such as reading ahead, then holds up
        nobody. Not for sums over pieces, whose rounding would depend on who took which.

        Parameters
        ----------
        n_rows : int
        most : int, optional
            Rows of a piece, at most. There are a few pieces for everybody.
        """
        n_pieces = self.size * PIECES_PER_MEMBER if self.size > 1 else 1
        size = max(1, min(-(-n_rows // n_pieces), most or n_rows))
        starts = range(0, n_rows, size)
        return iter([slice(start, min(start + size, n_rows)) for start in starts])

    def scratch(
        self, member: int, name: str, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> Array:
        """Return an array with anything in it, that of the last call where it is large enough.

        Memory that is new to the process costs more than what is computed in it.
        """
        if self.is_shared:
            return np.empty(shape, dtype=dtype)
        key = (member, name)
        size = shape[0] * shape[1]
        known = self._scratch.get(key)
        if known is None or known.dtype != dtype or known.size < size:
            known = self._scratch[key] = np.empty(size, dtype=dtype)
        return known[:size].reshape(shape)

    def close(self) -> None:
        """End the threads, and let go of scratch memory."""
        self._scratch.clear()
        if self._pool is not None:
            self._pool.shutdown()


ALONE = ThreadPool(1, is_shared=True)
_current: ContextVar[ThreadPool] = ContextVar("pool", default=ALONE)


@contextmanager
def _alone() -> Iterator[None]:
    token = _current.set(ALONE)
    try:
        yield
    finally:
        _current.reset(token)


def pool_for(work: int) -> ThreadPool:
    """Return the pool at hand, or a pool of one if there is little to do."""
    return _current.get() if work >= SMALLEST_SHARED_WORK else ALONE


@contextmanager
def threads(n_threads: int | None) -> Iterator[None]:
    """Let kernels use so many threads; None is as many as there are (Numba knows how many)."""
    from numba.core import config

    n_threads = min(n_threads or config.NUMBA_NUM_THREADS, config.NUMBA_NUM_THREADS)
    pool = ThreadPool(n_threads)
    token = _current.set(pool)
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _current.reset(token)
        pool.close()


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 (brings a BLAS of its own, which must be found too)

    return ThreadpoolController().select(user_api="blas")
