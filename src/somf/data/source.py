"""The contract of a source, and the sources that live in memory."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.typing import Array, Ints


class Source(ABC):
    """A matrix of n samples × p features of which rows can be had, and only rows.

    Attributes
    ----------
    shape : tuple of (int, int)
    dtype : numpy.dtype
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        return float(self.shape[1])

    @abstractmethod
    def rows(self, ids: Ints) -> Array | sp.csr_array:
        """Return samples, in the order of `ids`, as a new array of any real type.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : ndarray or csr_array of shape (b, p)
        """


class ArraySource(Source):
    """An array or a memory map.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype

    def rows(self, ids: Ints) -> Array:
        """Return samples as a new array."""
        return np.asarray(self.X[ids])


class CsrSource(Source):
    """A sparse matrix in compressed rows.

    Parameters
    ----------
    X : csr_array of shape (n, p)
    """

    def __init__(self, X: sp.csr_array) -> None:
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average, and not less than a thousand."""
        return max(1000.0, float(self.X.nnz) / self.shape[0])

    def rows(self, ids: Ints) -> sp.csr_array:
        """Return samples as a new CSR array."""
        return self.X[ids]


def as_source(X: Any) -> Source:
    """Return X as a source, or say why it cannot be one.

    Arrays, memory maps and CSR matrices are used as they are, without a copy; other sparse formats
    are converted to CSR, and data frames, lists and object arrays to arrays.

    Parameters
    ----------
    X : array-like, sparse matrix or Source

    Returns
    -------
    source : Source
    """
    if isinstance(X, Source):
        source = X
    elif sp.issparse(X):
        _check_two_dimensions(X.ndim)
        source = CsrSource(sp.csr_array(X))
        _check_numeric(source.dtype)
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        _check_two_dimensions(array.ndim)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
        _check_numeric(array.dtype)
        source = ArraySource(array)
    _check_not_empty(source.shape)
    return source


def _check_two_dimensions(n_dimensions: int) -> None:
    if n_dimensions != 2:
        raise ValueError(
            f"Expected 2D array, got {n_dimensions}D array instead. Reshape your data: "
            "X.reshape(1, -1) is a single sample, X.reshape(-1, 1) a single feature."
        )


def _check_numeric(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X must be real, got {dtype}.")
    if dtype.kind not in "fiub":
        raise ValueError(f"X must be numeric, got {dtype}.")


def _check_not_empty(shape: tuple[int, int]) -> None:
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )
