"""Ctrl-C and other signals, deferred until the state of a fit is consistent."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class Interrupted(BaseException):
    """A signal has arrived inside `SignalGuard.interruptible`."""


class SignalGuard:
    """Defers signals while the context lasts, or until `deliver` is called.

    Only the main thread receives signals; in other threads the guard does nothing. Signals that
    are ignored stay ignored.

    Parameters
    ----------
    *signals : int
    second_is_immediate : bool
        Whether a signal that arrives again while it is deferred is delivered at once.

    Attributes
    ----------
    pending : list of int
        The signals that have arrived.
    """

    def __init__(self, *signals: int, second_is_immediate: bool = False) -> None:
        self.signals, self.second_is_immediate = signals, second_is_immediate
        self.pending: list[int] = []
        self._handlers: dict[int, Any] = {}
        self._is_interruptible = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in self.signals:
                if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                    self._handlers[signum] = signal.signal(signum, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._handlers.items():
            signal.signal(signum, handler)
        self.deliver()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal raise `Interrupted` inside this context; it stays pending for `deliver`."""
        self._is_interruptible = True
        try:
            if self.pending:
                raise Interrupted
            yield
        finally:
            self._is_interruptible = False

    def deliver(self) -> None:
        """Call the handlers that were there before, for all pending signals."""
        while self.pending:
            self._deliver(self.pending.pop(0), None)

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        if signum not in self.pending:
            self.pending.append(signum)
            if self._is_interruptible:
                raise Interrupted
        elif self.second_is_immediate:
            self.pending.remove(signum)
            self._deliver(signum, frame)

    def _deliver(self, signum: int, frame: FrameType | None) -> None:
        handler = self._handlers[signum]
        if callable(handler):
            handler(signum, frame)
        else:  # the default action would end the process without cleaning up
            raise SystemExit(128 + signum)
