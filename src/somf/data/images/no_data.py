"""Which pixels of an image have no data."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from somf.data.images.files import open_image
from somf.errors import FileRequestError, ParameterError
from somf.typing import Array

MISSING = "missing"
"""The `no_data` of an image whose pixels without data are unknown entries of its patches."""

BAND_ENTRIES = 2**24
"""Entries of an image that are compared at once with the value that stands for no data."""


class Unknown(NamedTuple):
    """Which entries of an image are unknown; NaN always is.

    Attributes
    ----------
    is_known : ndarray of bool of shape (planes, lines, columns, channels or 1)
        What a mask says of the entries, or of the pixels; empty if there is no mask.
    no_data : float
        The value of entries without data; NaN if there is no other.
    """

    is_known: Array
    no_data: float


def checked_no_data(no_data: Any) -> Any:
    """Return a number, None or "missing"."""
    if no_data is None or no_data == MISSING:
        return no_data
    if isinstance(no_data, str):
        raise ParameterError("no_data", f"be a number or {MISSING!r}", no_data)
    return float(no_data)


def pixels_with_data(cube: Array, no_data: float) -> Array:
    """Return the pixels in which no channel has the value `no_data`, some planes at a time.

    Parameters
    ----------
    cube : ndarray of shape (planes, lines, columns, channels)
    no_data : float

    Returns
    -------
    mask : ndarray of bool of shape (planes, lines, columns)
    """
    mask = np.empty(cube.shape[:3], dtype=bool)
    step = max(1, BAND_ENTRIES // (cube.size // cube.shape[0]))
    for top in range(0, len(cube), step):
        planes = cube[top : top + step]
        has_data = ~np.isnan(planes) if np.isnan(no_data) else planes != no_data
        mask[top : top + step] = has_data.all(axis=3)
    return mask


def unknown_entries(cube: Array, masks: Iterable[Array], declared: float | None) -> Unknown:
    """Return which entries are unknown: where a mask is False, or that have a value, or are NaN.

    Parameters
    ----------
    cube : ndarray of shape (planes, lines, columns, channels)
    masks : iterable of ndarray of bool of shape (planes, lines, columns, channels or 1)
    declared : float or None
        The value of entries without data.
    """
    is_known = np.empty((0, 0, 0, 1), dtype=bool)
    for mask in masks:
        is_known = is_known & mask if is_known.size else mask
    value = np.nan if declared is None else declared
    if cube.dtype.kind == "f":  # the file may declare a number with more digits than pixels have
        value = float(cube.dtype.type(value))
    return Unknown(np.ascontiguousarray(is_known), value)


def _shapes_of_mask(shape: tuple[int, ...], n_axes: int, by_entry: bool) -> tuple[list[Any], str]:
    """Return the shapes that a mask may have, and the same in words."""
    shapes = [shape[:n_axes]] + [shape] * (by_entry and len(shape) > n_axes)
    return shapes, " or ".join(map(str, shapes))


def read_mask(
    path: str, shape: tuple[int, ...], n_axes: int, by_entry: bool, allow_external: bool
) -> Array:
    """Return the pixels, or the entries, in which the image in a file is not zero."""
    mask, _ = open_image(path, allow_external=allow_external, n_axes=n_axes)
    shapes, words = _shapes_of_mask(shape, n_axes, by_entry)
    if mask.shape not in shapes or mask.dtype.kind == "f":
        raise FileRequestError(
            path,
            "mask",
            f"hold booleans or integers of shape {words} in {path!r}",
            mask,
            got=f"{mask.dtype} of shape {mask.shape}",
        )
    return np.asarray(mask != 0)


def checked_mask(mask: Any, shape: tuple[int, ...], n_axes: int, by_entry: bool) -> Array:
    """Return a mask of pixels or, if it may be `by_entry`, of entries as an array."""
    checked: Array = np.asarray(mask)
    shapes, words = _shapes_of_mask(shape, n_axes, by_entry)
    if checked.dtype != np.bool_ or checked.shape not in shapes:
        rule = f"be a boolean array of shape {words}"
        raise ParameterError("mask", rule, mask, got=f"{checked.dtype} of shape {checked.shape}")
    return checked
