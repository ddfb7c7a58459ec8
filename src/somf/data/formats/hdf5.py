"""Datasets of HDF5 files."""

import os
import weakref
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.checks import check_claim, check_dimensions, choose, guarded, not_in_file
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.plain_chunks import PlainChunks, has_chunks_of_rows
from somf.data.sources.sliced import SlicedSource
from somf.optional import import_optional
from somf.typing import Array


def open_dataset(path: str, name: str | None = None, dimensions: tuple[int, ...] = (2,)) -> Any:
    """Open a dataset, whose file stays open for as long as the dataset is used.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the file; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it may have.

    Returns
    -------
    dataset : h5py.Dataset
    """
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    with guarded(path, "an HDF5 file"):
        file = h5py.File(path, "r")
        try:
            return _dataset(path, file, name, dimensions)
        except BaseException:
            file.close()
            raise


def _dataset(path: str, file: Any, name: str | None, dimensions: tuple[int, ...]) -> Any:
    names: list[str] = []

    def collect(at: str, item: Any) -> None:
        if hasattr(item, "dtype") and is_real(item.dtype) and item.ndim in dimensions:
            names.append(at)

    file.visititems(collect)
    dataset = file.get(choose(path, names, name, dimensions))
    if not hasattr(dataset, "dtype"):
        raise not_in_file(path, name, names)
    check_dimensions(path, dataset.shape, dimensions, name)
    # Some chunks may be missing, and read as the fill value, but not nearly all of them.
    check_claim(path, dataset.nbytes, dataset.id.get_storage_size() + _elsewhere(dataset))
    return dataset


def hdf5_source(path: str, name: str | None, transposed: bool) -> Source:
    """Open a dataset as the source that suits its layout.

    Parameters
    ----------
    path : str
    name : str, optional
        See `open_dataset`.
    transposed : bool
        Whether it is of shape (p, n).
    """
    dataset = open_dataset(path, name)
    mapped = map_dataset(dataset, path)
    if mapped is not None:
        return ArraySource(mapped.T if transposed else mapped)
    is_raw = _is_plain(dataset) and dataset.id.get_create_plist().get_nfilters() == 0
    if is_raw and not transposed and has_chunks_of_rows(dataset):
        return PlainDataset(dataset, path)
    return SlicedSource(dataset, transposed, path)


def map_dataset(dataset: Any, path: str) -> Array | None:
    """Map a dataset into memory if it lies in the file in one piece; return None if not."""
    offset = dataset.id.get_offset() if _is_plain(dataset) else None
    return None if offset is None else np.memmap(path, dataset.dtype, "r", offset, dataset.shape)


def _is_plain(dataset: Any) -> bool:
    """Return whether the bytes in the file are the numbers that h5py would return."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    return bool(
        dataset.file.driver == "sec2"
        and not dataset.file.userblock_size
        and dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))  # else h5py converts
    )


class PlainDataset(PlainChunks):
    """A dataset whose chunks are whole rows, not compressed, read from the file itself.

    Parameters
    ----------
    X : h5py.Dataset of shape (n, p)
    path : str
    """

    def __init__(self, X: Any, path: str) -> None:
        super().__init__(X, path)
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._offsets: dict[int, int | None] = {}

    def _prefetch_bytes(self, chunk: int, offset: int, length: int) -> None:
        start = self._start(chunk)
        if start is not None:
            os.posix_fadvise(self._file, start + offset, length, os.POSIX_FADV_WILLNEED)

    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        start = self._start(chunk)
        if start is None:
            return False
        if os.preadv(self._file, [out], start + offset) != len(out):
            raise ValueError("the file ends before them.")  # h5py would return zeros
        return True

    def _start(self, chunk: int) -> int | None:
        """Return where in the file a chunk is, or None if it was never written."""
        if chunk not in self._offsets:  # h5py is slow, and holds the GIL
            found = self.X.id.get_chunk_info_by_coord((chunk * self._rows_per_chunk, 0))
            is_whole = found.byte_offset is not None and found.size == self._chunk_bytes
            self._offsets[chunk] = found.byte_offset if is_whole else None
        return self._offsets[chunk]


def _elsewhere(dataset: Any) -> int:
    """Return the size of a dataset that is stored in other files, and 0 for all others."""
    return int(dataset.nbytes) if dataset.is_virtual or dataset.external else 0
