"""The next items, made in the background while the current one is in use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import Context
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
S = TypeVar("S")

PATIENCE = 5.0
"""Seconds that a thread has to finish the item that it is at when nobody wants it any more."""

TURN = 0.5
"""Seconds after which somebody who waits for an item looks up, in case of a signal."""


@contextmanager
def read_ahead(
    make: Callable[[S], T], items: Iterable[S], n_ahead: int, n_threads: int = 1
) -> Iterator[Iterator[T]]:
    """Give an iterator over ``make(item)``, in order and up to `n_ahead` of them made in advance.

    An error comes up in the place of the item that it belongs to. However the context is left, the
    threads have ended then, except for one that is stuck in `make`: it must not keep the program
    from ending.

    Parameters
    ----------
    make : callable
        Called in the background thread, without the pool of threads, which is computing meanwhile.
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
            thread.join(PATIENCE)


def _result(future: "Future[T]") -> T:
    """Wait for a result in turns: a signal just before a wait begins is noticed only after it."""
    while not future.done():
        wait([future], TURN)
    return future.result()


def _work(make: Callable[[S], T], tasks: "SimpleQueue[tuple[Future[T], S] | None]") -> None:
    """Make one item after the other, until there is None."""
    while (task := tasks.get()) is not None:
        future, item = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(Context().run(make, item))
            except BaseException as error:
                future.set_exception(error)
        del task, future, item  # not to be kept while waiting for the next one
