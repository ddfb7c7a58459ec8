"""From entries in any order to compressed rows, in a scratch file if there are many."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from somf.data.readahead.memory_map import is_mapped
from somf.data.source import Source
from somf.data.sources.compressed_rows import CompressedRows
from somf.data.sources.sparse import CsrSource
from somf.errors import DamagedFileError
from somf.scratch import scratch_zeros
from somf.typing import Array, Ints

BLOCK_ENTRIES = 2**22
"""Entries that are converted at once."""

logger = logging.getLogger("somf")


class Entries(NamedTuple):
    """Some entries of a sparse matrix: X[rows[i], columns[i]] = values[i]."""

    rows: Ints
    columns: Ints
    values: Array


def converted_to_rows(
    blocks: Callable[[], Iterator[Entries]], shape: tuple[int, int], dtype: np.dtype[Any], path: str
) -> Source:
    """Return a source of entries that are not stored row by row.

    They are read twice: to count those of every row, and to put each in its place.

    Parameters
    ----------
    blocks : callable
        Returns an iterator over all entries, a block at a time.
    shape : tuple of (int, int)
        Of the matrix.
    dtype : numpy.dtype
    path : str
        The file of the entries.
    """
    logger.info("converting %s, which is not stored row by row, to compressed rows", path)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    for block in blocks():
        _check_inside(block, shape, path)
        indptr[1:] += np.bincount(block.rows, minlength=shape[0])
    np.cumsum(indptr, out=indptr)
    n_entries = int(indptr[-1])
    data = scratch_zeros((n_entries,), dtype)
    kind = np.int32 if max(shape[1], n_entries) < 2**31 else np.int64
    indices = scratch_zeros((n_entries,), np.dtype(kind))
    free = indptr[:-1].copy()  # where the next entry of every row goes
    for block in blocks():
        _check_inside(block, shape, path)
        _place(block, free, indptr, data, indices, path)
    if (free != indptr[1:]).any():
        raise _changed(path)
    if is_mapped(data) or is_mapped(indices):
        return CompressedRows(data, indices, indptr, shape[1], path)
    return CsrSource(sp.csr_array((data, indices, indptr.astype(kind)), shape=shape))


def _place(
    block: Entries, free: Ints, indptr: Ints, data: Array, indices: Array, path: str
) -> None:
    order = np.argsort(block.rows, kind="stable")
    rows = block.rows[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))  # where another row begins
    counts = np.diff(starts, append=len(rows))
    own = rows[starts]
    if (free[own] + counts > indptr[own + 1]).any():
        raise _changed(path)
    places = np.repeat(free[own] - starts, counts) + np.arange(len(rows))
    data[places] = block.values[order]
    indices[places] = block.columns[order]
    free[own] += counts


def _check_inside(block: Entries, shape: tuple[int, int], path: str) -> None:
    for ids, length, what in zip(block[:2], shape, ("row", "column"), strict=True):
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < length:
            raise DamagedFileError(
                f"{path!r} is damaged: a {what} of an entry must be from 0 to {length - 1}, "
                f"got {int(ids.max() if ids.min() >= 0 else ids.min())}."
            )


def _changed(path: str) -> DamagedFileError:
    return DamagedFileError(f"{path!r} was changed while it was read.")
