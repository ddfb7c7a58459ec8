"""A signal that arrives while Numba compiles."""

import signal
import sys
import threading


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

    sys.setprofile(interrupt)
    try:
        numba.njit(lambda x: x + 1)(1)
    finally:
        is_compiled = sys.getprofile() is None
        sys.setprofile(None)
    assert is_compiled
    threading.Event().wait(10)
    raise AssertionError("the signal was lost")
