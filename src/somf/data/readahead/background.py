"""The next items, made by a background thread while the current one is in use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import Context
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
"""What is made of an item."""

S = TypeVar("S")
"""An item."""

JOIN_TIMEOUT = 5.0
"""Seconds that a background thread has to finish its current item when the context is left."""

POLL_SECONDS = 0.5
"""Seconds between two checks for a signal while an item is being waited for."""


@contextmanager
def read_ahead(
    make: Callable[[S], T], items: Iterable[S], n_ahead: int, n_threads: int = 1
) -> Iterator[Iterator[T]]:
    """Give an iterator over ``make(item)``, in order, with up to `n_ahead` made in advance.

    An error in `make` is raised in the place of its item. When the context is left, the threads
    have ended, except one that is stuck in `make`. It is a daemon thread and does not keep the
    program from ending.

    Parameters
    ----------
    make : callable
        Called in a background thread, outside of the thread pool, which computes meanwhile.
    items : iterable
    n_ahead : int
    n_threads : int
        With more than one, several items are made at the same time.
    """
    waiting: deque[Future[T]] = deque()
    tasks: SimpleQueue[tuple[Future[T], S] | None] = SimpleQueue()

    def results() -> Iterator[T]:
        for item in items:
            waiting.append(Future())
            tasks.put((waiting[-1], item))
            if len(waiting) > n_ahead:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())

    threads = [
        Thread(target=_work, args=(make, tasks), name=f"somf-reader-{n}", daemon=True)
        for n in range(n_threads)
    ]
    for thread in threads:
        thread.start()
    try:
        yield results()
    finally:
        for future in waiting:
            future.cancel()
        for _ in threads:
            tasks.put(None)
        for thread in threads:
            thread.join(JOIN_TIMEOUT)


def _result(future: "Future[T]") -> T:
    """Wait for a result with a timeout, again and again.

    Python handles a signal that arrives just before a wait only when that wait ends.
    """
    while not future.done():
        wait([future], POLL_SECONDS)
    return future.result()


def _work(make: Callable[[S], T], tasks: "SimpleQueue[tuple[Future[T], S] | None]") -> None:
    """Make one item after the other, until a task is None."""
    while (task := tasks.get()) is not None:
        future, item = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(Context().run(make, item))
            except BaseException as error:
                future.set_exception(error)
        del task, future, item  # their memory is free while the thread waits for the next task
