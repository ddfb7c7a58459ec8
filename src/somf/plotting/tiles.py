"""A grid of tiles on one pair of axes: many small pictures or curves, drawn at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.plotting.arguments import import_matplotlib
from somf.typing import Array, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_POINTS = 256
"""The largest number of points of a curve in a grid."""

CURVE_TILE = (60, 100)
"""Height and width of a curve in a grid."""

PICTURE_SIDE = 60
"""The smallest number of pixels along the longer side of a picture. Pixels of a small patch are
repeated, so that frames, gaps and spectra have the same size for any patch."""

LARGEST_FONT = 9
"""The largest font size of the numbers of atoms, in points."""

FAINT = "0.75"
"""The light gray of lines in the background."""


def grid_corners(n: int, height: int, width: int, n_columns: int | None) -> Ints:
    """Return the upper left corners (y, x) of n tiles in a grid that is about square."""
    if n_columns is None:
        n_rows = -(-n // int(np.ceil(np.sqrt(n * height / width))))
        n_columns = -(-n // n_rows)  # all rows are about full
    rows, columns = np.divmod(np.arange(n), n_columns)
    return np.stack([rows * height, columns * width], axis=1)


def zoomed(pictures: Array) -> tuple[Array, int]:
    """Return pictures enlarged to at least `PICTURE_SIDE`, and the gap around each, in pixels."""
    side = max(pictures.shape[1:3])
    factor = -(-PICTURE_SIDE // side)
    return pictures.repeat(factor, axis=1).repeat(factor, axis=2), side * factor // 12


def mosaic_of(
    pictures: Array, corners: Ints, tile: tuple[int, int], gap: int, frames: Array
) -> Array:
    """Return one picture with all pictures, each at the upper left of its tile, on white.

    Around each picture is a gap. The inner half of the gap is a frame, if a colour is given.
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
    collections = import_matplotlib("matplotlib.collections")
    if curves.shape[1] == 1:
        curves = curves.repeat(2, axis=1)  # one value is a level
    span = np.where(high > low, np.subtract(high, low), 1)
    y = corners[:, :1] + size[0] * (1 - (curves - low) / span)
    x = corners[:, 1:] + size[1] * np.linspace(0, 1, curves.shape[1])
    ax.add_collection(
        collections.LineCollection(list(np.stack([x, y], axis=2)), colors=colors, linewidths=width)
    )


def show_tiles(ax: "Axes", corners: Ints, tile: tuple[int, int]) -> None:
    """Set the limits of the axes so that they show exactly the tiles."""
    bottom, right = corners.max(axis=0) + tile
    ax.set_xlim(0, right)
    ax.set_ylim(bottom, 0)


def draw_numbers(ax: "Axes", numbers: Ints, places: Array, height: float) -> None:
    """Write a number at each place (y, x), in a font of at most the given height."""
    box = ax.get_window_extent()
    per_unit = [box.width / np.ptp(ax.get_xlim()), box.height / np.ptp(ax.get_ylim())]
    font = min(LARGEST_FONT, height * float(min(per_unit)) * 72 / ax.figure.dpi)
    for number, (y, x) in zip(numbers, places, strict=True):
        ax.text(x, y, str(number), fontsize=font, color="0.35", va="top", clip_on=True)


def as_rgb(colors: Sequence[Any]) -> Array:
    """Return colours as an array of shape (n, 3)."""
    to_rgb = import_matplotlib("matplotlib.colors").to_rgb
    return np.array([to_rgb(color) for color in colors]).reshape(-1, 3)
