"""Overlapping patches put together to an image, some rows of it at a time."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any, NamedTuple

import numpy as np

from somf.data.images.files import open_image
from somf.data.images.image import PatchedImage, floating_type
from somf.data.images.writing import check_new_image, image_file
from somf.errors import ParameterError
from somf.typing import Array, Ints

BAND_ENTRIES = 2**22
"""Entries of the image that are put together at once, at least one plane."""

CHUNK_ENTRIES = 2**22
"""Entries of the patches that are added at once, at least one patch."""

Predict = Callable[[Ints], Array]
"""Returns patches of an image, of shape (b, p), in the units of its pixels."""


class Band(NamedTuple):
    """Some planes of an image that is put together.

    Attributes
    ----------
    planes : slice
        Which of the planes of the image.
    values : ndarray of shape (m, lines, columns, channels)
        The mean of all patches that cover a pixel; 0 where there is none.
    is_covered : ndarray of bool of shape (m, lines, columns, 1)
    """

    planes: slice
    values: Array
    is_covered: Array


def bands(predict: Predict, part: PatchedImage) -> Iterator[Band]:
    """Yield the image that patches make, some planes at a time, in order.

    Patches come in the order of their first planes: when all that begin in a band are added, its
    planes are complete, and those below it are carried over to the next band.
    """
    from somf.data.images.adding import add_patches  # Numba is slow to import

    n_planes, below = part.cube.shape[0], part.size[0] - 1
    step = max(1, min(n_planes, BAND_ENTRIES // prod(part.cube.shape[1:])))
    total = np.zeros((step + below, *part.cube.shape[1:]))
    count = np.zeros(total.shape[:3], dtype=np.int32)
    n_at_once = max(1, CHUNK_ENTRIES // (prod(part.size) * part.cube.shape[3]))
    for start in range(0, n_planes, step):
        stop = min(start + step, n_planes)
        first, last = np.searchsorted(part.positions[:, 0], [start, stop])
        for begin in range(first, last, n_at_once):
            ids = np.arange(begin, min(begin + n_at_once, last))
            at = part.positions[ids] - np.array([start, 0, 0])
            add_patches(predict(ids), at, part.size, total, count)
        n = stop - start
        values = total[:n] / np.maximum(count[:n], 1)[..., None]
        yield Band(slice(start, stop), values, count[:n, ..., None] > 0)
        for array in (total, count):
            array[:below] = array[step:].copy()
            array[below:] = 0


def reconstructed(
    predict: Predict, part: PatchedImage, out: Any, dtype: Any, fill: float | str
) -> Any:
    """Return the image that patches make; see `ImagePatches.reconstruct`."""
    shape, dtype = part.image.shape, _type_of_result(part, out, dtype)
    if isinstance(fill, str) and fill != "original":
        raise ParameterError("fill", "be a number or 'original'", fill)
    if not isinstance(fill, str) and dtype.kind in "iu" and not np.isfinite(fill):
        raise ParameterError("fill", f"be finite for integers ({dtype})", fill)
    with _opened(out, shape, dtype, part.path) as target:
        for planes, values, is_covered in bands(predict, part):
            other = part.cube[planes] if isinstance(fill, str) else fill
            found = as_type(np.where(is_covered, values, other), dtype)
            target[planes] = found.reshape(-1, *shape[1:])
    return open_image(out, n_axes=len(part.grid_shape))[0] if _is_path(out) else target


def residuals(predict: Predict, part: PatchedImage) -> Array:
    """Return the root mean square of what patches miss; see `ImagePatches.residual_map`."""
    found = np.full(part.cube.shape[:3], np.nan, dtype=np.float32)
    for planes, values, is_covered in bands(predict, part):
        pixels = part.cube[planes].astype(np.float64)
        if part.unknown is not None:
            is_known, no_data = part.unknown
            pixels[pixels == no_data] = np.nan
            if is_known.size:
                pixels[~np.broadcast_to(is_known[planes], pixels.shape)] = np.nan
        square = (pixels - values) ** 2
        known = ~np.isnan(square)
        n_known = known.sum(axis=3)
        mean = np.where(known, square, 0).sum(axis=3) / np.maximum(n_known, 1)
        found[planes] = np.where(is_covered[..., 0] & (n_known > 0), np.sqrt(mean), np.nan)
    return found.reshape(part.image.shape[: len(part.grid_shape)])


def as_type(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in a type: integers are rounded, and clipped to the range of the type."""
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values), limits.min, limits.max).astype(dtype)


def _type_of_result(part: PatchedImage, out: Any, dtype: Any) -> np.dtype[Any]:
    given = None if out is None or _is_path(out) else getattr(out, "dtype", None)
    if given is not None:
        if dtype is not None and np.dtype(dtype) != given:
            raise ParameterError("dtype", f"be that of out, {given}", dtype)
        dtype = given
    if dtype is not None:
        chosen: np.dtype[Any] = np.dtype(dtype)
        if chosen.kind not in "fiu":
            raise ParameterError("dtype", "be a real type", dtype)
        return chosen
    own: np.dtype[Any] = part.image.dtype
    if _is_path(out) and os.fspath(out).lower().endswith(".png"):
        return own.newbyteorder("=")
    return floating_type(own)


def _opened(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], source: str | None
) -> AbstractContextManager[Any]:
    """Return a context that gives an array, or something like one, to write the image to."""
    if out is None:
        return nullcontext(np.empty(shape, dtype))
    if _is_path(out):
        check_new_image(os.fspath(out))
        return image_file(os.fspath(out), shape, dtype, source)
    if tuple(getattr(out, "shape", ())) != shape:
        got = str(getattr(out, "shape", out))
        raise ParameterError("out", f"be of the shape of the image, {shape}", out, got=got)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ParameterError("out", "be writeable", out, got="an array that is read-only")
    return nullcontext(out)


def _is_path(out: Any) -> bool:
    return isinstance(out, str | os.PathLike)
