"""Atoms as pictures, and as spectra or curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.pictures import as_curves, as_pictures, has_spectra, patch_shape_of
from somf.plotting.tiles import (
    CURVE_POINTS,
    CURVE_TILE,
    FAINT,
    as_rgb,
    draw_curves,
    given_or_new_axes,
    grid_corners,
    mosaic_of,
)
from somf.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_atoms(
    model: Any,
    patch_shape: tuple[int, ...] | None = None,
    *,
    n_atoms: int = 64,
    order: Any = None,
    n_columns: int | None = None,
    colors: Sequence[Any] = (),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a grid of atoms, row by row: pictures if they are patches of images, else curves.

    Patches of one or two channels are drawn in gray and those of three in their colours, every
    atom from its smallest to its largest value. More channels are taken for a spectrum: the means
    of its first, middle and last third are drawn as blue, green and red, on scales that the atoms
    share, so that the same colour stands for the same spectrum everywhere. Beside such a picture is
    the mean spectrum of the atom, over that of all atoms in gray.

    Parameters
    ----------
    model : fitted estimator or ndarray of shape (n_components, n_features)
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels). By default ``model.patch_shape_``, which a
        fit on `ImagePatches` leaves; without either, atoms are curves.
    n_atoms : int
        The largest number of atoms to draw.
    order : array-like of int, optional
        Which atoms come first; by default they are taken as they are.
    n_columns : int, optional
        Atoms per row; by default as many as make the whole about square.
    colors : sequence of matplotlib colours
        For the frames of the first pictures, or the first curves; for example the colours of
        `plot_spectra`.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    components = _components(model)
    shape = patch_shape_of(model, patch_shape, components.shape[1])
    atoms = _chosen(components, n_atoms, order)
    ax = given_or_new_axes(ax)
    if shape is None:
        _draw_as_curves(ax, atoms, n_columns, colors)
    else:
        mean = components.mean(axis=0).reshape(shape)
        _draw_as_pictures(ax, atoms.reshape(-1, *shape), mean, n_columns, colors)
    ax.set_axis_off()
    return ax


def _draw_as_curves(ax: "Axes", atoms: Array, n_columns: int | None, colors: Sequence[Any]) -> None:
    curves = as_curves(atoms, CURVE_POINTS)
    low = np.minimum(curves.min(axis=1, keepdims=True), 0)
    high = np.maximum(curves.max(axis=1, keepdims=True), 0)
    corners = grid_corners(len(curves), CURVE_TILE[0] + 20, CURVE_TILE[1] + 20, n_columns)
    draw_curves(ax, np.zeros_like(curves), low, high, corners, CURVE_TILE, [FAINT])
    draw_curves(ax, curves, low, high, corners, CURVE_TILE, _filled_up(colors, len(curves)))
    ax.autoscale_view()
    ax.invert_yaxis()


def _draw_as_pictures(
    ax: "Axes", atoms: Array, mean: Array, n_columns: int | None, colors: Sequence[Any]
) -> None:
    n, height, width = atoms.shape[:3]
    with_spectra = has_spectra(atoms.shape[1:])
    margin = width * 3 // 2 if with_spectra else 0
    corners = grid_corners(n, height + 4, width + 4 + margin, n_columns)
    ax.imshow(mosaic_of(as_pictures(atoms), corners, margin, as_rgb(colors[:n])))
    if not with_spectra:
        return
    spectra, usual = atoms.mean(axis=(1, 2)), mean.mean(axis=(0, 1))
    low, high = min(spectra.min(), usual.min()), max(spectra.max(), usual.max())
    places, size = corners + np.array([2, width + 4]), (height, 1.3 * width)
    draw_curves(ax, np.tile(usual, (n, 1)), low, high, places, size, [FAINT], 2)
    draw_curves(ax, spectra, low, high, places, size, _filled_up(colors, n))


def plot_spectra(
    model: Any,
    patch_shape: tuple[int, ...] | None = None,
    *,
    n_atoms: int = 6,
    order: Any = None,
    centered: bool = False,
    wavelengths: Any = None,
    colors: Sequence[Any] = (),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw atoms as curves: their spectra, averaged over the patch, or all of their features.

    Parameters
    ----------
    model : fitted estimator or ndarray of shape (n_components, n_features)
    patch_shape : tuple of int, optional
        (height, width, channels). By default ``model.patch_shape_``; without either, an atom is one
        curve over the features.
    n_atoms : int
        The largest number of atoms to draw.
    order : array-like of int, optional
        Which atoms come first; by default they are taken as they are.
    centered : bool
        Whether to subtract the mean of all atoms: atoms of raw radiances differ by little from what
        the whole scene looks like.
    wavelengths : array-like of shape (channels,), optional
        Where the channels (or features) lie; by default they are numbered. A curve is not drawn
        across a gap, such as the bands that the atmosphere absorbs.
    colors : sequence of matplotlib colours
        Colours of the first curves; by default those of matplotlib.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    components = _components(model)
    n_features = components.shape[1]
    shape = patch_shape_of(model, patch_shape, n_features) or (1, 1, n_features)
    if len(shape) != 3:
        raise ValueError(f"patch_shape must be (height, width, channels), got {shape}.")
    spectra = _chosen(components, n_atoms, order).reshape(-1, *shape).mean(axis=(1, 2))
    if centered:
        spectra = spectra - components.reshape(-1, *shape).mean(axis=(0, 1, 2))
    n_channels = shape[2]
    x = np.arange(n_channels) if wavelengths is None else np.asarray(wavelengths, dtype=float)
    if x.shape != (n_channels,):
        raise ValueError(f"wavelengths must have shape ({n_channels},), got {x.shape}.")
    steps = np.diff(x)
    usual = np.median(steps) if len(steps) else 0
    gaps = np.flatnonzero(steps > 3 * usual) + 1
    ax = given_or_new_axes(ax)
    for i, spectrum in enumerate(spectra):
        color = colors[i] if i < len(colors) else None
        ax.plot(np.insert(x, gaps, x[gaps]), np.insert(spectrum, gaps, np.nan), color=color)
    is_spectrum = n_channels < n_features
    ax.set_xlabel("wavelength" if wavelengths is not None else _channel(is_spectrum))
    what = "mean over the patch" if is_spectrum else "value"
    ax.set_ylabel("difference from the mean atom" if centered else what)
    return ax


def _components(model: Any) -> Array:
    """Return the atoms of a model, or the atoms that were given."""
    components = np.asarray(getattr(model, "components_", model))
    if components.ndim != 2 or 0 in components.shape:
        raise ValueError(
            "model must be a fitted estimator or an array of shape (n_components, n_features), "
            f"got {model!r}."
        )
    return components


def _chosen(components: Array, n_atoms: int, order: Any) -> Array:
    """Return the atoms to draw."""
    return components[:n_atoms] if order is None else components[np.asarray(order)[:n_atoms]]


def _filled_up(colors: Sequence[Any], n: int) -> list[Any]:
    """Return a colour for each of n curves: those given, and then one for all others."""
    return [*colors[:n], *["0.3" if colors else "C0"] * (n - len(colors))]


def _channel(is_spectrum: bool) -> str:
    return "channel" if is_spectrum else "feature"
