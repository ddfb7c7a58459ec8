"""Anything with a shape, a type and slices of rows: h5py datasets, Zarr arrays."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from somf.data.checks import check_not_masked, is_not_about_content
from somf.data.order import LARGEST_CHUNK, runs
from somf.data.source import Source
from somf.errors import DamagedFileError, DataError
from somf.typing import Array, Ints


class SlicedSource(Source):
    """An object whose slices of rows (or of columns) are arrays.

    Parameters
    ----------
    X : object of shape (n, p)
        With `shape`, `dtype` and ``X[start:stop]``; where it has `chunks`, they are respected.
    transposed : bool
        Whether the object is of shape (p, n): features × samples.
    path : str, optional
        The file it comes from, to be named in errors.

    Attributes
    ----------
    small_read : int
        Bytes up to which several chunks are read together, where a read has a price of its own.
    """

    small_read = 0

    def __init__(self, X: Any, transposed: bool = False, path: str | None = None) -> None:
        self.X, self.transposed, self.path = X, transposed, path
        self.shape = (int(X.shape[transposed]), int(X.shape[not transposed]))
        self.dtype = dtype_of(X)
        stored = _stored_chunks(getattr(X, "chunks", None), int(transposed), self.shape[0])
        if stored is not None and len(stored):
            largest = int(np.diff(stored, append=self.shape[0]).max())
            most = max(1, LARGEST_CHUNK // max(1, self.shape[1] * self.dtype.itemsize))
            few = self.small_read // max(1, self.shape[1] * self.dtype.itemsize)
            self.chunk_starts = runs(stored, self.shape[0], min(max(largest, few), most))
            if largest > most and not self.supports_partial_chunks:
                self._warn_of_large_chunks(largest, most)

    def _warn_of_large_chunks(self, largest: int, most: int) -> None:
        row_bytes = self.shape[1] * self.dtype.itemsize
        better = (max(1, LARGEST_CHUNK // 16 // row_bytes), self.shape[1])
        warnings.warn(
            f"{'X' if self.path is None else repr(self.path)} has chunks of {largest:,} samples, "
            f"{largest * row_bytes / 1e6:,.0f} MB with all their features. They are read in "
            f"pieces of {most:,} samples, so that each of them is read {-(-largest // most)} times "
            "in an epoch. Store it again in chunks of whole samples: "
            f"chunks={better[::-1] if self.transposed else better}.",
            UserWarning,
            stacklevel=3,
        )

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
            self._confirm(start, stop)

    def _slice(self, start: int, stop: int) -> Array:
        with self._naming_the_file(start, stop):
            found = self.X[:, start:stop] if self.transposed else self.X[start:stop]
            rows = np.asarray(found).T if self.transposed else np.asarray(found)
            expected = (stop - start, self.shape[1])
            if rows.shape != expected or not np.can_cast(rows.dtype, self.dtype, "same_kind"):
                raise DataError(
                    f"Rows {start} to {stop - 1} of X must be {self.dtype} of shape {expected}, "
                    f"got a {type(found).__name__} of {rows.dtype} of shape {rows.shape}.",
                    row=start,
                )
            check_not_masked(found.T if self.transposed else found, start)
        self._confirm(start, stop)
        return rows

    def _confirm(self, start: int, stop: int) -> None:
        """Raise an error if what rows were just read from is gone.

        Some libraries return the fill value then. It is called after reading: a file that is there
        now was there before.
        """

    @contextmanager
    def _naming_the_file(self, start: int, stop: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.path is None or is_not_about_content(error):
                raise  # the errors of a user's object are left as they are
            raise DamagedFileError(
                f"{self.path!r} is damaged: rows {start} to {stop - 1} cannot be read: {error}"
            ) from error


def dtype_of(X: Any) -> np.dtype[Any]:
    """Return the type of an object's numbers as a NumPy type: `X.dtype`, its name, or its text."""
    given = X.dtype
    for candidate in (given, getattr(given, "name", None), str(given).rpartition(".")[2]):
        try:
            if candidate is not None:  # NumPy takes None for float64
                return np.dtype(candidate)
        except TypeError:
            pass
    raise DataError(f"X.dtype must be a type that NumPy knows, got {given!r}.")


def _stored_chunks(chunks: Any, axis: int, n: int) -> Ints | None:
    """Return where chunks start, given their size (HDF5, Zarr) or sizes (Dask), or None."""
    if not isinstance(chunks, tuple | list) or len(chunks) != 2:
        return None
    sizes = chunks[axis]
    if isinstance(sizes, int | np.integer):
        return np.arange(0, n, int(sizes)) if sizes > 0 else None
    if not isinstance(sizes, Sequence) or not all(isinstance(s, int | np.integer) for s in sizes):
        return None
    starts = np.cumsum([0, *(size for size in sizes if size)])
    return starts[:-1] if starts[-1] == n else None


def _breaks(ids: Ints, chunk_starts: Ints | None) -> Ints:
    """Return where to cut sorted rows so that every piece is read as one slice.

    A slice covers the wanted rows of one chunk; without chunks, rows without a gap.
    """
    if chunk_starts is None:
        return np.flatnonzero(np.diff(ids) > 1) + 1
    chunks = np.searchsorted(chunk_starts, ids, side="right")
    return np.flatnonzero(np.diff(chunks)) + 1
