"""The next items, made in the background while the current one is in use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from typing import TypeVar

T = TypeVar("T")
S = TypeVar("S")


@contextmanager
def read_ahead(
    make: Callable[[S], T], items: Iterable[S], n_ahead: int, n_threads: int = 1
) -> Iterator[Iterator[T]]:
    """Give an iterator over ``make(item)``, in order and up to `n_ahead` of them made in advance.

    An error comes up in the place of the item that it belongs to. However the context is left, the
    threads have ended then.

    Parameters
    ----------
    make : callable
        Called in the background thread, without the team of threads, which is computing meanwhile.
    items : iterable
    n_ahead : int
    n_threads : int
        With more than one, several items are made at the same time.
    """
    waiting: deque[Future[T]] = deque()

    def results() -> Iterator[T]:
        for item in items:
            waiting.append(reader.submit(Context().run, make, item))
            if len(waiting) > n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    with ThreadPoolExecutor(n_threads, "somf-reader") as reader:
        try:
            yield results()
        finally:
            reader.shutdown(wait=False, cancel_futures=True)
