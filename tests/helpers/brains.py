"""Small simulated brain images."""

import nibabel
import numpy as np

GRID = (8, 9, 10)
"""Voxels of a volume."""

AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])
"""Voxels of 3 mm."""


def mask_image():
    """Return a mask: all voxels that are not on the border."""
    inside = np.zeros(GRID, np.uint8)
    inside[1:-1, 1:-1, 1:-1] = 1
    return nibabel.Nifti1Image(inside, AFFINE)


def true_maps():
    """Return three boxes that do not overlap, of shape (3, *GRID)."""
    maps = np.zeros((3, *GRID))
    maps[0, 1:4, 1:4, 1:5] = 1
    maps[1, 4:7, 1:4, 1:5] = 1
    maps[2, 2:6, 5:8, 5:9] = 1
    return maps


def run_image(seed, n_scans=20, *, noise=0.3, dtype=np.float32):
    """Return a 4-D image: boxes with time series of their own, a trend, noise, a mean of 100."""
    rng = np.random.default_rng(seed)
    series = rng.standard_normal((n_scans, 3))
    volumes = np.tensordot(true_maps(), series, axes=(0, 1))
    volumes += noise * rng.standard_normal(volumes.shape) + np.linspace(0, 2, n_scans) + 100
    return nibabel.Nifti1Image(volumes.astype(dtype), AFFINE)
