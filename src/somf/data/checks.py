"""What samples must be: a matrix of real, finite numbers, not empty, nothing masked."""

from typing import Any

import numpy as np

from somf.errors import DataError, NotFiniteError
from somf.typing import Array, Ints


def check_two_dimensions(n_dimensions: int) -> None:
    """Raise DataError unless X is a matrix."""
    if n_dimensions != 2:
        raise DataError(
            f"Expected 2D array, got {n_dimensions}D array instead. Reshape your data: "
            "X.reshape(1, -1) is a single sample, X.reshape(-1, 1) a single feature."
        )


def check_not_masked(X: Any, first: int = 0) -> None:
    """Raise DataError, with the row, if entries of X are masked; its rows count from `first`."""
    if np.ma.is_masked(X):
        row = first + int(np.ma.getmaskarray(X).any(axis=1).argmax())
        raise DataError(
            f"X must have no masked entries, got one in row {row}. Fill or leave out such rows.",
            row=row,
        )


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is one of real numbers, or booleans."""
    return dtype.kind in "fiub"


def check_real(dtype: np.dtype[Any]) -> None:
    """Raise DataError unless X consists of real numbers."""
    if dtype.kind == "c":
        raise DataError(f"Complex data not supported: X must be real, got {dtype}.")
    if not is_real(dtype):
        raise DataError(f"X must be numeric, got {dtype}.")


def check_not_empty(shape: tuple[int, int]) -> None:
    """Raise DataError unless there are samples and features."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise DataError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )


def check_finite(X: Any, entries: Array, ids: Ints, name: str) -> None:
    """Raise NotFiniteError, with the row, if an entry of a minibatch is NaN or infinite.

    Parameters
    ----------
    X : ndarray or csr_array of shape (b, p)
    entries : ndarray
        Those of `X` that are stored.
    ids : ndarray of shape (b,)
        The samples of the minibatch.
    name : str
        What the user calls the data.
    """
    # Usually this is one pass over the entries: their sum is finite unless one of them is not, or
    # the sum overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        total = entries.sum()
    if np.isfinite(total) or np.isfinite(entries).all():
        return
    if isinstance(X, np.ndarray):
        position, bad = np.argwhere(~np.isfinite(X))[0][0], X[~np.isfinite(X)][0]
    else:
        entry = np.flatnonzero(~np.isfinite(entries))[0]
        position, bad = np.searchsorted(X.indptr, entry, side="right") - 1, entries[entry]
    what, row = "NaN" if np.isnan(bad) else "infinity", int(ids[position])
    raise NotFiniteError(
        f"{name} must be finite, got {what} in row {row} as {entries.dtype}. "
        "Remove or impute such entries first.",
        name,
        row,
    )
