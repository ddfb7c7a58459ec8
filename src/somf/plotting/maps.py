"""Where in an image each atom is used, and where the image is explained badly."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from somf.data import ImagePatches
from somf.errors import ParameterError
from somf.inference.usage import usage_of
from somf.plotting.arguments import (
    check_count,
    check_indices,
    given_or_new_axes,
    import_matplotlib,
)
from somf.plotting.tiles import draw_numbers, grid_corners, mosaic_of, show_tiles, zoomed
from somf.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BRIGHTEST = 99.5
"""The percentile of the sizes of codes that has the strongest color; larger ones have it, too."""

WITHOUT_DATA = (0.8, 0.8, 0.8)
"""The color of pixels without a patch."""


def plot_code_maps(
    model: Any,
    patches: ImagePatches,
    *,
    codes: Any = None,
    n_atoms: int = 12,
    order: Any = None,
    n_columns: int | None = None,
    image: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw where each atom is used: a map has one pixel for every patch of the image.

    With patches of one pixel these are the abundance maps of a scene. Every map has its own scale:
    from zero, dark, to large codes, bright; if there are negative codes, from blue over white,
    which is zero, to red. The number below a map is that of the atom. Where there is no patch, it
    is gray.

    Parameters
    ----------
    model : fitted estimator
    patches : ImagePatches
        Of the image; of a volume, the plane in the middle is drawn.
    codes : ndarray or sparse matrix of shape (n, n_components), optional
        Those of the patches; by default they are computed.
    n_atoms : int
        The largest number of maps.
    order : array-like of int, optional
        The atoms to draw, in this order; by default the most used first.
    n_columns : int, optional
        Maps per row; by default the grid is about square.
    image : int
        Which one of several images.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    n_columns = None if n_columns is None else check_count("n_columns", n_columns)
    codes = _codes_of(model, patches, codes)
    n, k = check_count("n_atoms", n_atoms), len(model.components_)
    chosen = (usage_of(codes).order if order is None else check_indices("order", order, k))[:n]
    maps = _plane_of(patches.map(codes[:, chosen]), patches, image)
    pictures, gap = zoomed(np.stack([_colored(maps[..., i]) for i in range(len(chosen))]))
    height, width = pictures.shape[1:3]
    tile = (height + 5 * gap, width + 2 * gap)
    corners = grid_corners(len(chosen), *tile, n_columns)
    ax = given_or_new_axes(ax)
    ax.imshow(mosaic_of(pictures, corners, tile, gap, np.empty((0, 3))))
    show_tiles(ax, corners, tile)
    draw_numbers(ax, chosen, corners + np.array([height + 1.8 * gap, gap]), 2.5 * gap)
    ax.set_axis_off()
    if len(chosen) < k:
        ax.set_title(f"codes of {len(chosen)} of {k} atoms", fontsize="medium")
    return ax


def plot_residual_map(
    model: Any,
    patches: ImagePatches,
    *,
    codes: Any = None,
    image: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how far every pixel of an image is from its reconstruction.

    Parameters
    ----------
    model : fitted estimator
    patches : ImagePatches
        Of the image; of a volume, the plane in the middle is drawn.
    codes : ndarray or sparse matrix of shape (n, n_components), optional
        Those of the patches; by default they are computed.
    image : int
        Which one of several images.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
        With a color bar: the root of the mean over channels of (pixel − reconstruction)².
    """
    codes = _codes_of(model, patches, codes)
    if hasattr(model, "offsets_"):
        rule = "have center='none' for a map of residuals"
        raise ParameterError("model", rule, model, got=f"center={model.center!r}")
    residuals = _plane_of(patches.residual_map(codes, model.components_), patches, image)
    ax = given_or_new_axes(ax)
    ax.set_facecolor(WITHOUT_DATA)
    shown = ax.imshow(residuals, cmap="magma", vmin=0, vmax=_largest(residuals))
    ax.figure.colorbar(shown, ax=ax, label="error of a pixel", extend="max", shrink=0.8)
    mean = np.sqrt(np.nanmean(residuals**2))
    ax.set_title(f"error, root mean square {mean:.4g}", fontsize="medium")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _codes_of(model: Any, patches: Any, codes: Any) -> Any:
    check_is_fitted(model)
    if not isinstance(patches, ImagePatches):
        rule = "be an ImagePatches, which knows the places of patches"
        raise ParameterError("patches", rule, patches, got=type(patches).__name__)
    return model.transform(patches, sparse=True) if codes is None else codes


def _plane_of(found: Any, patches: ImagePatches, image: int) -> Array:
    """Return what belongs to one of several images; of a volume, the plane in the middle."""
    if isinstance(found, list):
        (i,) = check_indices("image", [image], len(patches.images))
        found = found[i]
    is_volume = patches.positions.shape[1] == 3
    return np.asarray(found[len(found) // 2] if is_volume else found)


def _largest(values: Array) -> float:
    """Return the size of large values; 1 if there are none."""
    sizes = np.abs(values[np.isfinite(values)])
    sizes = sizes[sizes > 0]
    return float(np.percentile(sizes, BRIGHTEST)) if len(sizes) else 1.0


def _colored(values: Array) -> Array:
    """Return a map as a picture of shape (height, width, 3)."""
    colormaps = import_matplotlib("matplotlib").colormaps
    is_known, largest = np.isfinite(values), _largest(values)
    share = np.where(is_known, values, 0) / largest
    has_signs = bool((share < 0).any())
    colors = colormaps["RdBu_r"]((share + 1) / 2) if has_signs else colormaps["magma"](share)
    return np.where(is_known[..., None], colors[..., :3], WITHOUT_DATA)
