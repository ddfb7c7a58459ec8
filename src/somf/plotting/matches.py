"""Matched atoms of two models, beside each other."""

from typing import TYPE_CHECKING, Any

import numpy as np

from somf.inference.matching import Matches, match_atoms
from somf.plotting.arguments import check_count, given_or_new_axes
from somf.plotting.pictures import as_curves, as_pictures, patch_shape_of
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
from somf.typing import Array, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_COLUMNS = 8
"""Pairs in a row."""


def plot_matches(
    one: Any,
    other: Any,
    patch_shape: tuple[int, ...] | None = None,
    *,
    matches: Matches | None = None,
    n_pairs: int = 32,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw matched atoms of two models, the most similar pairs first.

    Pictures are drawn with the atom of the first model above its partner; curves over each other,
    that of the first model in gray. A partner is drawn with the sign in which it is similar. Below
    a pair are the numbers of its atoms and its similarity.

    Parameters
    ----------
    one, other : fitted estimator or ndarray of shape (n_components, n_features)
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels), to draw atoms as pictures; by default that of
        the first model.
    matches : Matches, optional
        By default what `somf.inference.matching.match_atoms` returns.
    n_pairs : int
        The largest number of pairs to draw.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    found = match_atoms(one, other) if matches is None else matches
    n = min(check_count("n_pairs", n_pairs), len(found.pairs))
    A, B = (np.asarray(getattr(model, "components_", model)) for model in (one, other))
    first, second = found.pairs[:n].T
    pairs = A[first], B[second] * found.sign[:n, None].astype(B.dtype)
    shape = patch_shape_of(one, patch_shape, A.shape[1])
    ax = given_or_new_axes(ax)
    corners, tile, top = (
        _draw_curves(ax, *pairs)
        if shape is None
        else _draw_pictures(ax, *(atoms.reshape(-1, *shape) for atoms in pairs))
    )
    for (y, x), (i, j), similarity in zip(corners, found.pairs[:n], found.similarity, strict=False):
        ax.text(
            x + tile[1] / 2,
            y + top,
            f"{i}, {j}\n{similarity:.2f}",
            fontsize="x-small",
            color="0.25",
            ha="center",
            va="top",
        )
    ax.set_axis_off()
    ax.set_title(
        f"{n} of {len(found.pairs)} pairs, mean similarity {found.mean:.2f}", fontsize="medium"
    )
    return ax


def _draw_curves(ax: "Axes", one: Array, other: Array) -> tuple[Ints, tuple[int, int], float]:
    """Draw pairs over each other; return corners, size of a tile, and where its label begins."""
    tile = (CURVE_TILE[0] + 40, CURVE_TILE[1] + 20)
    corners = grid_corners(len(one), *tile, None)
    show_tiles(ax, corners, tile)
    for atoms, color, width in ((one, FAINT, 2.0), (other, "C0", 0.8)):
        curves = as_curves(atoms, CURVE_POINTS)
        low = np.minimum(curves.min(axis=1, keepdims=True), 0)
        high = np.maximum(curves.max(axis=1, keepdims=True), 0)
        draw_curves(ax, curves, low, high, corners + np.array([5, 10]), CURVE_TILE, [color], width)
    return corners, tile, CURVE_TILE[0] + 8


def _draw_pictures(ax: "Axes", one: Array, other: Array) -> tuple[Ints, tuple[int, int], float]:
    """Draw pairs above each other; return corners, size of a tile, and where its label begins."""
    n = len(one)
    pictures, gap = zoomed(as_pictures(np.concatenate([one, other])))
    height, width = pictures.shape[1:3]
    tile = (2 * height + 2 * gap + max(height // 2, 40), width + 2 * gap)
    corners = grid_corners(n, *tile, min(N_COLUMNS, n))
    below = corners + np.array([height + gap // 2, 0])
    both = np.concatenate([corners, below])
    ax.imshow(mosaic_of(pictures, both, tile, gap, as_rgb([])))
    show_tiles(ax, corners, tile)
    return corners, tile, 2 * height + 2 * gap
