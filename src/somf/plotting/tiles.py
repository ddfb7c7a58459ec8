"""Tiles in a grid on one pair of axes: many small pictures or curves, drawn at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_POINTS = 256
"""Points of a curve in a grid of curves."""

CURVE_TILE = (60, 100)
"""Height and width of a curve in a grid of curves."""

FAINT = "0.75"


def given_or_new_axes(ax: "Axes | None") -> "Axes":
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


def grid_corners(n: int, height: int, width: int, n_columns: int | None) -> Array:
    """Return the upper left corners (y, x) of n tiles in a grid that is about square."""
    n_columns = n_columns or min(n, int(np.ceil(np.sqrt(n * height / width))))
    rows, columns = np.divmod(np.arange(n), n_columns)
    return np.stack([rows * height, columns * width], axis=1)


def mosaic_of(pictures: Array, corners: Array, margin: int, frames: Array) -> Array:
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


def draw_curves(
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


def as_rgb(colors: Sequence[Any]) -> Array:
    """Return colours as an array of shape (n, 3)."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(color) for color in colors]).reshape(-1, 3)
