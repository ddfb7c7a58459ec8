"""The problem of most benchmarks: patches of AVIRIS scenes, k, λ and the batch size."""

from pathlib import Path

import numpy as np

from somf import ImagePatches
from somf.data import Source, as_source
from somf.typing import Array

K = 100
"""Atoms."""

ALPHA = 0.1
"""λ."""

BATCH = 50
"""Samples in a minibatch."""

N_TRAIN_COLUMNS = 105
"""Columns of Indian Pines, from the left, that patches for training come from."""

TRAIN_SHARE = 0.72
"""The same as a share of the columns, for other scenes."""


def indian_pines(center: bool = True) -> tuple[ImagePatches, ImagePatches]:
    """Return 11,700 training patches of 16 × 16 × 200, and test patches of another part."""
    return split_indian_pines(indian_pines_cube(), center)


def indian_pines_cube() -> Array:
    """Return the scene (145, 145, 200) as tensorly ships it."""
    from tensorly.datasets import load_indian_pines

    return np.asarray(load_indian_pines().tensor)


def split_indian_pines(cube: Array, center: bool = True) -> tuple[ImagePatches, ImagePatches]:
    """Return training patches of the left part, and test patches of the right part."""
    image = np.asarray(cube, dtype=np.float32)
    return split(image, N_TRAIN_COLUMNS, stride=3, center=center)


def aviris_scenes(path: Path, size: int = 16) -> tuple[Source, Source]:
    """Return training patches of the left parts of scenes, and test patches of the right parts.

    Parameters
    ----------
    path : Path
        A ``.npy`` file of shape (scene, row, column, channel).
    size : int
        Pixels along a side of a patch.
    """
    cubes = np.load(path, mmap_mode="r")
    n_columns = round(TRAIN_SHARE * cubes.shape[2])
    parts = [
        split(np.array(cube, dtype=np.float32), n_columns, stride=4, size=size) for cube in cubes
    ]
    return as_source([train for train, _ in parts]), as_source([test for _, test in parts])


def split(
    image: Array, n_columns: int, stride: int, center: bool = True, size: int = 16
) -> tuple[ImagePatches, ImagePatches]:
    """Return all patches of the first columns, and those of the others at a stride."""
    train = ImagePatches(image[:, :n_columns], size, center=center)
    return train, ImagePatches(image[:, n_columns:], size, stride, center=center)


def in_memory(patches: Source) -> Array:
    """Return all patches as a matrix."""
    return patches.rows(np.arange(patches.shape[0]))
