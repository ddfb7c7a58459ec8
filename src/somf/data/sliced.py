"""Anything with a shape, a type and slices of rows: h5py datasets, Zarr arrays, Dask arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from somf.data.source import Source, check_not_masked
from somf.tensorfile import DamagedFileError
from somf.typing import Array, Ints


class SlicedSource(Source):
    """An object of which slices of rows (or of columns) can be had as arrays.

    Parameters
    ----------
    X : object of shape (n, p)
        With `shape`, `dtype` and ``X[start:stop]``; where it has `chunks`, they are respected.
    transposed : bool
        Whether the object is of shape (p, n): features × samples.
    path : str, optional
        The file it comes from, to be named in errors.
    """

    def __init__(self, X: Any, transposed: bool = False, path: str | None = None) -> None:
        self.X, self.transposed, self.path = X, transposed, path
        self.shape = (int(X.shape[transposed]), int(X.shape[not transposed]))
        self.dtype = np.dtype(X.dtype)
        chunks = getattr(X, "chunks", None)
        if chunks is not None:
            self.chunk_starts = _starts(chunks[transposed], self.shape[0])

    def rows(self, ids: Ints) -> Array:
        """Return samples as a new array."""
        rows = np.empty((len(ids), self.shape[1]), dtype=self.dtype)
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        for run in np.split(np.arange(len(ids)), _breaks(ordered, self.chunk_starts)):
            if len(run):
                first, last = int(ordered[run[0]]), int(ordered[run[-1]])
                rows[order[run]] = self._slice(first, last + 1)[ordered[run] - first]
        return rows

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array, directly where h5py can do so."""
        if self.transposed or not hasattr(self.X, "read_direct"):
            out[...] = self._slice(start, stop)
        else:
            with self._naming_the_file(start, stop):
                self.X.read_direct(out, np.s_[start:stop])

    def _slice(self, start: int, stop: int) -> Array:
        with self._naming_the_file(start, stop):
            found = self.X[:, start:stop] if self.transposed else self.X[start:stop]
            rows = np.asarray(found).T if self.transposed else np.asarray(found)
            expected = (stop - start, self.shape[1])
            if rows.shape != expected or not np.can_cast(rows.dtype, self.dtype, "same_kind"):
                raise ValueError(
                    f"Rows {start} to {stop - 1} of X must be {self.dtype} of shape {expected}, "
                    f"got a {type(found).__name__} of {rows.dtype} of shape {rows.shape}."
                )
            check_not_masked(found.T if self.transposed else found, start)
        return rows

    @contextmanager
    def _naming_the_file(self, start: int, stop: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.path is None:
                raise  # whoever made the object knows its errors
            raise DamagedFileError(
                f"{self.path!r} is damaged: rows {start} to {stop - 1} cannot be read: {error}"
            ) from error


def _starts(chunks: Any, n: int) -> Ints:
    """Return where chunks start, given their size, as by HDF5 and Zarr, or sizes, as by Dask."""
    if isinstance(chunks, int | np.integer):
        return np.arange(0, n, int(chunks))
    return np.concatenate([[0], np.cumsum(chunks)[:-1]]).astype(np.int64)


def _breaks(ids: Ints, chunk_starts: Ints | None) -> Ints:
    """Return where to cut sorted rows so that every piece is worth reading as one slice."""
    if chunk_starts is None:
        return np.flatnonzero(np.diff(ids) > 1) + 1
    chunks = np.searchsorted(chunk_starts, ids, side="right")
    return np.flatnonzero(np.diff(chunks)) + 1
