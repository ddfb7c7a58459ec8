"""How Numba is asked to compile, and how long that takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from numba import njit
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile a function that is serial, releases the GIL, and may reorder sums."""
    compiled: Function = njit(
        cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}
    )(function)
    return compiled


@contextmanager
def compilation_watched() -> Iterator[Callable[[], float]]:
    """Give a function that says for how many seconds Numba has been compiling in this context."""
    with event.install_recorder("numba:compile") as recorder:

        def seconds() -> float:
            # Compilations nest, and threads wait for each other's: count time once.
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
