"""Pictures of what was learned: atoms of patches, their spectra, the course of a fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.callbacks import History
from somf.typing import Array, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY_LABELS = {
    "n_samples_seen": "samples seen",
    "n_iter": "iterations",
    "compute_seconds": "seconds of computation",
    "wall_seconds": "seconds",
}
"""What `plot_history` may have on its horizontal axis."""

STRETCH = (2, 98)
"""Percentiles of a false colour that are shown as none and all of it."""


def plot_atoms(
    components: Array,
    patch_shape: tuple[int, ...],
    *,
    n_atoms: int = 64,
    order: Any = None,
    n_columns: int | None = None,
    colors: Sequence[Any] = (),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw atoms of image patches as a grid of pictures, row by row.

    Patches of one or two channels are drawn in gray and those of three in their colours, every
    atom from its smallest to its largest value. More channels are taken for a spectrum: the means
    of its first, middle and last third are drawn as blue, green and red, on scales that the atoms
    share, so that the same colour stands for the same spectrum everywhere.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        The atoms, as in ``components_``.
    patch_shape : tuple of int
        (height, width) or (height, width, channels), as in ``ImagePatches.patch_shape``.
    n_atoms : int
        The largest number of atoms to draw.
    order : array-like of int, optional
        Which atoms come first; by default they are taken as they are.
    n_columns : int, optional
        Atoms per row; by default about as many as rows.
    colors : sequence of matplotlib colours
        Frames for the first atoms, for example the colours of their curves in `plot_spectra`.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    atoms = _chosen_atoms(components, patch_shape, n_atoms, order)
    ax = _axes(ax)
    pictures = _pictures(atoms)
    n, height, width, _ = pictures.shape
    n_columns = n_columns or int(np.ceil(np.sqrt(n)))
    n_rows = -(-n // n_columns)

    # Around a picture there is a frame and around that a gap, of one pixel each.
    tiles = np.ones((n_rows * n_columns, height + 4, width + 4, 3))
    frames = _rgb(colors[:n])
    tiles[: len(frames), 1:-1, 1:-1] = frames[:, None, None]
    tiles[:n, 2:-2, 2:-2] = pictures
    grid = tiles.reshape(n_rows, n_columns, height + 4, width + 4, 3)
    ax.imshow(grid.swapaxes(1, 2).reshape(n_rows * (height + 4), n_columns * (width + 4), 3))
    ax.set_axis_off()
    return ax


def plot_spectra(
    components: Array,
    patch_shape: tuple[int, ...],
    *,
    n_atoms: int = 6,
    order: Any = None,
    centered: bool = False,
    wavelengths: Any = None,
    colors: Sequence[Any] = (),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the spectra of atoms, averaged over the pixels of the patch.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        The atoms, as in ``components_``.
    patch_shape : tuple of (int, int, int)
        (height, width, channels), as in ``ImagePatches.patch_shape``.
    n_atoms : int
        The largest number of atoms to draw.
    order : array-like of int, optional
        Which atoms come first; by default they are taken as they are.
    centered : bool
        Whether to subtract the mean spectrum of all atoms: atoms of raw radiances differ by little
        from what the whole scene looks like.
    wavelengths : array-like of shape (channels,), optional
        Where the channels lie; by default they are numbered. A curve is not drawn across a gap,
        such as the bands that the atmosphere absorbs.
    colors : sequence of matplotlib colours
        Colours of the first curves; by default those of matplotlib.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    if len(patch_shape) != 3:
        raise ValueError(f"patch_shape must be (height, width, channels), got {patch_shape}.")
    spectra = _chosen_atoms(components, patch_shape, n_atoms, order).mean(axis=(1, 2))
    if centered:
        spectra = spectra - components.reshape(-1, *patch_shape).mean(axis=(0, 1, 2))
    n_channels = patch_shape[2]
    x = np.arange(n_channels) if wavelengths is None else np.asarray(wavelengths, dtype=float)
    if x.shape != (n_channels,):
        raise ValueError(f"wavelengths must have shape ({n_channels},), got {x.shape}.")
    steps = np.diff(x)
    gaps = np.flatnonzero(steps > 3 * np.median(steps)) + 1
    ax = _axes(ax)
    for i, spectrum in enumerate(spectra):
        color = colors[i] if i < len(colors) else None
        ax.plot(np.insert(x, gaps, x[gaps]), np.insert(spectrum, gaps, np.nan), color=color)
    ax.set_xlabel("channel" if wavelengths is None else "wavelength")
    ax.set_ylabel("difference from the mean atom" if centered else "mean over the patch")
    return ax


def plot_history(
    history: History,
    x: str = "compute_seconds",
    *,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the validation objective against time, iterations or samples.

    Parameters
    ----------
    history : dict of lists
        ``history_`` of an estimator that was fitted with validation data.
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


def _rgb(colors: Sequence[Any]) -> Array:
    """Return colours as an array of shape (n, 3)."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(color) for color in colors]).reshape(-1, 3)


def _chosen_atoms(
    components: Array, patch_shape: tuple[int, ...], n_atoms: int, order: Ints | None
) -> Array:
    """Return the atoms to draw, of shape (n, *patch_shape)."""
    if len(patch_shape) not in (2, 3) or np.prod(patch_shape) != components.shape[1]:
        raise ValueError(
            "patch_shape must be (height, width) or (height, width, channels) with "
            f"n_features={components.shape[1]} values in all, got {patch_shape}."
        )
    chosen = components if order is None else components[np.asarray(order)[:n_atoms]]
    return chosen[:n_atoms].reshape(-1, *patch_shape)


def _pictures(atoms: Array) -> Array:
    """Return atoms as RGB pictures of shape (n, height, width, 3), from 0 to 1."""
    channels = atoms[..., None] if atoms.ndim == 3 else atoms
    if channels.shape[-1] > 3:
        thirds = np.array_split(channels, 3, axis=-1)
        colors = np.stack([third.mean(axis=-1) for third in reversed(thirds)], axis=-1)
        low, high = np.percentile(colors, STRETCH, axis=(0, 1, 2))
    else:
        is_rgb = channels.shape[-1] == 3
        gray = channels.mean(axis=-1, keepdims=True).repeat(3, axis=-1)
        colors = channels if is_rgb else gray
        low, high = (f(colors, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    span = np.where(high > low, high - low, 1)
    return np.asarray(np.clip((colors - low) / span, 0, 1))
