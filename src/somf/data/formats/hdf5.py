"""Datasets of HDF5 files."""

import os
import weakref
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.checks import (
    check_chunks,
    check_claim,
    check_dimensions,
    choose,
    guarded,
    not_in_file,
)
from somf.data.formats.hdf5_elsewhere import DatasetElsewhere, names_of_other_files, other_files
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.plain_chunks import PlainChunks, has_chunks_of_rows
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError, FileRequestError, MissingFileError
from somf.optional import import_optional
from somf.typing import Array

MOST_LINKS = 16
"""Soft links that may lead to one another, as in HDF5."""


def open_dataset(
    path: str,
    name: str | None = None,
    dimensions: tuple[int, ...] = (2,),
    allow_external: bool = False,
) -> Any:
    """Open a dataset, whose file stays open for as long as the dataset is used.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the file; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it may have.
    allow_external : bool
        Whether it may be in another file, or consist of other files.

    Returns
    -------
    dataset : h5py.Dataset
    """
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    with guarded(path, "an HDF5 file"):
        file = h5py.File(path, "r")
        try:
            return _dataset(path, file, name, dimensions, allow_external)
        except BaseException:
            file.close()
            raise


def _dataset(
    path: str, file: Any, name: str | None, dimensions: tuple[int, ...], allow_external: bool
) -> Any:
    names: list[str] = []

    def collect(at: str, item: Any) -> None:
        if not hasattr(item, "dtype") or not is_real(item.dtype):
            return
        # To learn the shape of a virtual dataset, HDF5 may open other files.
        is_refused = not allow_external and names_of_other_files(item)
        if is_refused or item.ndim in dimensions:
            names.append(at)

    file.visititems(collect)
    chosen = choose(path, names, name, dimensions)
    dataset = _follow(path, file, chosen, allow_external)
    if not hasattr(dataset, "dtype"):
        raise not_in_file(path, name, names)
    elsewhere = names_of_other_files(dataset)
    if elsewhere and not allow_external:
        raise _refused(path, chosen, elsewhere[0])
    check_dimensions(path, dataset.shape, dimensions, name)
    check_chunks(path, dataset, dataset.id.get_storage_size())
    # Some chunks may be missing, and read as the fill value, but not nearly all of them.
    files = other_files(dataset)
    stored = dataset.id.get_storage_size() if files is None else files.n_bytes
    check_claim(path, dataset.nbytes, stored)
    if files is not None:
        files.check(0, dataset.shape[0])
    return dataset


def _follow(path: str, group: Any, name: str, allow_external: bool, n_links: int = 0) -> Any:
    """Return what a name in a group stands for, or None; a link out of the file may be refused.

    HDF5 itself would open the other file in order to find out.
    """
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    if n_links > MOST_LINKS:
        raise DamagedFileError(f"{path!r} is damaged: its links lead nowhere.")
    here = group.file if name.startswith("/") else group
    for part in (part for part in name.split("/") if part not in ("", ".")):
        link = here.get(part, getlink=True) if isinstance(here, h5py.Group) else None
        if isinstance(link, h5py.SoftLink):
            here = _follow(path, here, link.path, allow_external, n_links + 1)
        elif isinstance(link, h5py.ExternalLink):
            if not allow_external:
                raise _refused(path, name, link.filename)
            target = here.get(part)
            if target is None:
                raise MissingFileError(
                    f"{name!r} in {path!r} is a link to {link.path!r} in {link.filename!r}, which "
                    "is not there."
                )
            here = target
        else:
            here = None if link is None else here[part]
    return here


def _refused(path: str, name: str, other: str) -> FileRequestError:
    rule = f"be True to read {name!r} in {path!r}, which is in another file, {other!r}"
    hint = "Allow it if you trust the file: somf.data.open_source(path, allow_external=True)."
    return FileRequestError(path, "allow_external", rule, False, hint)


def hdf5_source(
    path: str, name: str | None, transposed: bool, allow_external: bool = False
) -> Source:
    """Open a dataset as the source that suits its layout.

    Parameters
    ----------
    path : str
    name : str, optional
        See `open_dataset`.
    transposed : bool
        Whether it is of shape (p, n).
    allow_external : bool
        See `open_dataset`.
    """
    dataset = open_dataset(path, name, allow_external=allow_external)
    files = other_files(dataset)
    if files is not None:
        return DatasetElsewhere(dataset, transposed, path, files)
    mapped = map_dataset(dataset, path)
    if mapped is not None:
        return ArraySource(mapped.T if transposed else mapped)
    is_raw = _is_plain(dataset, path) and dataset.id.get_create_plist().get_nfilters() == 0
    if is_raw and not transposed and has_chunks_of_rows(dataset):
        return PlainDataset(dataset, path)
    return SlicedSource(dataset, transposed, path)


def map_dataset(dataset: Any, path: str) -> Array | None:
    """Map a dataset into memory if it lies in the file in one piece; return None if not."""
    offset = dataset.id.get_offset() if _is_plain(dataset, path) else None
    if offset is None:
        return None
    with guarded(path, "an HDF5 file"):
        return np.memmap(path, dataset.dtype, "r", offset, dataset.shape)


def _is_plain(dataset: Any, path: str) -> bool:
    """Return whether bytes in the file itself are the numbers that h5py would return."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    return bool(
        dataset.file.driver == "sec2"
        and not dataset.file.userblock_size
        and not (dataset.is_virtual or dataset.external)
        and os.path.samefile(dataset.file.filename, path)  # else it was reached by a link
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
