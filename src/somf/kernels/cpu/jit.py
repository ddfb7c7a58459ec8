"""The Numba compiler settings of all kernels, and a timer for compilation."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from numba import njit
from numba.core import event
from numba.core.compiler import Compiler

try:
    from somf.kernels.cpu import inlining

    INNER_COMPILER, BODY_COMPILER = inlining.InnerCompiler, inlining.BodyCompiler
except ImportError:  # Numba has other internals
    INNER_COMPILER = BODY_COMPILER = Compiler

logger = logging.getLogger("somf")

Function = TypeVar("Function", bound=Callable[..., object])
"""The function to compile."""


FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered; NaN and infinity keep their meaning."""

ONLY_PRANGE = dict.fromkeys(
    ("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion"), False
) | {"prange": True}
"""What Numba makes parallel: loops over `prange`, and no array expression by its own choice."""


def jit(function: Function, **options: Any) -> Function:
    """Compile a function that releases the GIL and may reorder floating-point sums.

    Machine code is cached on disk. Where Numba finds no folder that it can write to, it compiles
    anew in every process.

    Parameters
    ----------
    function : callable
    **options : object
        For `numba.njit`.
    """
    options = {
        "cache": True,
        "nogil": True,
        "fastmath": FASTMATH,
        "error_model": "numpy",  # a check for zero before each division keeps loops scalar
        "no_cfunc_wrapper": True,
    } | options
    try:
        compiled: Function = njit(**options)(function)
    except RuntimeError:  # Numba has looked for a folder when the function was defined
        _log_missing_cache()
        compiled = njit(**options | {"cache": False})(function)
    return compiled


def inner(function: Function, **options: Any) -> Function:
    """Compile a function that only compiled functions call: Python would crash.

    It must not print, and errors that it raises have constants as arguments: Numba's way back to
    Python is not there. To debug it, give ``pipeline_class=numba.core.compiler.Compiler``.

    Without the code that converts arguments from Python, and without machine code, a first fit
    compiles in half of the time. The function is always inlined. Otherwise the process that
    compiles could call the copy that was compiled for itself, and later processes the one that was
    compiled with its caller and is in the cache, which may add up numbers in another order.
    """
    # In a cache of its own, a function would keep what it has inlined from other files.
    options = {"pipeline_class": INNER_COMPILER} | options
    return jit(function, cache=False, no_cpython_wrapper=True, forceinline=True, **options)


def body(function: Function) -> Function:
    """Compile a function like `inner` that does little else than to call other ones.

    It is optimised only where it is inlined, which saves seconds of compilation. Loops over numbers
    would become slower.
    """
    return inner(function, pipeline_class=BODY_COMPILER)


@cache
def _log_missing_cache() -> None:
    logger.warning(
        "Numba can write neither beside somf nor in its cache folder, so that kernels are compiled "
        "in every process. Set NUMBA_CACHE_DIR to a folder that can be written to."
    )


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
