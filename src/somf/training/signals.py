"""Ctrl-C and other signals, kept waiting until it is a good moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class Interrupted(BaseException):
    """A signal has come at a moment when it was welcome."""


class SignalGuard:
    """Keeps signals waiting for as long as the context lasts, or until `deliver` is called.

    Only the main thread gets signals; elsewhere nothing happens, and neither does with signals
    that are ignored.

    Parameters
    ----------
    *signals : int
    impatient : bool
        Whether a signal that comes again while it waits is delivered at once, whatever is going on.

    Attributes
    ----------
    waiting : list of int
        The signals that have come.
    """

    def __init__(self, *signals: int, impatient: bool = False) -> None:
        self.signals, self.impatient = signals, impatient
        self.waiting: list[int] = []
        self._handlers: dict[int, Any] = {}
        self._are_welcome = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in self.signals:
                if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                    self._handlers[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._handlers.items():
            signal.signal(signum, handler)
        self.deliver()

    @contextmanager
    def welcome(self) -> Iterator[None]:
        """Let a signal break off what is going on, by `Interrupted`; it waits on for `deliver`."""
        self._are_welcome = True
        try:
            if self.waiting:
                raise Interrupted
            yield
        finally:
            self._are_welcome = False

    def deliver(self) -> None:
        """Do what the signals that have come would have done."""
        while self.waiting:
            self._deliver(self.waiting.pop(0), None)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if signum not in self.waiting:
            self.waiting.append(signum)
            if self._are_welcome:
                raise Interrupted
        elif self.impatient:
            self.waiting.remove(signum)
            self._deliver(signum, frame)

    def _deliver(self, signum: int, frame: FrameType | None) -> None:
        handler = self._handlers[signum]
        if callable(handler):
            handler(signum, frame)
        else:  # the system would end the process, without a chance to tidy up
            raise SystemExit(128 + signum)
