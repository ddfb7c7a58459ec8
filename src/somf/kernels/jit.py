"""How Numba is asked to compile."""

from collections.abc import Callable
from typing import TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile a function that is serial, releases the GIL, and may reorder sums."""
    compiled: Function = njit(
        cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}
    )(function)
    return compiled
