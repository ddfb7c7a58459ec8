"""A signal that arrives while Numba compiles."""

import signal
import socket
import sys


def compile_and_interrupt(signum=signal.SIGINT):
    """Let Numba compile a function; a signal arrives in a callback of LLVM, where errors are lost.

    Parameters
    ----------
    signum : int
    """
    import numba

    def interrupt(frame, event, _):
        if event == "call" and frame.f_code.co_name == "_raw_object_cache_notify":
            sys.setprofile(None)
            signal.raise_signal(signum)

    arrived, arrives = socket.socketpair()
    arrives.setblocking(False)
    arrived.settimeout(10)
    before = signal.set_wakeup_fd(arrives.fileno())
    try:
        sys.setprofile(interrupt)
        try:
            numba.njit(lambda x: x + 1)(1)
        finally:
            is_compiled = sys.getprofile() is None
            sys.setprofile(None)
        assert is_compiled
        for _ in range(2):  # in the callback, and again after it, where it takes effect
            arrived.recv(1)
        raise AssertionError("the signal was lost or deferred")
    finally:
        signal.set_wakeup_fd(before)
        arrived.close()
        arrives.close()
