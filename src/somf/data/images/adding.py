"""Patches added to the image that they make, by all threads."""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array, Ints


def add_patches(
    patches: Array, positions: Ints, size: tuple[int, int, int], total: Array, count: Ints
) -> None:
    """Add patches to the pixels that they cover, and count them.

    A thread adds to one plane at a time, all patches in order: sums do not depend on how many
    threads there are.

    Parameters
    ----------
    patches : ndarray of shape (b, p)
    positions : ndarray of shape (b, 3)
        The first plane, line and column of every patch; planes in ascending order.
    size : tuple of (int, int, int)
        Planes, lines and columns of a patch.
    total : ndarray of shape (planes, lines, columns, channels), changed
    count : ndarray of int of shape (planes, lines, columns), changed
    """
    planes = np.arange(len(total))
    first = np.searchsorted(positions[:, 0], planes - size[0], side="right")
    last = np.searchsorted(positions[:, 0], planes, side="right")
    n_threads = threads_for(8.0 * patches.size).count
    _add_all(n_threads, first, last, patches, positions, size, total, count)


@region
def _add_all(
    launcher: int,
    first: Ints,
    last: Ints,
    patches: Array,
    positions: Ints,
    size: tuple[int, int, int],
    total: Array,
    count: Ints,
) -> None:
    n = len(total)
    in_parallel(_add, launcher, n, first, last, patches, positions, size, total, count)


@inner
def _add(
    plane: int,
    first: Ints,
    last: Ints,
    patches: Array,
    positions: Ints,
    size: tuple[int, int, int],
    total: Array,
    count: Ints,
) -> None:
    """Add to one plane the patches from ``first[plane]`` to ``last[plane]``, which cover it."""
    n_channels = total.shape[3]
    for n in range(first[plane], last[plane]):
        top, left = positions[n, 1], positions[n, 2]
        column = (plane - positions[n, 0]) * size[1] * size[2] * n_channels
        for i in range(top, top + size[1]):
            for j in range(left, left + size[2]):
                count[plane, i, j] += 1
                for c in range(n_channels):
                    total[plane, i, j, c] += patches[n, column + c]
                column += n_channels
