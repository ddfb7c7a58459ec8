"""Atoms as pictures, and as spectra or curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.data.channels import Channels
from somf.errors import ParameterError
from somf.plotting.arguments import check_count, check_indices, given_or_new_axes
from somf.plotting.pictures import (
    as_curves,
    as_pictures,
    has_spectra,
    known_channels,
    patch_shape_of,
)
from somf.plotting.tiles import (
    CURVE_POINTS,
    CURVE_TILE,
    FAINT,
    as_rgb,
    draw_curves,
    draw_numbers,
    grid_corners,
    mosaic_of,
    show_tiles,
    zoomed,
)
from somf.typing import Array, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 40
"""The largest number of names of features on an axis."""

MOST_IN_LEGEND = 10
"""The largest number of curves with a legend: more cannot be told apart."""


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
    """Draw a grid of atoms: as pictures if they are patches of images, else as curves.

    Patches of one or two channels are gray, and those of three channels are RGB. The scale of an
    atom is from its smallest to its largest value. If there are negative values, all atoms share
    one scale, on which zero is middle gray.

    Patches of more channels are spectra. The means of the first, middle and last third of the
    channels are blue, green and red, on scales that all atoms share: the same colour is the same
    spectrum everywhere. Beside the picture is the mean spectrum of the atom, over the mean spectrum
    of all atoms in gray.

    Below each atom is its number, which is its row in ``components_``.

    Parameters
    ----------
    model : fitted estimator or ndarray of shape (n_components, n_features)
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels). By default ``model.patch_shape_``, which a
        fit on `ImagePatches` sets. Without either, atoms are curves.
    n_atoms : int
        The largest number of atoms to draw.
    order : array-like of int, optional
        The atoms to draw, in this order; by default the first ones.
    n_columns : int, optional
        Atoms per row; by default the grid is about square.
    colors : sequence of matplotlib colours
        Colours for the frames of the first pictures, or for the first curves; for example those of
        `plot_spectra`.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    components = _components(model)
    shape = patch_shape_of(model, patch_shape, components.shape[1])
    chosen = _chosen(len(components), n_atoms, order)
    n_columns = None if n_columns is None else check_count("n_columns", n_columns)
    ax = given_or_new_axes(ax)
    if shape is None:
        _draw_as_curves(ax, components, chosen, n_columns, colors)
    else:
        atoms = components.reshape(-1, *shape)
        _draw_as_pictures(ax, atoms, chosen, n_columns, colors)
    ax.set_axis_off()
    if len(chosen) < len(components):
        ax.set_title(f"{len(chosen)} of {len(components)} atoms", fontsize="medium")
    return ax


def _draw_as_curves(
    ax: "Axes", atoms: Array, chosen: Ints, n_columns: int | None, colors: Sequence[Any]
) -> None:
    curves = as_curves(atoms[chosen], CURVE_POINTS)
    low = np.minimum(curves.min(axis=1, keepdims=True), 0)
    high = np.maximum(curves.max(axis=1, keepdims=True), 0)
    tile = (CURVE_TILE[0] + 25, CURVE_TILE[1] + 20)
    corners = grid_corners(len(curves), *tile, n_columns)
    show_tiles(ax, corners, tile)
    places = corners + np.array([5, 10])
    draw_curves(ax, np.zeros_like(curves), low, high, places, CURVE_TILE, [FAINT])
    draw_curves(ax, curves, low, high, places, CURVE_TILE, _filled_up(colors, len(curves)))
    draw_numbers(ax, chosen, places + np.array([CURVE_TILE[0] + 3, 0]), 12)


