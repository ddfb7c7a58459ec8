"""Datasets of HDF5 files."""

import os
import weakref
from typing import Any

import numpy as np

from somf.data.guard import check_claim, guarded, optional
from somf.data.sliced import PlainChunks, SlicedSource
from somf.data.source import ArraySource, Source
from somf.tensorfile import DamagedFileError
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
    h5py = optional("h5py", "hdf5")
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
        raise DamagedFileError(f"dataset must be one of {names} in {path!r}, got {name!r}.")
    if dataset.ndim not in dimensions:
        raise DamagedFileError(
            f"{name!r} in {path!r} must have {' or '.join(map(str, dimensions))} dimensions, "
            f"got shape {dataset.shape}."
        )
    # Chunks that were never written read as the fill value, but not all of them.
    check_claim(path, dataset.nbytes, dataset.id.get_storage_size() + _elsewhere(dataset))
    return dataset


def source_of(dataset: Any, path: str, transposed: bool) -> Source:
    """Return the source that suits the layout of a dataset.

    Parameters
    ----------
    dataset : h5py.Dataset of shape (n, p)
    path : str
    transposed : bool
        Whether it is of shape (p, n).
    """
    mapped = map_dataset(dataset, path)
    if mapped is not None:
        return ArraySource(mapped.T if transposed else mapped)
    if _is_plain(dataset) and not transposed and _has_rows_as_they_are(dataset):
        return PlainDataset(dataset, path)
    return SlicedSource(dataset, transposed, path)


def map_dataset(dataset: Any, path: str) -> Array | None:
    """Map a dataset into memory if it lies in the file in one piece; return None if not."""
    offset = dataset.id.get_offset() if _is_plain(dataset) else None
    return None if offset is None else np.memmap(path, dataset.dtype, "r", offset, dataset.shape)


def _is_plain(dataset: Any) -> bool:
    """Return whether the numbers in the file are those that h5py would give."""
    h5py = optional("h5py", "hdf5")
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
        super().__init__(X, path=path)
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        rows, p = self.X.chunks
        found = self.X.id.get_chunk_info_by_coord((chunk * rows, 0))
        return (
            found.byte_offset is not None  # it was written
            and found.size == rows * p * self.dtype.itemsize
            and os.preadv(self._file, [out], found.byte_offset + offset) == len(out)
        )


def _has_rows_as_they_are(dataset: Any) -> bool:
    """Return whether chunks are whole rows, without a filter."""
    return (
        hasattr(os, "preadv")
        and dataset.chunks is not None
        and dataset.chunks[1] == dataset.shape[1]
        and dataset.id.get_create_plist().get_nfilters() == 0
    )


class SeveralDatasetsError(DamagedFileError):
    """A file holds several datasets, and none of them is named."""

    def __init__(self, path: str, names: list[str]) -> None:
        self.names = sorted(names)
        held = f"several: {', '.join(self.names)}"
        super().__init__(f"dataset must name what to read in {path!r}, which holds {held}.")


def choose(path: str, names: list[str], name: str | None) -> str:
    """Return the name of what to open in a file, the only one that qualifies if none is given."""
    if name is not None:
        return name
    if not names:
        raise DamagedFileError(f"dataset must name what to read in {path!r}, which holds none.")
    if len(names) > 1:
        raise SeveralDatasetsError(path, names)
    return names[0]


def _note(names: list[str], at: str, item: Any, dimensions: tuple[int, ...]) -> None:
    if hasattr(item, "dtype") and item.dtype.kind in "fiub" and item.ndim in dimensions:
        names.append(at)


def _elsewhere(dataset: Any) -> int:
    """Return the bytes of a dataset that is kept in other files, which cannot be known."""
    return int(dataset.nbytes) if dataset.is_virtual or dataset.external else 0
