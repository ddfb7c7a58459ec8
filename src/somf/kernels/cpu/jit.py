"""The Numba compiler settings of all kernels, and a timer for compilation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from numba import njit
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., object])
"""The function to compile."""


def jit(function: Function) -> Function:
    """Compile a serial function that releases the GIL and may reorder floating-point sums."""
    compiled: Function = njit(
        cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}
    )(function)
    return compiled


@contextmanager
def compilation_timer() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds Numba has spent compiling inside this context."""
    with event.install_recorder("numba:compile") as recorder:

        def seconds() -> float:
            # Compilations nest, and threads wait for each other's: overlapping time counts once.
            total, depth, since = 0.0, 0, 0.0
            for moment, what in recorder.buffer:
                if what.is_start:
                    since = moment if depth == 0 else since
                    depth += 1
                else:
                    depth -= 1
                    total += moment - since if depth == 0 else 0.0
            return total

        yield seconds
