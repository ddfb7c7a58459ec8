"""The kernels on a GPU: torch for matrix products, Triton for what torch has no operation for.

Nothing here waits for the device, except `host.to_host` and ridge codes without any penalty. Under
Triton's interpreter (``TRITON_INTERPRET=1``) everything runs on the CPU, slowly, for tests.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.errors import MissingDeviceError, MissingLibraryError, OutOfMemoryError
from somf.kernels import host
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Matrix, Slices

try:
    import torch
    import triton  # noqa: F401 (asked for here, so that one message names all that is missing)
except ImportError as error:
    raise MissingLibraryError('device="cuda"', error.name or "torch", "cuda") from error

if torch.cuda.is_available():
    DEVICE = torch.device("cuda")
elif os.environ.get("TRITON_INTERPRET") == "1":
    DEVICE = torch.device("cpu")
else:
    raise MissingDeviceError(
        "cuda",
        "an NVIDIA GPU, and torch finds none: "
        + (
            "its driver is missing or does not work, or the GPU is hidden."
            if torch.version.cuda
            else "this build of torch is for the CPU only. Install one with CUDA."
        ),
    )

from somf.kernels.cuda.atoms import (
    forget_graphs,
    update_atoms,  # noqa: F401 (a kernel of this device)
)
from somf.kernels.cuda.codes import (
    forget_settings,
    solve_codes,  # noqa: F401 (a kernel of this device)
)

IS_ASYNCHRONOUS = True

LARGEST_SHARE = 0.4
"""Part of the free memory of the device that one array of per-sample statistics may take."""


def to_device(array: Matrix) -> Any:
    """See `Kernels.to_device`. A sparse minibatch is made dense there, where memory is fast."""
    if isinstance(array, np.ndarray):
        return _uploaded(array)
    entries = sp.coo_array(array)
    values = _uploaded(entries.data)
    row, column = (_uploaded(axis.astype(np.int64)) for axis in entries.coords)
    X = torch.zeros(array.shape, dtype=values.dtype, device=DEVICE)
    X.view(-1)[row * X.shape[1] + column] = values
    return X


def _uploaded(array: Any) -> Any:
    """Return an array of the host as a tensor of the device.

    Nobody waits for it. Memory that is not pinned is copied by the driver before this returns, so
    that it may be gone before the device has been reached.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(DEVICE, non_blocking=True, copy=True)


def copy_async(array: Any) -> Callable[[], Array | None]:
    """See `Kernels.copy_async`."""
    if DEVICE.type == "cpu":
        return host.copy_async(array.numpy())
    copy, there = array.to("cpu", non_blocking=True), torch.cuda.Event()
    there.record()
    return lambda: copy.numpy() if there.query() else None


def store(array: Any) -> Any:
    """See `Kernels.store`."""
    return _uploaded(array) if has_room(array.nbytes) else array


def zeros(shape: tuple[int, ...], like: Any) -> Any:
    """See `Kernels.zeros`."""
    return torch.zeros(shape, dtype=like.dtype, device=DEVICE)


def scratch(shape: tuple[int, ...], like: Any) -> Any:
    """See `Kernels.scratch`."""
    if has_room(math.prod(shape) * like.dtype.itemsize):
        return zeros(shape, like)
    return host.scratch(shape, host.to_host(like))


def has_room(n_bytes: int) -> bool:
    """Return whether so much more fits on the device, with room left for computing."""
    if DEVICE.type == "cpu":
        return True
    free, _ = torch.cuda.mem_get_info()
    return bool(n_bytes <= LARGEST_SHARE * free)


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
        forget_graphs()
        forget_settings()
        _latest_slots.clear()
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()


@contextmanager
def without_gradients() -> Iterator[None]:
    """See `Kernels.without_gradients`; it makes every operation quicker to launch."""
    with torch.inference_mode():
        yield


def take(store: Any, slots: Ints) -> Any:
    """See `Kernels.take`."""
    if isinstance(store, np.ndarray):
        return _uploaded(store[slots])
    return store.index_select(0, places(slots))


def put(store: Any, slots: Ints, values: Any) -> None:
    """See `Kernels.put`."""
    if isinstance(store, np.ndarray):
        store[slots] = host.to_host(values)
    else:
        values = values.expand(len(slots), *store.shape[1:])
        store.index_copy_(0, places(slots), values)


_latest_slots: deque[tuple[Ints, Any]] = deque(maxlen=8)


def places(slots: Ints) -> Any:
    """Return slots on the device; a loader and an iteration ask for the same ones several times.

    A loader on a stream of its own asks first, and waits before it hands out what it has loaded.
    """
    for known, there in tuple(_latest_slots):  # another thread may have a fit of its own
        if known is slots:
            return there
    there = _uploaded(slots)
    _latest_slots.append((slots, there))
    return there


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


def correlate(X: Any, D: Any, rows: Slices) -> Any:
    """See `Kernels.correlate`."""
    beta = X[:, rows[0]] @ D[rows[0]]
    for s in rows[1:]:
        beta.addmm_(X[:, s], D[s])
    return beta


def gram(D: Any, rows: Slices) -> Any:
    """See `Kernels.gram`."""
    first, *others = (D[s] for s in rows)
    G = first.T @ first
    for part in others:
        G.addmm_(part.T, part)
    return G


def combine(weights: Any, grams: Any) -> Any:
    """See `Kernels.combine`."""
    R, k, _ = grams.shape
    return (weights @ grams.reshape(R, k * k)).reshape(-1, k, k)


def squared_norms(X: Any, rows: Slices) -> Any:
    """See `Kernels.squared_norms`."""
    norm = torch.linalg.vector_norm  # the fastest of torch's sums of squares
    total = norm(X[:, rows[0]], dim=1).square_()
    for s in rows[1:]:
        total += norm(X[:, s], dim=1).square_()
    return total


def accumulate(B: Any, X: Any, code: Any, decay: float) -> None:
    """See `Kernels.accumulate`."""
    B.addmm_(X.T, code, beta=decay)


def atom_norms(D: Any, rows: Slices, ball: AtomBall) -> Any:
    """See `Kernels.atom_norms`."""
    mu = ball.l1_ratio
    return sum(mu * D[s].abs().sum(dim=0) + (1 - mu) * D[s].square().sum(dim=0) for s in rows)
