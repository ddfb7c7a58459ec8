"""What samples must be: a matrix of real, finite numbers, not empty, nothing masked."""

import errno
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.errors import (
    DamagedFileError,
    DataError,
    MissingFileError,
    NotFiniteError,
    ParameterTypeError,
)
from somf.typing import Array, Ints

CONTENT_ERRORS = (errno.EINVAL, errno.EOVERFLOW, errno.EISDIR, errno.ENOTDIR)
"""Errors of the system that are due to what a file holds or is."""


def is_not_about_content(error: Exception) -> bool:
    """Return whether an error is not about the content of a file that is being read.

    Such are too many open files, a disk that fails and too little memory. (Libraries raise an
    OSError without a number for damaged files.)
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno not in CONTENT_ERRORS
    return isinstance(error, DamagedFileError | MissingFileError | ImportError | MemoryError)


def gone(path: str) -> MissingFileError:
    """Return the error that a file was there and is no longer."""
    return MissingFileError(f"{path!r} is no longer there.")


def check_two_dimensions(n_dimensions: int) -> None:
    """Raise DataError unless X is a matrix."""
    if n_dimensions > 2:
        raise DataError(
            f"Expected 2D array, got {n_dimensions}D array instead. For patches of an image or a "
            "volume use somf.ImagePatches(X, patch_size); if X has one sample along its first "
            "axis, X.reshape(len(X), -1) is a matrix."
        )
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


def check_finite(
    X: Any, entries: Array, ids: Ints, name: str, name_of: Callable[[int], str | None]
) -> None:
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
    name_of : callable
        Returns the name of the feature in a column, if it has one.
    """
    # Usually this is one pass over the entries: their sum is finite unless one of them is not, or
    # the sum overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        total = entries.sum()
    if np.isfinite(total) or np.isfinite(entries).all():
        return
    if isinstance(X, np.ndarray):
        position, column = np.argwhere(~np.isfinite(X))[0]
        bad = X[position, column]
    else:
        entry = np.flatnonzero(~np.isfinite(entries))[0]
        position, column = np.searchsorted(X.indptr, entry, side="right") - 1, X.indices[entry]
        bad = entries[entry]
    what, row = "NaN" if np.isnan(bad) else "infinity", int(ids[position])
    feature = name_of(int(column))
    where = f"row {row}" if feature is None else f"row {row}, feature {feature!r},"
    raise NotFiniteError(
        f"{name} must be finite, got {what} in {where} as {entries.dtype}. "
        "Remove or impute such entries first.",
        name,
        row,
    )


def check_compressed(X: Any) -> None:
    """Raise DataError unless the indices of a sparse matrix lie inside: SciPy trusts them.

    Parameters
    ----------
    X : sparse matrix
        Formats without compressed rows or columns are left to SciPy.
    """
    if X.format not in ("csr", "csc", "bsr"):
        return
    try:
        # A new object, since the check may replace index arrays.
        type(X)((X.data, X.indices, X.indptr), shape=X.shape).check_format(full_check=True)
    except ValueError as error:
        raise DataError(
            f"X must be a valid {X.format.upper()} matrix, got one of which {error}."
        ) from error


def check_rows(rows: Any, shape: tuple[int, int], is_sparse: bool) -> None:
    """Raise DataError if rows that a source returns are not what its contract says.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (b, p)
    shape : tuple of (int, int)
        Number of the wanted samples, number of features.
    is_sparse : bool
        Whether the source is sparse.
    """
    check_kind(rows, shape, is_sparse)
    if rows.shape != shape:
        raise _wrong_rows(rows, shape)
    if is_sparse:
        check_compressed(rows)


def check_view(X: Any, positions: Ints, shape: tuple[int, int], is_sparse: bool = False) -> None:
    """Raise DataError if a view that a source returns is not what its contract says.

    Compiled functions do not check bounds.

    Parameters
    ----------
    X : ndarray or csr_array of shape (m, p)
    positions : ndarray of shape (b,)
    shape, is_sparse
        See `check_rows`.
    """
    check_kind(X, shape, is_sparse)
    # As unsigned numbers, negative ones are huge.
    unsigned = positions.view(f"u{positions.itemsize}")
    is_inside = not len(positions) or unsigned.max() < X.shape[0]
    if (len(positions), *X.shape[1:]) != shape or not is_inside:
        raise _wrong_rows(X, shape)


def check_kind(X: Any, shape: tuple[int, int], is_sparse: bool) -> None:
    """Raise an error if rows of a source are no array, no CSR array, or not real.

    Parameters
    ----------
    X : ndarray or csr_array
    shape, is_sparse
        See `check_rows`.
    """
    if is_sparse:
        is_right = sp.issparse(X) and X.format == "csr"
        rule = "be CSR arrays if its is_sparse is True"
    else:
        is_right, rule = isinstance(X, np.ndarray), "be an array unless its is_sparse is True"
    if not is_right:
        raise ParameterTypeError("rows of a source", rule, X, got=str(type(X)))
    if not is_real(X.dtype):
        raise _wrong_rows(X, shape)


def _wrong_rows(X: Any, shape: tuple[int, int]) -> DataError:
    return DataError(
        f"rows of a source must be of shape {shape} for {shape[0]} samples, and real, got "
        f"{X.dtype} of shape {X.shape}."
    )
