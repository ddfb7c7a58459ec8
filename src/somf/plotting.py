"""Pictures of what was learned: atoms, their spectra and usage, the course of a fit, samples."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from somf.data import as_source
from somf.pictures import (
    as_curves,
    as_pictures,
    color_range,
    colors_of,
    has_spectra,
    patch_shape_of,
)
from somf.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY_LABELS = {
    "n_samples_seen": "samples seen",
    "n_iter": "iterations",
    "compute_seconds": "seconds of computation",
    "wall_seconds": "seconds",
}
"""What `plot_history` may have on its horizontal axis."""

CURVE_POINTS = 256
"""Points of a curve in a grid of curves."""

CURVE_TILE = (60, 100)
"""Height and width of a curve in a grid of curves."""

FAINT = "0.75"


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
    ax = _axes(ax)
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
    corners = _corners(len(curves), CURVE_TILE[0] + 20, CURVE_TILE[1] + 20, n_columns)
    _draw_curves(ax, np.zeros_like(curves), low, high, corners, CURVE_TILE, [FAINT])
    _draw_curves(ax, curves, low, high, corners, CURVE_TILE, _filled_up(colors, len(curves)))
    ax.autoscale_view()
    ax.invert_yaxis()


def _draw_as_pictures(
    ax: "Axes", atoms: Array, mean: Array, n_columns: int | None, colors: Sequence[Any]
) -> None:
    n, height, width = atoms.shape[:3]
    with_spectra = has_spectra(atoms.shape[1:])
    margin = width * 3 // 2 if with_spectra else 0
    corners = _corners(n, height + 4, width + 4 + margin, n_columns)
    ax.imshow(_mosaic(as_pictures(atoms), corners, margin, _rgb(colors[:n])))
    if not with_spectra:
        return
    spectra, usual = atoms.mean(axis=(1, 2)), mean.mean(axis=(0, 1))
    low, high = min(spectra.min(), usual.min()), max(spectra.max(), usual.max())
    places, size = corners + np.array([2, width + 4]), (height, 1.3 * width)
    _draw_curves(ax, np.tile(usual, (n, 1)), low, high, places, size, [FAINT], 2)
    _draw_curves(ax, spectra, low, high, places, size, _filled_up(colors, n))


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
    ax = _axes(ax)
    for i, spectrum in enumerate(spectra):
        color = colors[i] if i < len(colors) else None
        ax.plot(np.insert(x, gaps, x[gaps]), np.insert(spectrum, gaps, np.nan), color=color)
    is_spectrum = n_channels < n_features
    ax.set_xlabel("wavelength" if wavelengths is not None else _channel(is_spectrum))
    what = "mean over the patch" if is_spectrum else "value"
    ax.set_ylabel("difference from the mean atom" if centered else what)
    return ax


def plot_history(
    model: Any,
    x: str = "compute_seconds",
    *,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the validation objective against time, iterations or samples.

    Parameters
    ----------
    model : estimator that was fitted with validation data, or its ``history_``
    x : {"compute_seconds", "wall_seconds", "n_samples_seen", "n_iter"}
        What to draw it against.
    label : str, optional
        Name of the curve in a legend, where several are drawn on the same axes.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    history = getattr(model, "history_", model)
    if x not in HISTORY_LABELS:
        raise ValueError(f"x must be one of {sorted(HISTORY_LABELS)}, got {x!r}.")
    if "objective" not in history:
        raise ValueError(
            f"history must have a column 'objective', got {sorted(history)}. "
            "It is measured by fit(X, validation=...)."
        )
    ax = _axes(ax)
    ax.plot(history[x], history["objective"], marker="o", markersize=4, label=label)
    ax.set_xlabel(HISTORY_LABELS[x])
    ax.set_ylabel("validation objective")
    return ax


def plot_usage(codes: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how many samples use each atom, most used first, and the density of the codes.

    The density of codes, the fraction that is not zero, is the mean height of the bars. Where no
    code is zero, as with a squared ℓ2 penalty, the bars are the mean sizes of codes.

    Parameters
    ----------
    codes : ndarray or sparse matrix of shape (n_samples, n_components)
        What `transform` returns.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    codes = sp.csr_array(codes) if sp.issparse(codes) else np.asarray(codes)
    usage = np.asarray((codes != 0).mean(axis=0))
    is_dense = usage.min() == 1
    if is_dense:
        usage = np.asarray(abs(codes).mean(axis=0))
    ax = _axes(ax)
    places = np.arange(1, len(usage) + 1)
    ax.fill_between(places, np.sort(usage)[::-1], step="mid", alpha=0.35, linewidth=0)
    ax.step(places, np.sort(usage)[::-1], where="mid")
    ax.set_xlabel("atoms, most used first")
    ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    if is_dense:
        ax.set_ylabel("mean size of codes")
        ax.set_title("No code is zero")
        return ax
    density = usage.mean()
    ax.axhline(density, color="0.4", linestyle="--", linewidth=1)
    ax.set_ylabel("fraction of samples that use it")
    ax.set_title(
        f"{density:.1%} of the codes are not zero: {density * len(usage):.1f} atoms per sample\n"
        f"{np.count_nonzero(usage == 0)} of {len(usage)} atoms unused",
        fontsize="medium",
    )
    return ax


def plot_reconstructions(
    model: Any,
    X: Any,
    patch_shape: tuple[int, ...] | None = None,
    *,
    n_samples: int = 8,
    ids: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw samples, what the model makes of them, and the error, one sample per column.

    A picture and its reconstruction are drawn on the scale of the sample (spectra on that of all
    samples), and the error on the same scale from black, which is none. Samples that are not
    patches are drawn as curves, in gray with the reconstruction over it, and the error below. Over
    a column is ‖x − Dα‖ / ‖x‖.

    Parameters
    ----------
    model : fitted estimator
    X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        Only the samples that are drawn are read.
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels); by default that of the model.
    n_samples : int
        How many samples, evenly spaced, to draw.
    ids : array-like of int, optional
        The samples to draw, instead.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    samples = _some_samples(X, n_samples, ids).astype(model.components_.dtype, copy=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        reconstructions = model.inverse_transform(model.transform(samples))
    shape = patch_shape_of(model, patch_shape, samples.shape[1])
    ax = _axes(ax)
    if shape is None:
        names = ["sample and\nreconstruction", "error"]
        tile = _draw_pairs_of_curves(ax, samples, reconstructions)
    else:
        names = ["sample", "reconstruction", "error"]
        patches = samples.reshape(-1, *shape), reconstructions.reshape(-1, *shape)
        tile = _draw_pairs_of_pictures(ax, *patches)
    norms = np.linalg.norm(samples, axis=1)
    errors = np.linalg.norm(samples - reconstructions, axis=1) / np.where(norms > 0, norms, 1)
    centres = [
        size * (np.arange(n) + 0.5) for size, n in zip(tile, (len(names), len(norms)), strict=True)
    ]
    ax.set_yticks(centres[0], names)
    ax.set_xticks(centres[1], [f"{error:.0%}" for error in errors])
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    return ax


def _some_samples(X: Any, n_samples: int, ids: Any) -> Array:
    source = as_source(X)
    if ids is None:
        ids = np.linspace(0, source.shape[0] - 1, min(n_samples, source.shape[0])).astype(int)
    rows: Any = source.rows(np.asarray(ids))
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def _draw_pairs_of_curves(ax: "Axes", samples: Array, again: Array) -> tuple[int, int]:
    """Draw samples and reconstructions in one row, errors in another; return the size of tiles."""
    n, tile = len(samples), (CURVE_TILE[0] + 10, CURVE_TILE[1] + 20)
    corners = _corners(2 * n, *tile, n_columns=n)
    low = samples.min(axis=1, keepdims=True)
    high = np.maximum(samples.max(axis=1, keepdims=True), low + np.finfo(low.dtype).tiny)
    reach = (high - low) / 2
    for values, color in ((samples, "0.6"), (again, "C0")):
        curves = as_curves(values, CURVE_POINTS)
        _draw_curves(ax, curves, low, high, corners[:n], CURVE_TILE, [color])
    for values, color in ((np.zeros_like(samples), FAINT), (samples - again, "C3")):
        curves = as_curves(values, CURVE_POINTS)
        _draw_curves(ax, curves, -reach, reach, corners[n:], CURVE_TILE, [color])
    ax.autoscale_view()
    ax.invert_yaxis()
    return tile


def _draw_pairs_of_pictures(ax: "Axes", samples: Array, again: Array) -> tuple[int, int]:
    """Draw samples, reconstructions and errors in a row each; return the size of tiles."""
    (n, height, width), colors, colors_again = (
        samples.shape[:3],
        colors_of(samples),
        colors_of(again),
    )
    low, high = color_range(colors, has_spectra(samples.shape[1:]))
    rows = (colors - low, colors_again - low, np.abs(colors - colors_again))
    pictures = np.concatenate([np.clip(row / (high - low), 0, 1) for row in rows])
    tile = (height + 4, width + 4)
    corners = _corners(3 * n, *tile, n_columns=n)
    ax.imshow(_mosaic(pictures, corners, 0, _rgb([])))
    return tile


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


def _axes(ax: "Axes | None") -> "Axes":
    """Return the axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "somf.plotting draws with matplotlib: pip install 'somf[plot]'."
        ) from error
    new: Axes = plt.figure(layout="constrained").add_subplot()
    return new


