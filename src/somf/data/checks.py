"""What every source of samples must be: a matrix of real numbers, not empty, nothing masked."""

from typing import Any

import numpy as np


def check_two_dimensions(n_dimensions: int) -> None:
    """Raise ValueError unless something is a matrix."""
    if n_dimensions != 2:
        raise ValueError(
            f"Expected 2D array, got {n_dimensions}D array instead. Reshape your data: "
            "X.reshape(1, -1) is a single sample, X.reshape(-1, 1) a single feature."
        )


def check_not_masked(X: Any, first: int = 0) -> None:
    """Raise ValueError, naming the row, if entries of X are masked; its rows count from `first`."""
    if np.ma.is_masked(X):
        row = first + int(np.ma.getmaskarray(X).any(axis=1).argmax())
        raise ValueError(
            f"X must have no masked entries, got one in row {row}. Fill or leave out such rows."
        )


def check_numeric(dtype: np.dtype[Any]) -> None:
    """Raise ValueError unless something consists of real numbers."""
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X must be real, got {dtype}.")
    if dtype.kind not in "fiub":
        raise ValueError(f"X must be numeric, got {dtype}.")


def check_not_empty(shape: tuple[int, int]) -> None:
    """Raise ValueError unless there are samples and features."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )
