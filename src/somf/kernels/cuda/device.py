"""Arrays in GPU memory: uploads, stores, and what happens when memory runs out.

No function here waits for the device, except those that copy a result to host memory.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from somf.errors import MissingDeviceError, OutOfMemoryError
from somf.kernels import host
from somf.kernels.cuda.atoms import clear_graphs
from somf.kernels.cuda.codes import clear_settings
from somf.typing import Array, Ints, Matrix

IS_ASYNCHRONOUS = True
"""See `Kernels`."""

MAX_STORE_SHARE = 0.4
"""Largest part of the free device memory that one store may take."""

N_RECENT_SLOTS = 8
"""Arrays of slots that are kept on the device for the next call with the same array."""


def _find_device() -> Any:
    """Return the GPU, or the CPU under Triton's interpreter."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if os.environ.get("TRITON_INTERPRET") == "1":
        return torch.device("cpu")
    reason = (
        "its driver is missing or does not work, or the GPU is hidden."
        if torch.version.cuda
        else "this build of torch is for the CPU only. Install one with CUDA."
    )
    raise MissingDeviceError("cuda", f"an NVIDIA GPU, and torch finds none: {reason}")


DEVICE = _find_device()
"""The device of all tensors. The import of this module fails if there is none."""

_recent_slots: deque[tuple[Ints, Any]] = deque(maxlen=N_RECENT_SLOTS)
"""Pairs of an array of slots and its copy on the device."""


def to_device(array: Matrix) -> Any:
    """See `Kernels.to_device`. A sparse minibatch becomes dense on the device."""
    if isinstance(array, torch.Tensor):
        return array
    if isinstance(array, np.ndarray):
        return _upload(array)
    entries = sp.coo_array(array)
    values = _upload(entries.data)
    row, column = (_upload(axis.astype(np.int64)) for axis in entries.coords)
    X = torch.zeros(array.shape, dtype=values.dtype, device=DEVICE)
    X.view(-1)[row * X.shape[1] + column] = values
    return X


def _upload(array: Any) -> Any:
    """Return a copy of a host array on the device, without waiting for the device.

    The driver copies memory that is not pinned before this function returns. The caller may
    therefore free or change the array at once.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(DEVICE, non_blocking=True, copy=True)


def copy_async(array: Any) -> Callable[[], Array | None]:
    """See `Kernels.copy_async`."""
    if DEVICE.type == "cpu":
        return host.copy_async(array.numpy())
    copy, complete = array.to("cpu", non_blocking=True), torch.cuda.Event()
    complete.record()
    return lambda: copy.numpy() if complete.query() else None


def zeros(shape: tuple[int, ...], like: Any) -> Any:
    """See `Kernels.zeros`."""
    return torch.zeros(shape, dtype=like.dtype, device=DEVICE)


def has_room(n_bytes: int) -> bool:
    """Return whether an array of this size fits on the device beside the memory of an iteration."""
    if DEVICE.type == "cpu":
        return True
    free, _ = torch.cuda.mem_get_info()
    return bool(n_bytes <= MAX_STORE_SHARE * free)


def store_zeros(shape: tuple[int, ...], like: Any) -> Any:
    """See `Kernels.store_zeros`."""
    if has_room(math.prod(shape) * like.dtype.itemsize):
        return zeros(shape, like)
    return host.store_zeros(shape, host.to_host(like))


def to_store(array: Any) -> Any:
    """See `Kernels.to_store`."""
    is_there = isinstance(array, torch.Tensor)
    return array if is_there or not has_room(array.nbytes) else _upload(array)


def take(store: Any, slots: Ints) -> Any:
    """See `Kernels.take`."""
    if isinstance(store, np.ndarray):
        return _upload(store[slots])
    return store.index_select(0, places(slots))


def put(store: Any, slots: Ints, values: Any) -> None:
    """See `Kernels.put`."""
    if isinstance(store, np.ndarray):
        store[slots] = host.to_host(values)
    else:
        values = values.expand(len(slots), *store.shape[1:])
        store.index_copy_(0, places(slots), values)


def places(slots: Ints) -> Any:
    """Return slots on the device, uploaded once for all calls with the same array.

    The loader and the iteration use the same slots. The loader calls this first, on its own stream,
    and waits for that stream before it returns the minibatch.
    """
    for known, uploaded in tuple(_recent_slots):  # a copy: fits in other threads share the deque
        if known is slots:
            return uploaded
    uploaded = _upload(slots)
    _recent_slots.append((slots, uploaded))
    return uploaded


@contextmanager
def explain_out_of_memory() -> Iterator[None]:
    """See `Kernels.explain_out_of_memory`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            "The GPU has not enough memory for this fit. Reduce n_components or batch_size (with "
            "averaged codes an iteration needs batch_size * n_components² numbers), choose "
            'code_estimator="masked", or dtype="float32" if it is "float64".'
        ) from error
    finally:
        clear_graphs()
        clear_settings()
        _recent_slots.clear()
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()


@contextmanager
def without_gradients() -> Iterator[None]:
    """See `Kernels.without_gradients`. Every torch operation is then faster to launch."""
    with torch.inference_mode():
        yield


def mix(old: Any, new: Any, weight: Any) -> Any:
    """See `Kernels.mix`."""
    return torch.lerp(old, new, weight)


def concatenate(arrays: list[Any], axis: int) -> Any:
    """See `Kernels.concatenate`."""
    return torch.cat(arrays, dim=axis)


def mark_used(last_used: Any, code: Any, now: int) -> None:
    """See `Kernels.mark_used`."""
    last_used.masked_fill_(code.any(dim=0), now)


def clear_atoms(B: Any, C: Any, atoms: Any) -> None:
    """See `Kernels.clear_atoms`."""
    B.masked_fill_(atoms, 0)
    C.masked_fill_(atoms | atoms[:, None], 0)
