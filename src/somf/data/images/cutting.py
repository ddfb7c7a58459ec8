"""Patches cut out of an image or volume by all threads."""

from math import prod
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
    cube: Array,
    positions: Ints,
    size: tuple[int, int, int],
    center: bool,
    scale: bool,
    dtype: np.dtype[Any],
    unknown: Unknown | None = None,
) -> tuple[Array, Array]:
    """Return patches of an image or volume as rows.

    Parameters
    ----------
    cube : ndarray of shape (planes, lines, columns, channels)
        See `somf.data.images.image.as_cube`.
    positions : ndarray of shape (b, 3)
        The first plane, line and column of every patch.
    size : tuple of (int, int, int)
        Planes, lines and columns of a patch.
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
    patches : ndarray of shape (b, planes * lines * columns * channels)
        NaN where an entry is unknown.
    moments : ndarray of shape (b, 2)
        What was subtracted from a patch, and what it was divided by: ``patch * moments[:, 1:] +
        moments[:, :1]`` is the patch of the image. The second is 0 for a constant patch.
    """
    patches = np.empty((len(positions), prod(size) * cube.shape[3]), dtype=dtype)
    n_threads = threads_for(8.0 * patches.size).count
    if numba_can_read(cube.dtype):
        _cut_all(n_threads, cube, positions, size, patches)
    else:
        pixels = cube.view(f"u{cube.dtype.itemsize}")
        raw = np.empty(patches.shape, dtype=pixels.dtype)
        _cut_all(n_threads, pixels, positions, size, raw)
        patches[:] = raw.view(cube.dtype)
    if unknown is not None:
        _erase_all(n_threads, patches, positions, size, *unknown)
    moments = np.tile([0.0, 1.0], (len(patches), 1))
    if center or scale:
        normalise = _normalise_all if unknown is None else _normalise_known_all
        normalise(n_threads, patches, center, scale, moments)
    return patches, moments


@region
def _cut_all(
    launcher: int, cube: Array, positions: Ints, size: tuple[int, int, int], patches: Array
) -> None:
    in_parallel(_cut, launcher, len(positions), cube, positions, size, patches)


@inner
def _cut(n: int, cube: Array, positions: Ints, size: tuple[int, int, int], patches: Array) -> None:
    first, top, left, patch = positions[n, 0], positions[n, 1], positions[n, 2], patches[n]
    n_channels, column = cube.shape[3], 0
    for z in range(first, first + size[0]):
        for i in range(top, top + size[1]):
            for j in range(left, left + size[2]):
                for c in range(n_channels):
                    patch[column + c] = cube[z, i, j, c]
                column += n_channels


@region
def _erase_all(
    launcher: int,
    patches: Array,
    positions: Ints,
    size: tuple[int, int, int],
    is_known: Array,
    no_data: float,
) -> None:
    in_parallel(_erase, launcher, len(patches), patches, positions, size, is_known, no_data)


@inner
def _erase(
    n: int,
    patches: Array,
    positions: Ints,
    size: tuple[int, int, int],
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
    first, top, left = positions[n, 0], positions[n, 1], positions[n, 2]
    n_channels, by_pixel = len(patch) // (size[0] * size[1] * size[2]), is_known.shape[3] == 1
    column = 0
    for z in range(first, first + size[0]):
        for i in range(top, top + size[1]):
            for j in range(left, left + size[2]):
                if by_pixel:
                    if not is_known[z, i, j, 0]:
                        patch[column : column + n_channels] = nothing
                else:
                    pixel, mask = patch[column : column + n_channels], is_known[z, i, j]
                    for c in range(n_channels):
                        pixel[c] = pixel[c] if mask[c] else nothing
                column += n_channels


@region
def _normalise_all(
    launcher: int, patches: Array, center: bool, scale: bool, moments: Array
) -> None:
    in_parallel(_normalise, launcher, len(patches), patches, center, scale, moments)


@inner
def _normalise(n: int, patches: Array, center: bool, scale: bool, moments: Array) -> None:
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
    moments[n, 0] = mean
    if np.isinf(before):
        if scale:  # an entry is infinite, or squares overflow: an error later, and not zeros
            patch[:] = np.inf
    elif after <= rounding * before:  # constant up to rounding
        patch[:] = 0
        moments[n, 1] = 0
    elif scale:
        moments[n, 1] = np.sqrt(after)
        factor = patch.dtype.type(1 / np.sqrt(after))
        for column in range(len(patch)):
            patch[column] *= factor


@region
def _normalise_known_all(
    launcher: int, patches: Array, center: bool, scale: bool, moments: Array
) -> None:
    in_parallel(_normalise_known, launcher, len(patches), patches, center, scale, moments)


@inner
def _normalise_known(n: int, patches: Array, center: bool, scale: bool, moments: Array) -> None:
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
    moments[n, 0] = mean
    if after <= rounding * before:  # constant up to rounding
        for column in range(len(patch)):
            patch[column] = patch[column] if np.isnan(patch[column]) else 0
        moments[n, 1] = 0
    elif scale:
        moments[n, 1] = np.sqrt(after)
        factor = patch.dtype.type(1 / np.sqrt(after))
        for column in range(len(patch)):
            patch[column] *= factor
