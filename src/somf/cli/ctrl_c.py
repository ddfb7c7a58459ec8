"""Ctrl-C as the command handles it: remembered, since it may come out as another error.

A library that is written in C turns KeyboardInterrupt into ImportError if it is raised while the
library is imported.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_presses: list[int] = []


def interrupt(*_: Any) -> None:
    """Raise KeyboardInterrupt, and remember it; a handler of signals."""
    _presses.append(signal.SIGINT)
    raise KeyboardInterrupt


def was_pressed() -> bool:
    """Return whether Ctrl-C was pressed since it got its handler."""
    return bool(_presses)


@contextmanager
def handler_of_ctrl_c(handler: Any) -> Iterator[None]:
    """Replace Python's own handler of Ctrl-C, and no other, while the context lasts.

    Parameters
    ----------
    handler : callable
    """
    _presses.clear()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    with handler_of(signal.SIGINT, handler):
        yield


@contextmanager
def handler_of(signum: int, handler: Any) -> Iterator[None]:
    """Replace the handler of a signal while the context lasts.

    Parameters
    ----------
    signum : int
    handler : callable
    """
    try:
        before = signal.signal(signum, handler)
    except ValueError:  # only the main thread may set a handler
        yield
        return
    try:
        yield
    finally:
        signal.signal(signum, before)