def _draw_as_pictures(
    ax: "Axes", atoms: Array, chosen: Ints, n_columns: int | None, colors: Sequence[Any]
) -> None:
    n = len(chosen)
    pictures, gap = zoomed(as_pictures(atoms[chosen]))
    height, width = pictures.shape[1:3]
    beside = int(1.3 * width) if has_spectra(atoms.shape[1:]) else 0
    tile = (height + 5 * gap, width + 2 * gap + beside)
    corners = grid_corners(n, *tile, n_columns)
    ax.imshow(mosaic_of(pictures, corners, tile, gap, as_rgb(colors[:n])))
    show_tiles(ax, corners, tile)
    draw_numbers(ax, chosen, corners + np.array([height + 1.8 * gap, gap]), 2.5 * gap)
    if beside:
        spectra, usual = atoms[chosen].mean(axis=(1, 2)), atoms.mean(axis=(0, 1, 2))
        low, high = min(spectra.min(), usual.min()), max(spectra.max(), usual.max())
        places = corners + np.array([gap, width + 2 * gap])
        size = (height, beside - gap)
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
        (height, width, channels). By default ``model.patch_shape_``. Without several channels, an
        atom is one curve over the features.
    n_atoms : int
        The largest number of atoms to draw.
    order : array-like of int, optional
        The atoms to draw, in this order; by default the first ones.
    centered : bool
        Whether to subtract the mean of all atoms. Atoms of raw radiances differ little from the
        mean spectrum of the scene.
    wavelengths : array-like of shape (channels,), optional
        Wavelengths of the channels (or features); by default those that the model knows, with
        their unit, else their numbers, or up to 40 names. A curve is interrupted at a gap, such as
        the bands that the atmosphere absorbs.
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
    shape = patch_shape_of(model, patch_shape, n_features)
    is_spectrum = shape is not None and len(shape) == 3 and shape[2] > 1
    n_channels = shape[2] if shape is not None and is_spectrum else n_features
    chosen = _chosen(len(components), n_atoms, order)
    spectra = components.reshape(len(components), -1, n_channels).mean(axis=1)
    if centered:
        spectra = spectra - spectra.mean(axis=0)
    channel = "channel" if is_spectrum else "feature"
    channels = _drawn_channels(model, wavelengths, n_channels) or Channels(label=channel)
    x = np.arange(n_channels) if channels.values is None else np.array(channels.values)
    gaps = _gaps(x)
    ax = given_or_new_axes(ax)
    for i, j in enumerate(chosen):
        y, color = np.insert(spectra[j], gaps, np.nan), colors[i] if i < len(colors) else None
        ax.plot(np.insert(x, gaps, x[gaps]), y, color=color, label=f"atom {j}")
    if len(chosen) <= MOST_IN_LEGEND:
        ax.legend(fontsize="small")
    if channels.names is not None and channels.values is None and n_channels <= MOST_NAMES:
        ax.set_xticks(x, channels.names, rotation=90, fontsize="small")
    elif channels.values is None:
        ax.locator_params("x", integer=True)
    ax.set_xlabel(channel if channels.values is None else channels.title)
    what = "mean over the patch" if is_spectrum else "value"
    ax.set_ylabel("difference from the mean atom" if centered else what)
    return ax


def _drawn_channels(model: Any, wavelengths: Any, n_channels: int) -> Channels | None:
    """Return the channels that the caller gives, or those that the model knows."""
    if wavelengths is None:
        return known_channels(model, n_channels)
    values = np.asarray(wavelengths, dtype=float)
    if values.shape != (n_channels,):
        raise ParameterError(
            "wavelengths", f"have shape ({n_channels},)", wavelengths, got=str(values.shape)
        )
    return Channels(tuple(values.tolist()))


def _gaps(wavelengths: Array) -> Ints:
    """Return the channels that lie far from the one before them."""
    steps = np.abs(np.diff(wavelengths))  # they may be in descending order
    return np.flatnonzero(steps > 3 * np.median(steps if len(steps) else 0)) + 1


def _components(model: Any) -> Array:
    """Return the atoms of a model; an array is the atoms themselves."""
    components = np.asarray(getattr(model, "components_", model))
    if components.ndim != 2 or 0 in components.shape:
        raise ParameterError(
            "model",
            "be a fitted estimator or an array of shape (n_components, n_features)",
            model,
        )
    if not np.isfinite(components).all():
        raise ParameterError("model", "have finite atoms", model, got="NaN or infinity")
    return components


def _chosen(k: int, n_atoms: Any, order: Any) -> Ints:
    """Return the numbers of the atoms to draw."""
    n = check_count("n_atoms", n_atoms)
    return np.arange(min(n, k)) if order is None else check_indices("order", order, k)[:n]


def _filled_up(colors: Sequence[Any], n: int) -> list[Any]:
    """Return a colour for each of n curves: the given ones, then one for all others."""
    return [*colors[:n], *["0.3" if colors else "C0"] * (n - len(colors))]
