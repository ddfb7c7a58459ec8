"""Read pictures and curves back from axes."""

import numpy as np

SPECTRAL = (4, 5, 7)
"""The shape of a patch with a spectrum."""


def mosaic(ax):
    """Return the picture with all tiles."""
    return np.asarray(ax.images[0].get_array())


def tiles(ax, shape, n_columns, n_rows=1):
    """Return the pictures of a grid, of shape (n_rows, n_columns, height, width, 3)."""
    picture, side = mosaic(ax), max(shape[:2])
    zoom = -(-60 // side)
    gap = zoom * side // 12
    tall, wide = picture.shape[0] // n_rows, picture.shape[1] // n_columns
    return np.array(
        [
            [
                picture[y + gap :: zoom, x + gap :: zoom][: shape[0], : shape[1]]
                for x in wide * np.arange(n_columns)
            ]
            for y in tall * np.arange(n_rows)
        ]
    )


def curves_of(lines, low, high, height):
    """Return the values of curves that were drawn between low and high in rows of one height."""
    y = np.array(lines.get_segments())[:, :, 1]
    return low + (high - low) * (1 - (y - height) / 60)
