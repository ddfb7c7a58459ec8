"""The largest of many numbers, found by vector instructions.

Compilers have such instructions for the largest of integers, but not for that of floating-point
numbers that may be NaN. Numbers that are not negative are ordered like the integers that have the
same bits, and all integers of negative numbers are negative.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from somf.kernels.cpu.jit import inner
from somf.typing import Array

INTEGER_OF = {types.float32: types.int32, types.float64: types.int64}
"""The integers of the same size."""


@inner
def largest_outside(g: Array, a: Array, positive: bool) -> int:
    """Return the position of the largest |g|, or g if `positive`, where `a` is zero.

    Parameters
    ----------
    g, a : ndarray of shape (k,)
    positive : bool

    Returns
    -------
    j : int
        −1 if none is above zero.
    """
    zero = bits(g.dtype.type(0))
    largest, j = zero, np.int32(-1)
    for n in range(len(g)):
        size = bits(g[n] if positive else abs(g[n])) if a[n] == 0 else zero
        largest = max(largest, size)
    if largest == zero:
        return -1
    for n in range(len(g)):
        is_largest = a[n] == 0 and bits(g[n] if positive else abs(g[n])) == largest
        j = max(j, np.int32(n) if is_largest else np.int32(-1))
    return int(j)


@inner
def steepest(g: Array, a: Array, l2: float, positive: bool) -> float:
    """Return the largest |g − l2 a|, or g − l2 a if `positive`, and zero if that is negative.

    Parameters
    ----------
    g, a : ndarray of shape (k,)
    l2 : float
    positive : bool
    """
    real = g.dtype.type
    largest, weight = bits(real(0)), real(l2)
    for n in range(len(g)):
        tilted = real(g[n] - weight * a[n])
        largest = max(largest, bits(tilted if positive else abs(tilted)))
    value: float = number(largest)
    return value


@intrinsic
def bits(_: Any, x: Any) -> Any:
    """Return the integer that has the bits of a number."""
    return _with_the_bits_of(x, INTEGER_OF)


@intrinsic
def number(_: Any, x: Any) -> Any:
    """Return the number that has the bits of an integer."""
    return _with_the_bits_of(x, {integer: real for real, integer in INTEGER_OF.items()})


def _with_the_bits_of(x: types.Type, types_of: dict[types.Type, types.Type]) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types_of[x](x), generate
