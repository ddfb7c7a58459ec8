"""Patches cut out of an image by all worker threads."""

from typing import Any

import numpy as np

from somf.data.gather import numba_can_read
from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import pool_for
from somf.typing import Array, Ints


def cut_patches(
    image: Array,
    positions: Ints,
    size: tuple[int, int],
    center: bool,
    scale: bool,
    dtype: np.dtype[Any],
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

    Returns
    -------
    patches : ndarray of shape (b, height * width * channels)
    """
    patches = np.empty((len(positions), size[0] * size[1] * image.shape[2]), dtype=dtype)
    pool = pool_for(8 * patches.size)
    is_native = numba_can_read(image.dtype)
    pixels = image if is_native else image.view(f"u{image.dtype.itemsize}")
    chunks = pool.dynamic_chunks(len(positions))

    def work(_worker: int) -> None:
        for s in chunks:
            if is_native:
                _cut(pixels, positions[s], size[0], size[1], patches[s])
            else:
                raw = np.empty(patches[s].shape, dtype=pixels.dtype)
                _cut(pixels, positions[s], size[0], size[1], raw)
                patches[s] = raw.view(image.dtype)
            if center or scale:
                _normalise(patches[s], center, scale)

    pool.run(work)
    return patches


@jit
def _cut(image: Array, positions: Ints, height: int, width: int, patches: Array) -> None:
    n_channels = image.shape[2]
    for n in range(len(positions)):
        top, left = positions[n]
        column = 0
        for i in range(top, top + height):
            for j in range(left, left + width):
                for c in range(n_channels):
                    patches[n, column + c] = image[i, j, c]
                column += n_channels


@jit
def _normalise(patches: Array, center: bool, scale: bool) -> None:
    rounding = (8 * np.finfo(patches.dtype).eps) ** 2
    for n in range(len(patches)):
        patch = patches[n]
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
        if after <= rounding * before:  # constant up to rounding
            patch[:] = 0
        elif scale:
            factor = patch.dtype.type(1 / np.sqrt(after))
            for column in range(len(patch)):
                patch[column] *= factor
