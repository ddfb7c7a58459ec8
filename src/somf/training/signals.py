"""Ctrl-C and other signals, deferred until the state of a fit is consistent."""

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from types import FrameType
from typing import Any, Self

RETRY_SECONDS = 0.02
"""Seconds after which a signal that arrived in a callback is sent again."""

COMPILATION = "numba:compiler_lock"
"""The event of Numba that begins when it compiles a function or looks into its cache."""

CALLBACKS = {"_raw_object_cache_notify", "_raw_object_cache_getbuffer", "__del__"}
"""Functions that are called from C, where an exception is printed and lost.

LLVM calls those of llvmlite at the end of every compilation, which is when Python handles a signal
that arrived while LLVM was busy.
"""


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
    announce : callable, optional
        Called before a signal is delivered, which may end the program.

    Attributes
    ----------
    pending : list of int
        The signals that have arrived.
    """

    def __init__(
        self,
        *signals: int,
        second_is_immediate: bool = False,
        announce: Callable[[], None] | None = None,
    ) -> None:
        self.signals, self.second_is_immediate = signals, second_is_immediate
        self.announce = announce
        self.pending: list[int] = []
        self._handlers: dict[int, Any] = {}
        self.is_interruptible = self._is_immediate = False

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

    def interruptible(self) -> AbstractContextManager[None]:
        """Let a signal raise `Interrupted` inside this context; it stays pending for `deliver`."""
        return _Interruption(self)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """Deliver signals at once inside this context."""
        self._is_immediate = True
        try:
            yield
        finally:
            self._is_immediate = False

    def deliver(self) -> None:
        """Call the handlers that were there before, for all pending signals."""
        while self.pending:
            self._deliver(self.pending.pop(0), None)

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        if _is_in_callback(frame):
            _thread.start_new_thread(_send_again, (signum,))
        elif self._is_immediate:
            self._deliver(signum, frame)
        elif signum not in self.pending:
            self.pending.append(signum)
            if self.is_interruptible:
                self.is_interruptible = False  # also if the context has not quite begun
                raise Interrupted
        elif self.second_is_immediate:
            self.pending.remove(signum)
            self._deliver(signum, frame)

    def _deliver(self, signum: int, frame: FrameType | None) -> None:
        if self.announce is not None:
            self.announce()
        handler = self._handlers[signum]
        if callable(handler):
            handler(signum, frame)
        else:  # the default action would end the process without cleaning up
            raise SystemExit(128 + signum)


class _Interruption:
    """The context of `SignalGuard.interruptible`, which a fit enters for every minibatch."""

    def __init__(self, guard: SignalGuard) -> None:
        self.guard = guard

    def __enter__(self) -> None:
        self.guard.is_interruptible = True
        if self.guard.pending:
            self.guard.is_interruptible = False
            raise Interrupted

    def __exit__(self, *_: object) -> None:
        self.guard.is_interruptible = False


@contextmanager
def prompt_signals() -> Iterator[None]:
    """Let the handlers of Ctrl-C and SIGTERM take effect, also while kernels are compiled.

    Handlers are replaced only while Numba compiles, or loads machine code from its cache. Without a
    handler in Python, a signal ends the process as it always does.
    """
    from numba.core import event  # Numba is slow to import

    listener = _compilation_listener()
    with _listening_lock:
        if listener.n_contexts == 0:
            event.register(COMPILATION, listener)
        listener.n_contexts += 1
    try:
        yield
    finally:
        with _listening_lock:
            listener.n_contexts -= 1
            if listener.n_contexts == 0:
                event.unregister(COMPILATION, listener)


_listening_lock = threading.Lock()
"""Held while the listener is registered or unregistered."""


@cache
def _compilation_listener() -> Any:
    """Return the one listener that guards the compilations of the main thread."""
    from numba.core import event

    class CompilationListener(event.Listener):  # type: ignore[misc] # Numba has no types
        def __init__(self) -> None:
            self.n_contexts = self.depth = 0
            self.guard = ExitStack()

        def on_start(self, _: object) -> None:
            if threading.current_thread() is threading.main_thread():
                self.depth += 1
                if self.depth == 1:
                    self.guard.enter_context(_immediate_signals())

        def on_end(self, _: object) -> None:
            if threading.current_thread() is threading.main_thread() and self.depth > 0:
                self.depth -= 1
                if self.depth == 0:
                    self.guard.close()

    return CompilationListener()


@contextmanager
def _immediate_signals() -> Iterator[None]:
    """Call the handlers of Ctrl-C and SIGTERM where an exception that they raise is not lost."""
    handled = [
        signum for signum in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(signum))
    ]
    with SignalGuard(*handled) as guard, guard.immediate():
        yield


def _is_in_callback(frame: FrameType | None) -> bool:
    """Return whether an exception that is raised in a frame would be lost."""
    while frame is not None:
        if frame.f_code.co_name in CALLBACKS:
            return True
        frame = frame.f_back
    return False


def _send_again(signum: int) -> None:
    """Send a signal to the main thread, a moment later."""
    time.sleep(RETRY_SECONDS)
    if hasattr(signal, "pthread_kill") and os.name == "posix":
        signal.pthread_kill(threading.main_thread().ident or 0, signum)
    else:
        _thread.interrupt_main(signal.Signals(signum))
