"""Patches cut out of an image by all threads."""

from typing import Any

import numpy as np

from somf.data.gather import numba_can_read
from somf.data.images.no_data import Unknown
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array, Ints


def cut_patches(
    image: Array,
    positions: Ints,
    size: tuple[int, int],
    center: bool,
    scale: bool,
    dtype: np.dtype[Any],
    unknown: Unknown | None = None,
) -> Array:
    """Return patches of an image as rows.

    Parameters
    ----------
    image : ndarray of shape (height, width, channels)
    positions : ndarray of shape (b, 2)
        Upper left corners.
    size : tuple of (int, int)
        Height and width of a patch.
    center : bool
        Whether to subtract the mean of every patch.
    scale : bool
        Whether to divide every patch, unless it is zero, by its Euclidean norm.
    dtype : numpy.dtype
        Floating, if entries may be unknown.
    unknown : Unknown, optional
        Which entries are unknown; by default none. Means and norms are those of the others.

    Returns
    -------
    patches : ndarray of shape (b, height * width * channels)
        NaN where an entry is unknown.
    """
    patches = np.empty((len(positions), size[0] * size[1] * image.shape[2]), dtype=dtype)
    n_threads = threads_for(8.0 * patches.size).count
    height, width = size
    if numba_can_read(image.dtype):
        _cut_all(n_threads, image, positions, height, width, patches)
    else:
        pixels = image.view(f"u{image.dtype.itemsize}")
        raw = np.empty(patches.shape, dtype=pixels.dtype)
        _cut_all(n_threads, pixels, positions, height, width, raw)
        patches[:] = raw.view(image.dtype)
    if unknown is not None:
        _erase_all(n_threads, patches, positions, height, width, *unknown)
    if center or scale:
        normalise = _normalise_all if unknown is None else _normalise_known_all
        normalise(n_threads, patches, center, scale)
    return patches


@region
def _cut_all(
    launcher: int, image: Array, positions: Ints, height: int, width: int, patches: Array
) -> None:
    in_parallel(_cut, launcher, len(positions), image, positions, height, width, patches)


@inner
def _cut(n: int, image: Array, positions: Ints, height: int, width: int, patches: Array) -> None:
    top, left, patch = positions[n, 0], positions[n, 1], patches[n]
    n_channels, column = image.shape[2], 0
    for i in range(top, top + height):
        for j in range(left, left + width):
            for c in range(n_channels):
                patch[column + c] = image[i, j, c]
            column += n_channels


@region
def _erase_all(
    launcher: int,
    patches: Array,
    positions: Ints,
    height: int,
    width: int,
    is_known: Array,
    no_data: float,
) -> None:
    count = len(patches)
    in_parallel(_erase, launcher, count, patches, positions, height, width, is_known, no_data)


@inner
def _erase(
    n: int,
    patches: Array,
    positions: Ints,
    height: int,
    width: int,
    is_known: Array,
    no_data: float,
) -> None:
    """Write NaN to the unknown entries of a patch."""
    patch, nothing, value = patches[n], patches.dtype.type(np.nan), patches.dtype.type(no_data)
    if not np.isnan(value):
        for column in range(len(patch)):
            patch[column] = nothing if patch[column] == value else patch[column]
    if is_known.size == 0:
        return
    top, left, column = positions[n, 0], positions[n, 1], 0
    n_channels, by_pixel = len(patch) // (height * width), is_known.shape[2] == 1
    for i in range(top, top + height):
        for j in range(left, left + width):
            if by_pixel:
                if not is_known[i, j, 0]:
                    patch[column : column + n_channels] = nothing
            else:
                pixel, mask = patch[column : column + n_channels], is_known[i, j]
                for c in range(n_channels):
                    pixel[c] = pixel[c] if mask[c] else nothing
            column += n_channels


@region
def _normalise_all(launcher: int, patches: Array, center: bool, scale: bool) -> None:
    in_parallel(_normalise, launcher, len(patches), patches, center, scale)


@inner
def _normalise(n: int, patches: Array, center: bool, scale: bool) -> None:
    patch = patches[n]
    rounding = (8 * np.finfo(patch.dtype).eps) ** 2
    offset = 0.0
    if center:
        for column in range(len(patch)):
            offset += patch[column] - patch[0]  # exactly 0 for a constant patch
    mean = patch.dtype.type(patch[0] + offset / len(patch)) if center else patch.dtype.type(0)
    before, after = 0.0, 0.0
    for column in range(len(patch)):
        before += patch[column] * patch[column]
        patch[column] -= mean
        after += patch[column] * patch[column]
    if np.isinf(before):
        if scale:  # an entry is infinite, or squares overflow: an error later, and not zeros
            patch[:] = np.inf
    elif after <= rounding * before:  # constant up to rounding
        patch[:] = 0
    elif scale:
        factor = patch.dtype.type(1 / np.sqrt(after))
        for column in range(len(patch)):
            patch[column] *= factor


@region
def _normalise_known_all(launcher: int, patches: Array, center: bool, scale: bool) -> None:
    in_parallel(_normalise_known, launcher, len(patches), patches, center, scale)


@inner
def _normalise_known(n: int, patches: Array, center: bool, scale: bool) -> None:
    """Do what `_normalise` does with the entries that are not NaN; the others stay NaN.

    It is a function of its own, so that patches without such entries keep their last bit.
    """
    patch = patches[n]
    rounding = (8 * np.finfo(patch.dtype).eps) ** 2
    n_known, first, before = 0, 0, 0.0
    for column in range(len(patch)):
        wide = np.float64(patch[column])
        n_known += 0 if np.isnan(wide) else 1
        before += 0.0 if np.isnan(wide) else wide * wide
    if n_known == 0 or np.isinf(before):  # infinity stays, rather than become NaN
        return
    while np.isnan(patch[first]):
        first += 1
    offset, start = 0.0, patch[first]
    if center:
        for column in range(len(patch)):
            offset += 0.0 if np.isnan(patch[column]) else patch[column] - start
    mean = patch.dtype.type(start + offset / n_known) if center else patch.dtype.type(0)
    after = 0.0
    for column in range(len(patch)):
        patch[column] -= mean
        wide = np.float64(patch[column])
        after += 0.0 if np.isnan(wide) else wide * wide
    if after <= rounding * before:  # constant up to rounding
        for column in range(len(patch)):
            patch[column] = patch[column] if np.isnan(patch[column]) else 0
    elif scale:
        factor = patch.dtype.type(1 / np.sqrt(after))
        for column in range(len(patch)):
            patch[column] *= factor
