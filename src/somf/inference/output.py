"""Write codes a chunk at a time: to an array, to a file, or to a sparse matrix."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.formats.kinds import ending_of
from somf.data.readahead.memory_map import Mapping, is_mapped
from somf.errors import OutputExistsError, ParameterError
from somf.files.atomic import atomic_write
from somf.optional import import_optional
from somf.scratch import reserve
from somf.typing import Array, Matrix

CHUNK_ENTRIES = 2**20
"""Entries of a chunk of a Zarr array, at most."""


class DenseCodes:
    """Codes written to the rows of an array, or of anything else that takes slices of rows.

    Parameters
    ----------
    rows : array-like of shape (n, k)
    """

    def __init__(self, rows: Any) -> None:
        self.rows, self.n_written = rows, 0

    def append(self, code: Array) -> None:
        """Write the next rows."""
        if isinstance(self.rows, np.ndarray) and is_mapped(self.rows):
            Mapping(self.rows).check_file()
        self.rows[self.n_written : self.n_written + len(code)] = code
        self.n_written += len(code)


class SparseCodes:
    """Codes collected in a CSR array: only non-zero entries are held in memory."""

    def __init__(self) -> None:
        self.parts: list[sp.csr_array] = []

    def append(self, code: Matrix) -> None:
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
    """Give an object to append codes to.

    Parameters
    ----------
    out : None, array-like of shape (n, k) or path-like
        A file, ``.npy`` or ``.zarr``, or ``.npz`` for sparse codes, must not exist yet.
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
        check_new_file(path, sparse)
        with codes_file(path, shape, dtype) as codes:
            yield codes
    else:
        check_fits(out, shape, sparse)
        yield DenseCodes(out)


def codes_file(
    path: str, shape: tuple[int, int], dtype: np.dtype[Any]
) -> AbstractContextManager[DenseCodes | SparseCodes]:
    """Return a context that writes codes to a file, atomically, and replaces one that exists.

    Parameters
    ----------
    path : str
        ``.npy`` or ``.zarr`` for dense codes, ``.npz`` for sparse ones.
    shape : tuple of (int, int)
    dtype : numpy.dtype
    """
    return WRITERS[ending_of(path)](path, shape, dtype)


def check_new_file(path: str, sparse: bool) -> None:
    """Raise an error unless codes of a kind can be written to a new file."""
    endings = (".npz",) if sparse else (".npy", ".zarr")
    if ending_of(path) not in endings:
        what = "sparse" if sparse else "dense"
        raise ParameterError(
            "out", f"be a file of kind {' or '.join(endings)} for {what} codes", path
        )
    if os.path.lexists(path):  # it might be the samples themselves
        raise OutputExistsError(
            f"out must not exist yet, got {path!r}. Remove it, or name another file."
        )


def check_fits(out: Any, shape: tuple[int, int], sparse: bool) -> None:
    """Raise ParameterError unless codes of a kind can be written to an array."""
    if sparse:
        raise ParameterError("out", "be None or a .npz file for sparse codes", out, got="an array")
    given = getattr(out, "shape", None), getattr(out, "dtype", None)
    if given[0] != shape or given[1] not in (np.float32, np.float64):
        raise ParameterError(
            "out",
            f"be a floating array of shape {shape}, float32 or float64",
            out,
            got=f"{given[1]} of shape {given[0]}",
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ParameterError("out", "be writeable", out, got="an array that is read-only")


@contextmanager
def _npy(path: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[DenseCodes]:
    with atomic_write(path) as temporary:
        mapped = memory_map(path, temporary, shape, dtype)
        codes = DenseCodes(mapped)
        yield codes
        mapped.flush()
        del mapped
        codes.rows = None  # some systems do not rename a file that is mapped
    codes.rows = np.lib.format.open_memmap(path, mode="r+")


def memory_map(path: str, temporary: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
    """Return the memory map of a new file, with its space on the disk reserved."""
    try:
        mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        with open(temporary, "r+b") as file:
            reserve(file.fileno(), os.path.getsize(temporary))
    except OSError as error:
        size = shape[0] * shape[1] * dtype.itemsize
        raise OSError(
            error.errno, f"out needs {size:,} bytes, which cannot be had: {error.strerror}", path
        ) from error
    return mapped


def rows_per_chunk(n_samples: int, n_components: int, n_writers: int = 1) -> int:
    """Return how many codes a chunk of a Zarr array has: a chunk at least for every writer."""
    return max(1, min(-(-n_samples // n_writers), CHUNK_ENTRIES // n_components))


@contextmanager
def _zarr(path: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[DenseCodes]:
    zarr = import_optional("zarr", "zarr", "A .zarr file")
    chunk = (rows_per_chunk(*shape), shape[1])
    if os.path.isdir(path) and not any(
        os.path.exists(os.path.join(path, name)) for name in ZARR_METADATA
    ):
        raise OutputExistsError(f"{path!r} is a folder that is not a Zarr array. Remove it first.")
    with atomic_write(path, is_folder=True) as temporary:
        codes = DenseCodes(
            zarr.create_array(temporary, shape=shape, chunks=chunk, dtype=dtype, overwrite=True)
        )
        yield codes
    codes.rows = zarr.open_array(path, mode="r+")


@contextmanager
def _npz(path: str, *_: object) -> Iterator[SparseCodes]:
    codes = SparseCodes()
    yield codes
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        sp.save_npz(file, codes.rows)


WRITERS: dict[str, Callable[..., AbstractContextManager[DenseCodes | SparseCodes]]] = {
    ".npy": _npy,
    ".zarr": _zarr,
    ".npz": _npz,
}
"""The writer for each kind of file."""

ZARR_METADATA = ("zarr.json", ".zarray")
"""Files, one of which every Zarr array has."""
