"""Pictures and curves of patches and atoms, as arrays: colours, scales, numbers of points."""

from typing import Any

import numpy as np

from somf.data.channels import Channels
from somf.errors import ParameterError
from somf.typing import Array

STRETCH = (2, 98)
"""Percentiles of a false colour that are drawn as 0 and 1."""


def patch_shape_of(model: Any, patch_shape: Any, n_features: int) -> tuple[int, ...] | None:
    """Return the shape of an atom as a picture, or None if atoms are not pictures.

    The planes of a patch of a volume are one below the other.

    Parameters
    ----------
    model : estimator or ndarray
        An estimator that was fitted on `ImagePatches` has ``patch_shape_``.
    patch_shape : tuple of int or None
        The shape that the caller gives, which overrides that of the model.
    n_features : int
    """
    shape = getattr(model, "patch_shape_", None) if patch_shape is None else patch_shape
    if shape is None:
        return None
    shape = tuple(int(size) for size in np.atleast_1d(shape))
    if patch_shape is None and _has_volumes(model):
        shape = (shape[0] * shape[1], *shape[2:])
    if len(shape) not in (2, 3) or min(shape) < 1 or np.prod(shape) != n_features:
        raise ParameterError(
            "patch_shape",
            "be (height, width) or (height, width, channels) with "
            f"n_features={n_features} values in all",
            shape,
        )
    return shape


def _has_volumes(model: Any) -> bool:
    """Return whether a model was learned from patches of volumes."""
    return len(getattr(model, "patches_", {}).get("patch_size", ())) > 2


def known_channels(model: Any, n_channels: int) -> Channels | None:
    """Return what a model knows of its channels, or of the features of spectra.

    Parameters
    ----------
    model : estimator or ndarray
    n_channels : int
        How many channels are drawn; others than those of the model are not known.
    """
    channels: Channels | None = getattr(model, "channels_", None)
    names = getattr(model, "feature_names_in_", None)
    if channels is None and names is not None:
        channels = Channels(names=tuple(names))
    return channels if channels is not None and len(channels) == n_channels else None


def has_spectra(patch_shape: tuple[int, ...] | None) -> bool:
    """Return whether patches have more than three channels."""
    return patch_shape is not None and len(patch_shape) == 3 and patch_shape[2] > 3


def colors_of(patches: Array) -> Array:
    """Return the red, green and blue of patches, on the scale of the patches.

    One or two channels are gray. More than three are a spectrum: the means of its first, middle
    and last third are blue, green and red.

    Parameters
    ----------
    patches : ndarray of shape (n, height, width) or (n, height, width, channels)

    Returns
    -------
    colors : ndarray of shape (n, height, width, 3)
    """
    channels = patches[..., None] if patches.ndim == 3 else patches
    if channels.shape[-1] == 3:
        return channels
    if channels.shape[-1] < 3:
        return np.repeat(channels.mean(axis=-1, keepdims=True), 3, axis=-1)
    thirds = np.array_split(channels, 3, axis=-1)
    return np.stack([third.mean(axis=-1) for third in reversed(thirds)], axis=-1)


def color_range(colors: Array, has_spectra: bool) -> tuple[Array, Array]:
    """Return the values that are drawn as 0 and as 1; they broadcast against `colors`.

    Pictures of spectra share one scale for each colour, so that the same colour is the same
    spectrum everywhere. Other pictures with negative values share one scale with zero in the
    middle. Otherwise each picture has its own scale.

    Parameters
    ----------
    colors : ndarray of shape (n, height, width, 3)
    has_spectra : bool
    """
    if has_spectra:
        low, high = np.percentile(colors, STRETCH, axis=(0, 1, 2))
    elif colors.min() < 0:
        peaks = np.abs(colors).max(axis=(1, 2, 3))
        high = np.median(peaks[peaks > 0])  # half are clipped; an outlier would darken all others
        low = -high
    else:
        low, high = (f(colors, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    return low, np.where(high > low, high, low + 1)


def as_pictures(patches: Array) -> Array:
    """Return patches as pictures of shape (n, height, width, 3), from 0 to 1."""
    colors = colors_of(patches)
    low, high = color_range(colors, has_spectra(patches.shape[1:]))
    return np.asarray(np.clip((colors - low) / (high - low), 0, 1))


def as_curves(samples: Array, n_points: int) -> Array:
    """Return samples reduced to at most `n_points` values, so that curves keep their peaks.

    A long sample is cut into parts. Each part becomes its value of largest magnitude.

    Parameters
    ----------
    samples : ndarray of shape (n, p)
    n_points : int

    Returns
    -------
    curves : ndarray of shape (n, min(p, n_points))
    """
    if samples.shape[1] <= n_points:
        return samples
    parts = np.array_split(np.arange(samples.shape[1]), n_points)
    farthest = [np.abs(samples[:, part]).argmax(axis=1) + part[0] for part in parts]
    return np.take_along_axis(samples, np.stack(farthest, axis=1), axis=1)
