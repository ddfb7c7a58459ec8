"""Scenes to try things on: one that is real, and one that needs no download."""

import numpy as np

from somf.typing import Array


def indian_pines() -> Array:
    """Return the AVIRIS scene Indian Pines, of shape (145, 145, 200), that tensorly ships."""
    try:
        from tensorly.datasets import load_indian_pines
    except ImportError as error:
        raise ImportError(
            "The scene Indian Pines comes with tensorly: pip install 'somf[demo]'."
        ) from error
    return np.asarray(load_indian_pines().tensor, dtype=np.float32)


def synthetic(side: int = 96, n_bands: int = 100) -> Array:
    """Return smooth fields of a few materials with smooth spectra, (side, side, n_bands)."""
    rng = np.random.default_rng(0)
    n_materials = 8
    frequency = np.fft.fftfreq(side)
    damping = 1 / (0.02 + frequency[:, None] ** 2 + frequency**2)
    noise = np.fft.fft2(rng.standard_normal((n_materials, side, side)))
    fields = np.exp(np.fft.ifft2(noise * damping).real / damping.std())
    spectra = 1 + np.cumsum(rng.standard_normal((n_materials, n_bands)), axis=1) / n_bands
    scene = np.tensordot(fields / fields.sum(axis=0), spectra, axes=(0, 0))
    return (scene + 0.01 * rng.standard_normal(scene.shape)).astype(np.float32)
