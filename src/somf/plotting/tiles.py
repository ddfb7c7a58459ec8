"""Tiles in a grid on one pair of axes: many small pictures or curves, drawn at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.typing import Array, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_POINTS = 256
"""Points of a curve in a grid of curves."""

CURVE_TILE = (60, 100)
"""Height and width of a curve in a grid of curves."""

PICTURE_SIDE = 60
"""Pixels along a picture, at least: those of a small patch are repeated, so that frames, gaps and
spectra have the same size beside any patch."""

LARGEST_FONT = 9

FAINT = "0.75"


def grid_corners(n: int, height: int, width: int, n_columns: int | None) -> Ints:
    """Return the upper left corners (y, x) of n tiles in a grid that is about square."""
    if n_columns is None:
        n_rows = -(-n // int(np.ceil(np.sqrt(n * height / width))))
        n_columns = -(-n // n_rows)  # all rows are about full
    rows, columns = np.divmod(np.arange(n), n_columns)
    return np.stack([rows * height, columns * width], axis=1)


def zoomed(pictures: Array) -> tuple[Array, int]:
    """Return pictures of at least `PICTURE_SIDE`, and the gap to be left around each."""
    side = max(pictures.shape[1:3])
    factor = -(-PICTURE_SIDE // side)
    return pictures.repeat(factor, axis=1).repeat(factor, axis=2), side * factor // 12


def mosaic_of(
    pictures: Array, corners: Ints, tile: tuple[int, int], gap: int, frames: Array
) -> Array:
    """Return one picture of all, each at the upper left of its tile, on white.

    Around a picture there is a gap, and half of it is a frame where one is given.
    """
    _, height, width, _ = pictures.shape
    mosaic = np.ones((*corners.max(axis=0) + tile, 3))
    outer = gap - gap // 2
    for (y, x), frame in zip(corners, frames, strict=False):
        mosaic[y + outer :, x + outer :][: height + gap // 2 * 2, : width + gap // 2 * 2] = frame
    for (y, x), picture in zip(corners, pictures, strict=True):
        mosaic[y + gap :, x + gap :][:height, :width] = picture
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

    if curves.shape[1] == 1:
        curves = curves.repeat(2, axis=1)  # one value is a level
    span = np.where(high > low, np.subtract(high, low), 1)
    y = corners[:, :1] + size[0] * (1 - (curves - low) / span)
    x = corners[:, 1:] + size[1] * np.linspace(0, 1, curves.shape[1])
    ax.add_collection(
        LineCollection(list(np.stack([x, y], axis=2)), colors=colors, linewidths=width)
    )


def show_tiles(ax: "Axes", corners: Ints, tile: tuple[int, int]) -> None:
    """Let the axes show all tiles, and nothing else."""
    bottom, right = corners.max(axis=0) + tile
    ax.set_xlim(0, right)
    ax.set_ylim(bottom, 0)


def draw_numbers(ax: "Axes", numbers: Ints, places: Array, height: float) -> None:
    """Write a number at each place (y, x), as high as the room that is left for it."""
    box = ax.get_window_extent()
    per_unit = [box.width / np.ptp(ax.get_xlim()), box.height / np.ptp(ax.get_ylim())]
    font = min(LARGEST_FONT, height * float(min(per_unit)) * 72 / ax.figure.dpi)
    for number, (y, x) in zip(numbers, places, strict=True):
        ax.text(x, y, str(number), fontsize=font, color="0.35", va="top", clip_on=True)


def as_rgb(colors: Sequence[Any]) -> Array:
    """Return colours as an array of shape (n, 3)."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(color) for color in colors]).reshape(-1, 3)
