"""Samples beside their reconstructions."""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from somf.data import Offsets, as_source
from somf.data.offsets import known_entries
from somf.plotting.arguments import check_count, check_indices, given_or_new_axes
from somf.plotting.pictures import as_curves, color_range, colors_of, has_spectra, patch_shape_of
from somf.plotting.tiles import (
    CURVE_POINTS,
    CURVE_TILE,
    FAINT,
    as_rgb,
    draw_curves,
    grid_corners,
    mosaic_of,
    show_tiles,
    zoomed,
)
from somf.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_reconstructions(
    model: Any,
    X: Any,
    patch_shape: tuple[int, ...] | None = None,
    *,
    n_samples: int = 8,
    ids: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw samples, their reconstructions and the errors, one sample per column.

    A picture and its reconstruction have the scale of the sample, or for spectra the scale of all
    samples. The error has a scale of the same length, on which zero is black. Samples that are not
    patches are curves in gray, with the reconstruction over them and the error below. The number
    above a column is ‖x − Dα‖ / ‖x‖.

    Parameters
    ----------
    model : fitted estimator
    X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        Only the samples that are drawn are read.
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels); by default that of the model.
    n_samples : int
        How many samples to draw, evenly spaced.
    ids : array-like of int, optional
        The samples to draw; overrides `n_samples`.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    check_is_fitted(model)
    samples, reconstructions = samples_and_reconstructions(model, X, n_samples, ids)
    shape = patch_shape_of(model, patch_shape, samples.shape[1])
    ax = given_or_new_axes(ax)
    if shape is None:
        names = ["sample,\nmodel", "error"]
        tile = _draw_pairs_of_curves(ax, samples, reconstructions)
    else:
        names = ["sample", "model", "error"]
        patches = samples.reshape(-1, *shape), reconstructions.reshape(-1, *shape)
        tile = _draw_pairs_of_pictures(ax, *patches)
    errors = relative_errors(samples, reconstructions)
    centres = [
        size * (np.arange(n) + 0.5) for size, n in zip(tile, (len(names), len(errors)), strict=True)
    ]
    ax.set_yticks(centres[0], names)
    ax.set_xticks(centres[1], [f"{error:.0%}" for error in errors])
    ax.tick_params(labelsize="small", length=0, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    return ax


def samples_and_reconstructions(
    model: Any, X: Any, n_samples: int, ids: Any = None
) -> tuple[Array, Array]:
    """Return some samples, and what their codes stand for.

    Parameters
    ----------
    model : fitted estimator
    X : array-like, sparse matrix, path or Source of shape (n, p)
    n_samples : int
        How many samples, evenly spaced.
    ids : array-like of int, optional
        Which samples; overrides `n_samples`.

    Returns
    -------
    samples, reconstructions : ndarray of shape (n_samples, p)
        Where a sample is unknown, it is its reconstruction.
    """
    rows = _some_samples(X, n_samples, ids)
    # A source, unlike an array, need not have the names of features of the fit.
    reconstructions = model.inverse_transform(model.transform(as_source(rows)))
    samples = _dense(rows, model.missing).astype(model.components_.dtype, copy=False)
    if model.center == "both":
        reconstructions += Offsets(model.offsets_).of_samples(rows)[:, None]
    return np.where(np.isnan(samples), reconstructions, samples), reconstructions


def relative_errors(samples: Array, reconstructions: Array) -> Array:
    """Return ‖x − Dα‖ / ‖x‖ of every sample, of shape (n,); for a zero sample, ‖Dα‖."""
    norms = np.linalg.norm(samples, axis=1)
    errors = np.linalg.norm(samples - reconstructions, axis=1)
    return np.asarray(errors / np.where(norms > 0, norms, 1))


def _some_samples(X: Any, n_samples: int, ids: Any) -> Any:
    source = as_source(X)
    n = source.shape[0]
    if ids is None:
        ids = np.linspace(0, n - 1, min(check_count("n_samples", n_samples), n)).astype(int)
    return source.rows(check_indices("ids", ids, n))


def _dense(rows: Any, missing: str) -> Array:
    """Return samples as an array, with NaN where they are unknown."""
    if not sp.issparse(rows):
        return np.asarray(rows)
    if missing != "absent":
        return np.asarray(rows.toarray())
    dense = np.full(rows.shape, np.nan)
    samples, features, entries, _ = known_entries(rows)
    dense[samples, features] = entries
    return dense


def _draw_pairs_of_curves(ax: "Axes", samples: Array, again: Array) -> tuple[int, int]:
    """Draw samples and reconstructions in one row, errors in another; return the size of tiles."""
    n, tile = len(samples), (CURVE_TILE[0] + 10, CURVE_TILE[1] + 20)
    corners = grid_corners(2 * n, *tile, n_columns=n)
    show_tiles(ax, corners, tile)
    corners = corners + np.array([5, 10])
    low = samples.min(axis=1, keepdims=True)
    high = np.maximum(samples.max(axis=1, keepdims=True), low + np.finfo(low.dtype).tiny)
    reach = (high - low) / 2
    for values, color in ((samples, "0.6"), (again, "C0")):
        curves = as_curves(values, CURVE_POINTS)
        draw_curves(ax, curves, low, high, corners[:n], CURVE_TILE, [color])
    for values, color in ((np.zeros_like(samples), FAINT), (samples - again, "C3")):
        curves = as_curves(values, CURVE_POINTS)
        draw_curves(ax, curves, -reach, reach, corners[n:], CURVE_TILE, [color])
    return tile


def _draw_pairs_of_pictures(ax: "Axes", samples: Array, again: Array) -> tuple[int, int]:
    """Draw samples, reconstructions and errors in a row each; return the size of tiles."""
    n, colors, colors_again = len(samples), colors_of(samples), colors_of(again)
    low, high = color_range(colors, has_spectra(samples.shape[1:]))
    rows = (colors - low, colors_again - low, np.abs(colors - colors_again))
    pictures, gap = zoomed(np.concatenate([np.clip(row / (high - low), 0, 1) for row in rows]))
    tile = (pictures.shape[1] + 2 * gap, pictures.shape[2] + 2 * gap)
    corners = grid_corners(3 * n, *tile, n_columns=n)
    ax.imshow(mosaic_of(pictures, corners, tile, gap, as_rgb([])))
    show_tiles(ax, corners, tile)
    return tile