def _corners(n: int, height: int, width: int, n_columns: int | None) -> Array:
    """Return the upper left corners (y, x) of n tiles in a grid that is about square."""
    n_columns = n_columns or min(n, int(np.ceil(np.sqrt(n * height / width))))
    rows, columns = np.divmod(np.arange(n), n_columns)
    return np.stack([rows * height, columns * width], axis=1)


def _mosaic(pictures: Array, corners: Array, margin: int, frames: Array) -> Array:
    """Return one picture of all, each with a margin at its right.

    Around a picture there is a frame, white if none is given, and around that a gap, of one pixel
    each.
    """
    _, height, width, _ = pictures.shape
    bottom, right = corners.max(axis=0)
    mosaic = np.ones((bottom + height + 4, right + width + 4 + margin, 3))
    for (y, x), frame in zip(corners, frames, strict=False):
        mosaic[y + 1 : y + height + 3, x + 1 : x + width + 3] = frame
    for (y, x), picture in zip(corners, pictures, strict=True):
        mosaic[y + 2 : y + height + 2, x + 2 : x + width + 2] = picture
    return mosaic


def _draw_curves(
    ax: "Axes",
    curves: Array,
    low: Any,
    high: Any,
    corners: Array,
    size: tuple[float, float],
    colors: Sequence[Any],
    width: float = 0.8,
) -> None:
    """Draw every curve in its own tile, from `low` at the bottom to `high` at the top."""
    from matplotlib.collections import LineCollection

    span = np.where(high > low, np.subtract(high, low), 1)
    y = corners[:, :1] + size[0] * (1 - (curves - low) / span)
    x = corners[:, 1:] + size[1] * np.linspace(0, 1, curves.shape[1])
    ax.add_collection(
        LineCollection(list(np.stack([x, y], axis=2)), colors=colors, linewidths=width)
    )


def _filled_up(colors: Sequence[Any], n: int) -> list[Any]:
    """Return a colour for each of n curves: those given, and then one for all others."""
    return [*colors[:n], *["0.3" if colors else "C0"] * (n - len(colors))]


def _channel(is_spectrum: bool) -> str:
    return "channel" if is_spectrum else "feature"


def _rgb(colors: Sequence[Any]) -> Array:
    """Return colours as an array of shape (n, 3)."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(color) for color in colors]).reshape(-1, 3)
