"""The data of the benchmarks: patches of AVIRIS scenes."""

import numpy as np

from somf import ImagePatches
from somf.typing import Array

N_TRAIN_COLUMNS = 105


def indian_pines() -> tuple[ImagePatches, ImagePatches]:
    """Return 11,700 patches of 16 × 16 × 200 to learn from, and some of another part to test on."""
    return split_indian_pines(indian_pines_cube())


def indian_pines_cube() -> Array:
    """Return the scene (145, 145, 200) as tensorly ships it."""
    from tensorly.datasets import load_indian_pines

    return np.asarray(load_indian_pines().tensor)


def split_indian_pines(cube: Array) -> tuple[ImagePatches, ImagePatches]:
    """Return patches of the left part, to learn from, and some of the right part, to test on."""
    image = np.asarray(cube, dtype=np.float32)
    train = ImagePatches(image[:, :N_TRAIN_COLUMNS], 16)
    test = ImagePatches(image[:, N_TRAIN_COLUMNS:], 16, stride=3)
    return train, test


def in_memory(patches: ImagePatches) -> Array:
    """Return all patches as a matrix."""
    return patches.rows(np.arange(patches.shape[0]))
