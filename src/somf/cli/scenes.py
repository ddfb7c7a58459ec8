"""Hyperspectral images for the demo and the benchmark: a real one, and a synthetic one."""

from typing import Any

import numpy as np

from somf.optional import import_optional
from somf.typing import Array


def indian_pines() -> Array:
    """Return the AVIRIS scene Indian Pines, of shape (145, 145, 200), that tensorly ships."""
    return np.asarray(_dataset().tensor, dtype=np.float32)


def radiance(scene: Array) -> Array:
    """Return the light that reached the sensor, of an AVIRIS scene.

    A file has 500 times the radiance in W / (m² µm sr), plus 1000.
    """
    return np.maximum((scene - 1000) / 500, 0)


def indian_pines_wavelengths() -> Array:
    """Return the wavelengths of the bands, of shape (200,), in micrometres.

    The scene has 200 of 220 bands: those in which water in the air absorbs all light are left out.
    """
    wavelengths = np.array(_dataset().ticks[1])
    wavelengths[170:172] = 2212.22, 2222.15  # in tensorly they are 48 nm too long
    return np.asarray(wavelengths / 1000)


def _dataset() -> Any:
    datasets = import_optional("tensorly.datasets", "demo", "The scene Indian Pines")
    return datasets.load_indian_pines()


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
