"""Hyperspectral images for the demo and the benchmark: a real one, and a synthetic one."""

import numpy as np

from somf.optional import import_optional
from somf.typing import Array


def indian_pines() -> Array:
    """Return the AVIRIS scene Indian Pines, of shape (145, 145, 200), that tensorly ships."""
    datasets = import_optional("tensorly.datasets", "demo", "The scene Indian Pines")
    return np.asarray(datasets.load_indian_pines().tensor, dtype=np.float32)


def synthetic(side: int = 96, n_bands: int = 100) -> Array:
    """Return a mixture of a few materials with smooth spectra, of shape (side, side, n_bands)."""
    rng = np.random.default_rng(0)
    n_materials = 8
    frequency = np.fft.fftfreq(side)
    damping = 1 / (0.02 + frequency[:, None] ** 2 + frequency**2)
    noise = np.fft.fft2(rng.standard_normal((n_materials, side, side)))
    fields = np.exp(np.fft.ifft2(noise * damping).real / damping.std())
    spectra = 1 + np.cumsum(rng.standard_normal((n_materials, n_bands)), axis=1) / n_bands
    scene = np.tensordot(fields / fields.sum(axis=0), spectra, axes=(0, 0))
    return (scene + 0.01 * rng.standard_normal(scene.shape)).astype(np.float32)
