"""Arrays in host memory: the part of the protocol that all kernels of the CPU have in common."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from somf.kernels.pairs import upper
from somf.scratch import scratch_zeros
from somf.typing import Array, Ints, Matrix, Slices

__all__ = [
    "IS_ASYNCHRONOUS",
    "clear_atoms",
    "clear_pairs",
    "concatenate",
    "copy_async",
    "explain_out_of_memory",
    "mark_used",
    "mix",
    "pack_rows",
    "put",
    "store_zeros",
    "take",
    "to_device",
    "to_store",
    "unpack_rows",
    "without_gradients",
    "zeros",
]

_NOTHING = nullcontext()
"""A context that does nothing, as often as it is entered."""

IS_ASYNCHRONOUS = False
"""See `Kernels`."""


def to_host(array: Any) -> Array:
    """Return an array of any device as a NumPy array; a NumPy array is returned uncopied."""
    return array if isinstance(array, np.ndarray) else cast(Array, array.contiguous().cpu().numpy())


def to_device(array: Matrix) -> Matrix:
    """See `Kernels.to_device`."""
    return array if isinstance(array, np.ndarray | sp.csc_array) else to_host(array)


def copy_async(array: Array) -> Callable[[], Array | None]:
    """See `Kernels.copy_async`; here the result is the array itself, not a copy."""
    return lambda: array


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """See `Kernels.zeros`."""
    return np.zeros(shape, like.dtype)


def store_zeros(shape: tuple[int, ...], like: Array) -> Array:
    """See `Kernels.store_zeros`."""
    return scratch_zeros(shape, like.dtype)


def to_store(array: Array) -> Array:
    """See `Kernels.to_store`."""
    return to_host(array)


def take(store: Array, slots: Ints) -> Array:
    """See `Kernels.take`."""
    return np.asarray(store[slots])


def put(store: Array, slots: Ints, values: Array) -> None:
    """See `Kernels.put`."""
    store[slots] = values


def pack_rows(A: Array, rows: Slices, packed: Array) -> None:
    """See `Kernels.pack_rows`; for arrays of any device."""
    at = 0
    for s in rows:
        packed[at : at + s.stop - s.start] = A[s]
        at += s.stop - s.start


def unpack_rows(packed: Array, A: Array, rows: Slices) -> None:
    """See `Kernels.unpack_rows`; for arrays of any device."""
    at = 0
    for s in rows:
        A[s] = packed[at : at + s.stop - s.start]
        at += s.stop - s.start


def explain_out_of_memory() -> AbstractContextManager[None]:
    """See `Kernels.explain_out_of_memory`; NumPy's own error says which array was too large."""
    return nullcontext()


def without_gradients() -> AbstractContextManager[None]:
    """See `Kernels.without_gradients`."""
    return _NOTHING


def mix(old: Array, new: Array, weight: Array | float) -> Array:
    """See `Kernels.mix`."""
    return np.asarray((1 - weight) * old + weight * new)


def concatenate(arrays: list[Array], axis: int) -> Array:
    """See `Kernels.concatenate`."""
    return np.concatenate(arrays, axis=axis)


def mark_used(last_used: Ints, code: Array, now: int) -> None:
    """See `Kernels.mark_used`."""
    last_used[code.any(axis=0)] = now


def clear_atoms(B: Array, C: Array, atoms: Array) -> None:
    """See `Kernels.clear_atoms`."""
    if atoms.any():
        B[:, atoms] = 0
        C[atoms] = 0
        C[:, atoms] = 0


def clear_pairs(E: Array, atoms: Array) -> None:
    """See `Kernels.clear_pairs`."""
    if atoms.any():
        first, second = upper(len(atoms))
        E[:, atoms[first] | atoms[second]] = 0
