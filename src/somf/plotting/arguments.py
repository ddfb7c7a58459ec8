"""What callers ask for, checked: how many, which, and where."""

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from somf.typing import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


def check_count(name: str, value: Any) -> int:
    """Return how many of something are wanted."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    return count


def check_indices(name: str, value: Any, n: int) -> Ints:
    """Return which of n things are wanted."""
    indices = np.asarray(value)
    is_list = indices.ndim == 1 and len(indices) > 0 and indices.dtype.kind in "iu"
    if not is_list or indices.min() < 0 or indices.max() >= n:
        raise ValueError(f"{name} must be a list of integers from 0 to {n - 1}, got {value!r}.")
    return indices
