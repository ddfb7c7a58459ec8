"""Datasets of HDF5 files."""

import os
import weakref
from typing import Any

import numpy as np

from somf.data.formats.checks import check_claim, choose, guarded, not_in_file
from somf.data.readahead.memory_map import Place
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.plain_chunks import PlainChunks, has_chunks_of_rows
from somf.data.sources.sliced import SlicedSource
from somf.errors import NotAMatrixError
from somf.optional import import_optional
from somf.typing import Array

HDF5 = (".h5", ".hdf5", ".he5")
"""How the names of such files end."""


def open_dataset(path: str, name: str | None = None, dimensions: tuple[int, ...] = (2,)) -> Any:
    """Open a dataset, which stays open for as long as it is used.

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
    file.visititems(lambda at, item: _note(names, at, item, dimensions))
    dataset = file.get(choose(path, names, name))
    if not hasattr(dataset, "dtype"):
        raise not_in_file(path, name, names)
    if dataset.ndim not in dimensions:
        raise NotAMatrixError(
            f"Dataset {name!r} of {path!r} must have {' or '.join(map(str, dimensions))} "
            f"dimensions, got shape {dataset.shape}."
        )
    # Chunks that were never written read as the fill value, but not all of them.
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
    """Return whether the numbers in the file are those that h5py would give."""
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
            raise ValueError("the file ends before them.")  # the library would give zeros
        return True

    def _locate_chunk(self, chunk: int) -> Place | None:
        start = self._start(chunk)
        return None if start is None else Place(f"/proc/self/fd/{self._file}", start)

    def _start(self, chunk: int) -> int | None:
        """Return where in the file a chunk is, or None if it was never written."""
        if chunk not in self._offsets:  # the library takes its time, and the interpreter with it
            found = self.X.id.get_chunk_info_by_coord((chunk * self._rows_per_chunk, 0))
            is_whole = found.byte_offset is not None and found.size == self._chunk_bytes
            self._offsets[chunk] = found.byte_offset if is_whole else None
        return self._offsets[chunk]


def _note(names: list[str], at: str, item: Any, dimensions: tuple[int, ...]) -> None:
    if hasattr(item, "dtype") and item.dtype.kind in "fiub" and item.ndim in dimensions:
        names.append(at)


def _elsewhere(dataset: Any) -> int:
    """Return the bytes of a dataset that is kept in other files, which cannot be known."""
    return int(dataset.nbytes) if dataset.is_virtual or dataset.external else 0
