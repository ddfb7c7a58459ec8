"""Outputs of `transform`, written a chunk at a time: an array, a file, or a sparse matrix."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.optional import import_optional
from somf.typing import Array


class DenseCodes:
    """Codes written into slices of rows of an array-like object.

    Parameters
    ----------
    rows : array-like of shape (n, k)
    """

    def __init__(self, rows: Any) -> None:
        self.rows, self.n_written = rows, 0

    def append(self, code: Array) -> None:
        """Write the next rows."""
        self.rows[self.n_written : self.n_written + len(code)] = code
        self.n_written += len(code)


class SparseCodes:
    """Codes as a CSR array; only entries that are not zero are held in memory."""

    def __init__(self) -> None:
        self.parts: list[sp.csr_array] = []

    def append(self, code: Array) -> None:
        """Add the next rows."""
        self.parts.append(sp.csr_array(code))

    @property
    def rows(self) -> sp.csr_array:
        """All rows so far."""
        return sp.csr_array(sp.vstack(self.parts, format="csr"))


@contextmanager
def codes_into(
    out: Any, shape: tuple[int, int], dtype: np.dtype[Any], sparse: bool
) -> Iterator[DenseCodes | SparseCodes]:
    """Give an object to append codes to; a file gets its name when all of them are written.

    Parameters
    ----------
    out : None, array-like of shape (n, k) or path-like
        A new array, an array to write into, or a file: ``.npy`` or ``.zarr``, sparse ``.npz``.
    shape : tuple of (int, int)
    dtype : numpy.dtype
    sparse : bool

    Yields
    ------
    codes : DenseCodes or SparseCodes
        Its `rows` are the result.
    """
    if out is None:
        yield SparseCodes() if sparse else DenseCodes(np.empty(shape, dtype))
    elif isinstance(out, str | os.PathLike):
        path = os.fspath(out)
        ending = _checked_ending(path, sparse)
        if os.path.lexists(path):  # it might be the samples themselves
            raise FileExistsError(
                f"out must not exist yet, got {path!r}. Remove it, or name another file."
            )
        with WRITERS[ending](path, shape, dtype) as codes:
            yield codes
    else:
        if sparse:
            raise ValueError("out must be None or a .npz file for sparse codes, got an array.")
        _check_fits(out, shape)
        yield DenseCodes(out)


def _checked_ending(path: str, sparse: bool) -> str:
    """Return the ending of a file in which such codes can be written."""
    ending = os.path.splitext(path.rstrip(os.sep))[1].lower()
    endings = (".npz",) if sparse else (".npy", ".zarr")
    if ending not in endings:
        what = "sparse" if sparse else "dense"
        raise ValueError(
            f"out must be a file of kind {' or '.join(endings)} for {what} codes, got {path!r}."
        )
    return ending


def _check_fits(out: Any, shape: tuple[int, int]) -> None:
    given = getattr(out, "shape", None), getattr(out, "dtype", None)
    if given[0] != shape or given[1] not in (np.float32, np.float64):
        raise ValueError(
            f"out must be a floating array of shape {shape}, float32 or float64, "
            f"got {given[1]} of shape {given[0]}."
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writeable, got an array that is read-only.")


@contextmanager
def _npy(path: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[DenseCodes]:
    with _aside(path) as aside:
        mapped = _mapped_room(path, aside, shape, dtype)
        codes = DenseCodes(mapped)
        yield codes
        mapped.flush()
        del mapped
        codes.rows = None  # some systems do not rename a file that is mapped
    codes.rows = np.lib.format.open_memmap(path, mode="r+")


def _mapped_room(path: str, aside: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
    """Return the map of a new file whose room on the disk is taken.

    A write to a map of which the disk has no room would end the process.
    """
    try:
        mapped = np.lib.format.open_memmap(aside, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):
            with open(aside, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, os.path.getsize(aside))
    except OSError as error:
        size = shape[0] * shape[1] * dtype.itemsize
        raise OSError(
            error.errno, f"out needs {size:,} bytes, which cannot be had: {error.strerror}", path
        ) from error
    return mapped


@contextmanager
def _zarr(path: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[DenseCodes]:
    zarr = import_optional("zarr", "zarr", "A .zarr file")
    chunk = (max(1, min(shape[0], 2**20 // shape[1])), shape[1])
    with _aside(path) as aside:
        codes = DenseCodes(
            zarr.create_array(aside, shape=shape, chunks=chunk, dtype=dtype, overwrite=True)
        )
        yield codes
    codes.rows = zarr.open_array(path, mode="r+")


@contextmanager
def _npz(path: str, *_: object) -> Iterator[SparseCodes]:
    codes = SparseCodes()
    yield codes
    with _aside(path) as aside, open(aside, "wb") as file:
        sp.save_npz(file, codes.rows)


@contextmanager
def _aside(path: str) -> Iterator[str]:
    """Give another name, under which to write a file that is renamed at the end."""
    aside = f"{path.rstrip(os.sep)}.{secrets.token_hex(4)}.part"  # another process has another
    try:
        yield aside
        os.replace(aside, path)
    except BaseException:
        if os.path.isdir(aside):
            shutil.rmtree(aside)
        elif os.path.exists(aside):
            os.unlink(aside)
        raise


WRITERS: dict[str, Callable[..., AbstractContextManager[DenseCodes | SparseCodes]]] = {
    ".npy": _npy,
    ".zarr": _zarr,
    ".npz": _npz,
}
