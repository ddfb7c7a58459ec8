"""Codes that several ranks compute: into one file, or to all of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.formats.kinds import ending_of
from somf.distributed import Communicator, together
from somf.files.atomic import atomic_write
from somf.inference.output import (
    DenseCodes,
    SparseCodes,
    check_fits,
    check_new_file,
    codes_into,
    memory_map,
    rows_per_chunk,
)
from somf.optional import import_optional
from somf.typing import Ints


def edges_of_codes(n_samples: int, n_components: int, size: int) -> Ints:
    """Return where the samples of each rank begin: at the beginning of a chunk of the codes.

    Two ranks that write to one chunk would undo each other's work.
    """
    chunk = rows_per_chunk(n_samples, n_components, size)
    n_chunks = -(-n_samples // chunk)
    edges = [min(chunk * (n_chunks * rank // size), n_samples) for rank in range(size)]
    return np.array([*edges, n_samples])


@contextmanager
def codes_on_ranks(
    out: Any,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    sparse: bool,
    communicator: Communicator,
    edges: Ints,
) -> Iterator[DenseCodes | SparseCodes]:
    """Give an object to append the codes of the samples of this rank to.

    Parameters
    ----------
    out, shape, dtype, sparse
        See `codes_into`.
    communicator : Communicator
    edges : ndarray of shape (size + 1,)
        The samples of each rank.

    Yields
    ------
    codes : DenseCodes or SparseCodes
        Its `rows` are the result, on all ranks.
    """
    first, last = edges[communicator.rank : communicator.rank + 2].tolist()
    is_path = isinstance(out, str | os.PathLike)
    if communicator.size == 1:
        with codes_into(out, shape, dtype, sparse) as codes:
            yield codes
    elif is_path and not sparse:
        with _shared_file(os.fspath(out), shape, dtype, communicator) as dense:
            dense.n_written = first
            yield dense
    elif out is None or is_path or isinstance(out, np.ndarray):
        if sparse and not is_path and out is not None:
            check_fits(out, shape, sparse)
        part = SparseCodes() if sparse else DenseCodes(np.empty((last - first, shape[1]), dtype))
        yield part
        _gather(part, out, shape, dtype, communicator)
    else:  # such as a Zarr array, which every rank has opened
        check_fits(out, shape, sparse)
        dense = DenseCodes(out)
        dense.n_written = first
        yield dense
        communicator.any(False)  # all codes are written


@contextmanager
def _shared_file(
    path: str, shape: tuple[int, int], dtype: np.dtype[Any], communicator: Communicator
) -> Iterator[DenseCodes]:
    """Give the codes of a new file, which rank 0 creates, and which gets its name at the end."""
    is_folder = ending_of(path) == ".zarr"
    if communicator.rank > 0:
        temporary = communicator.tell(None)[0]
        codes = DenseCodes(_opened(temporary, is_folder))
        yield codes
        with together(communicator):
            _flush(codes)
    else:
        check_new_file(path, sparse=False)
        with atomic_write(path, is_folder=is_folder) as temporary:
            codes = DenseCodes(_created(path, temporary, shape, dtype, communicator.size))
            communicator.tell(temporary)
            yield codes
            with together(communicator):
                _flush(codes)
    communicator.any(False)  # the file has its name
    codes.rows = _opened(path, is_folder)


def _created(
    path: str, temporary: str, shape: tuple[int, int], dtype: np.dtype[Any], size: int
) -> Any:
    if ending_of(path) == ".npy":
        return memory_map(path, temporary, shape, dtype)
    zarr = import_optional("zarr", "zarr", "A .zarr file")
    chunk = (rows_per_chunk(*shape, size), shape[1])
    return zarr.create_array(temporary, shape=shape, chunks=chunk, dtype=dtype, overwrite=True)


def _opened(path: str, is_folder: bool) -> Any:
    if is_folder:
        return import_optional("zarr", "zarr", "A .zarr file").open_array(path, mode="r+")
    return np.lib.format.open_memmap(path, mode="r+")


def _flush(codes: DenseCodes) -> None:
    if isinstance(codes.rows, np.memmap):
        codes.rows.flush()
    codes.rows = None  # some systems do not rename a file that is mapped


def _gather(
    part: DenseCodes | SparseCodes,
    out: Any,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    communicator: Communicator,
) -> None:
    """Let every rank have the codes of all of them; write a file of sparse codes on rank 0."""
    if isinstance(part, DenseCodes):
        codes = np.concatenate(communicator.gather(part.rows))
        if out is not None:
            check_fits(out, shape, sparse=False)
            out[:] = codes
        part.rows = codes if out is None else out
        return
    own = part.rows if part.parts else sp.csr_array((0, shape[1]), dtype=dtype)
    arrays = (own.data, own.indices.astype(np.int64), np.diff(own.indptr).astype(np.int64))
    data, indices, lengths = (np.concatenate(communicator.gather(array)) for array in arrays)
    indptr = np.append(0, np.cumsum(lengths))
    part.parts = [sp.csr_array((data, indices, indptr), shape=shape)]
    with together(communicator):
        if out is not None and communicator.rank == 0:
            with codes_into(out, shape, dtype, sparse=True) as file:
                file.append(part.rows)
