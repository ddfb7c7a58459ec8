"""Checks of the arguments of plots, and the axes to draw on."""

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.errors import ParameterError
from somf.optional import import_optional
from somf.typing import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def import_matplotlib(module: str) -> Any:
    """Import a module of matplotlib, such as ``matplotlib.pyplot``."""
    return import_optional(module, "plot", "somf.plotting")


def given_or_new_axes(ax: "Axes | None") -> "Axes":
    """Return the given axes, or the axes of a new figure."""
    if ax is not None:
        return ax
    new: Axes = import_matplotlib("matplotlib.pyplot").figure(layout="constrained").add_subplot()
    return new


def check_count(name: str, value: Any) -> int:
    """Return a number of things to draw, after a check."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ParameterError(name, "be an integer of at least 1", value)
    return count


def check_indices(name: str, value: Any, n: int) -> Ints:
    """Return the indices of things to draw, out of n, after a check."""
    indices = np.asarray(value)
    is_list = indices.ndim == 1 and len(indices) > 0 and indices.dtype.kind in "iu"
    if not is_list or indices.min() < 0 or indices.max() >= n:
        raise ParameterError(name, f"be a list of integers from 0 to {n - 1}", value)
    return indices
