"""Arrays of Zarr, version 3 of the library (formats 2 and 3)."""

import itertools
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from somf.data.checks import gone, is_real
from somf.data.formats.checks import (
    MATRIX,
    check_chunks,
    check_claim,
    check_dimensions,
    choose,
    guarded,
    not_in_file,
)
from somf.data.formats.feature_names import anndata_names, is_anndata, read_names
from somf.data.formats.sparse_groups import (
    SparseLayout,
    StoredEntries,
    sparse_layout,
    sparse_source,
)
from somf.data.source import Source
from somf.data.sources.plain_chunks import PlainChunks, has_chunks_of_rows
from somf.data.sources.sliced import SlicedSource
from somf.errors import FileRequestError
from somf.optional import import_optional

MOST_NAMES = 2**12
"""File names of chunks that are remembered; far fewer chunks are in use at a time."""


def open_array(path: str, name: str | None = None, dimensions: tuple[int, ...] = (2,)) -> Any:
    """Open an array, or the array of a group.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the group; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it may have.

    Returns
    -------
    array : zarr.Array
    """
    zarr = import_optional("zarr", "zarr", "A Zarr array")
    with guarded(path, "a Zarr array or group"):
        node = zarr.open(path, mode="r")
        if isinstance(node, zarr.Group):
            arrays = {at: item for at, item in _members(node) if _is_array(item)}
            names = [at for at, item in arrays.items() if item.ndim in dimensions]
            chosen = choose(path, names, name, dimensions)
            if chosen not in arrays:
                raise not_in_file(path, name, names)
            node = arrays[chosen]
        elif name is not None:
            raise FileRequestError(path, "dataset", f"not be given for the array {path!r}", name)
        _check_array(path, node, dimensions, name)
    return node


def _members(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield all arrays and groups in a group, with their names."""
    yield from group.members(max_depth=None)


def _check_array(path: str, array: Any, dimensions: tuple[int, ...], name: str | None) -> None:
    check_dimensions(path, array.shape, dimensions, name)
    # Some chunks may be missing, and read as the fill value, but not nearly all of them.
    stored = _stored_bytes(array)
    check_claim(path, array.nbytes, stored)
    check_chunks(path, array, stored)


def _stored_bytes(array: Any) -> int:
    return sum(size for _, size in _files_in(folder_of(array)))


def _is_array(item: Any) -> bool:
    return hasattr(item, "dtype")


def zarr_source(path: str, name: str | None, transposed: bool) -> Source:
    """Open an array, or a group that holds a sparse matrix, as the source that suits its layout.

    Parameters
    ----------
    path : str
    name : str, optional
        See `open_array`. For a group of AnnData it is X if it is left out.
    transposed : bool
        Whether it is of shape (p, n).
    """
    zarr = import_optional("zarr", "zarr", "A Zarr array")
    with guarded(path, "a Zarr array or group"), _quiet_about_strings(zarr):
        root = zarr.open(path, mode="r")
        if not isinstance(root, zarr.Group):
            return _dense_source(path, open_array(path, name), transposed)
        return _member_source(path, root, name, transposed)


def zarr_group_source(group: Any) -> Source:
    """Return the sparse matrix that an open group holds as a source.

    Parameters
    ----------
    group : zarr.Group
    """
    path = str(group.store_path)
    with guarded(path, "a Zarr array or group"):
        layout = sparse_layout(group, group.get)
        if layout is None:
            raise ValueError(f"{group.name!r} is not a sparse matrix")
        return sparse_source(_stored_entries(group, layout), layout, False, path)


def zarr_is_anndata(path: str) -> bool:
    """Return whether a folder is an AnnData object."""
    zarr = import_optional("zarr", "zarr", "A Zarr array")
    with guarded(path, "a Zarr array or group"), _quiet_about_strings(zarr):
        root = zarr.open(path, mode="r")
        return isinstance(root, zarr.Group) and is_anndata(root)


@contextmanager
def _quiet_about_strings(zarr: Any) -> Iterator[None]:
    """Do not tell that the specification of strings, as in names, is not final."""
    with warnings.catch_warnings():
        category = getattr(zarr.errors, "UnstableSpecificationWarning", None)
        if category is not None:
            warnings.simplefilter("ignore", category)
        yield


def _member_source(path: str, root: Any, name: str | None, transposed: bool) -> Source:
    """Open an array or a sparse matrix in a group."""
    of_anndata = is_anndata(root)
    wanted = "X" if name is None and of_anndata and "X" in root else name
    if wanted is None or wanted not in root:
        names = [at for at, item in _members(root) if _is_matrix(item)]
        shapes = {at: item.shape for at, item in _members(root) if _is_array(item)}
        wanted = choose(path, names, name, shapes=shapes)
        if wanted not in names:
            raise not_in_file(path, name, names)
    node = root[wanted]
    layout = None if _is_array(node) else sparse_layout(node, node.get)
    if layout is not None:
        source = sparse_source(_stored_entries(node, layout), layout, transposed, path)
    elif _is_array(node):
        _check_array(path, node, MATRIX, name)
        source = _dense_source(path, node, transposed)
    else:
        raise not_in_file(path, name, [at for at, item in _members(root) if _is_matrix(item)])
    found = anndata_names(root.get, wanted, transposed) if of_anndata else None
    source.feature_names = read_names(path, found, source.shape[1])
    return source


def _is_matrix(item: Any) -> bool:
    if _is_array(item):
        return item.ndim == 2 and is_real(np.dtype(item.dtype))
    return sparse_layout(item, item.get) is not None


def _stored_entries(group: Any, layout: SparseLayout) -> StoredEntries:
    data, indices, indptr = (group.get(name) for name in layout.names)
    if not all(_is_array(array) and len(array.shape) == 1 for array in (data, indices, indptr)):
        raise ValueError(f"{group.name!r} is a sparse matrix without {', '.join(layout.names)}")
    files = [ChunkFiles(array) for array in (data, indices)]

    def confirm(first: int, last: int) -> None:
        for of_array in files:
            of_array.check(first, last)

    return StoredEntries(data, indices, indptr, _stored_bytes(group), confirm)


def _dense_source(path: str, array: Any, transposed: bool) -> SlicedSource:
    if not transposed and _is_raw(array) and has_chunks_of_rows(array):
        return PlainChunkFiles(array, path=path)
    return ZarrSource(array, transposed, path)


class ChunkFiles:
    """The files that hold the chunks of an array.

    The library takes a missing file for a chunk that was never written, and returns the fill value.
    So a folder that was moved away, or a file that was removed, would be read as zeros.

    Parameters
    ----------
    array : zarr.Array
    """

    def __init__(self, array: Any) -> None:
        self.array, self.folder = array, folder_of(array)
        is_format_3 = array.metadata.zarr_format == 3
        self.metadata = "zarr.json" if is_format_3 else ".zarray"
        sizes = getattr(array, "shards", None) or array.chunks  # a shard is one file
        self.sizes = tuple(int(size) for size in sizes)
        self.counts = [-(-n // size) for n, size in zip(array.shape, self.sizes, strict=True)]
        written = []
        for name, _ in _files_in(self.folder):
            at = [int(number) for number in re.findall(r"[0-9]+", name)]
            is_inside = len(at) == len(self.counts) and all(map(int.__lt__, at, self.counts))
            if is_inside and name == self.name_of(at):
                written.append(self._number(at))
        self._written = np.sort(np.array(written, dtype=np.int64))

    def name_of(self, at: Sequence[int]) -> str:
        """Return the file of a chunk, relative to the folder of the array."""
        return str(self.array.metadata.encode_chunk_key(tuple(at)))

    def was_written(self, at: Sequence[int]) -> bool:
        """Return whether a chunk had a file when the array was opened."""
        number = self._number(at)
        position = int(np.searchsorted(self._written, number))
        return position < len(self._written) and bool(self._written[position] == number)

    def check(self, start: int, stop: int, axis: int = 0) -> None:
        """Raise MissingFileError if a file of entries with an index in a range is gone.

        Parameters
        ----------
        start, stop : int
        axis : int
        """
        ranges = [range(count) for count in self.counts]
        ranges[axis] = range(start // self.sizes[axis], -(-stop // self.sizes[axis]))
        names = (self.name_of(at) for at in itertools.product(*ranges) if self.was_written(at))
        for name in (self.metadata, *names):
            if not os.path.exists(f"{self.folder}/{name}"):
                raise gone(f"{self.folder}/{name}")

    def _number(self, at: Sequence[int]) -> int:
        number = 0
        for index, count in zip(at, self.counts, strict=True):
            number = number * count + index
        return number


def folder_of(array: Any) -> str:
    """Return the folder of an array that is stored in files."""
    return os.path.normpath(os.path.join(str(array.store.root), str(array.path)))


def _files_in(
    folder: str, prefix: str = "", visited: set[tuple[int, int]] | None = None
) -> Iterator[tuple[str, int]]:
    """Yield the name, relative to a folder, and the size of every file in it.

    Parameters
    ----------
    folder : str
    prefix : str
        Beginning of the names.
    visited : set of tuple of (int, int), optional
        Devices and inodes of folders that are not visited again.

    Raises
    ------
    ValueError
        If something is not a regular file, for which a reader could wait for ever, or if links lead
        to a folder twice, perhaps in a circle.
    """
    visited = set() if visited is None else visited
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in visited:
        raise ValueError(f"links in it lead twice to {os.path.realpath(folder)!r}")
    visited.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_in(entry.path, f"{prefix}{entry.name}/", visited)
            elif entry.is_file():
                yield prefix + entry.name, entry.stat().st_size
            else:
                raise ValueError(f"{entry.path!r} is not a regular file")


class ZarrSource(SlicedSource):
    """An array in a folder, whose files must still exist when it is read.

    Parameters
    ----------
    X : zarr.Array of shape (n, p)
    transposed : bool
    path : str
    """

    small_read = 2**20  # the library takes a millisecond for a read, of a part of a shard, too

    def __init__(self, X: Any, transposed: bool = False, path: str | None = None) -> None:
        super().__init__(X, transposed, path)
        self._files = ChunkFiles(X)

    def _confirm(self, start: int, stop: int) -> None:
        self._files.check(start, stop, int(self.transposed))


class PlainChunkFiles(PlainChunks, ZarrSource):
    """An array whose chunks are whole rows, not compressed, each in a file of its own.

    Parameters
    ----------
    X : zarr.Array of shape (n, p)
    path : str
    """

    small_read = 0  # it is read without the library

    def __init__(self, X: Any, path: str) -> None:
        super().__init__(X, path=path)
        self._names: dict[int, str] = {}

    def _prefetch_bytes(self, chunk: int, offset: int, length: int) -> None:
        file = os.open(self._name(chunk), os.O_RDONLY)
        try:
            os.posix_fadvise(file, offset, length, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(file)

    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        try:
            file = os.open(self._name(chunk), os.O_RDONLY)
        except FileNotFoundError as error:
            if self._files.was_written((chunk, 0)):
                raise gone(error.filename) from error
            return False
        try:
            n_read = os.preadv(file, [out], offset)
        finally:
            os.close(file)
        if n_read != len(out):
            raise ValueError(f"{self._name(chunk)!r} ended after {offset + n_read} bytes.")
        return True

    def _name(self, chunk: int) -> str:
        """Return the file of a chunk, after a check that it has the right size."""
        name = self._names.get(chunk)
        if name is None:  # the library takes longer for this than the system to open the file
            name = f"{self._files.folder}/{self._files.name_of((chunk, 0))}"
            if (size := os.path.getsize(name)) != self._chunk_bytes:
                raise ValueError(f"{name!r} has {size} bytes instead of {self._chunk_bytes}.")
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            self._names[chunk] = name
        return name


def _is_raw(array: Any) -> bool:
    """Return whether chunks are local files that hold nothing but NumPy's bytes."""
    zarr = import_optional("zarr", "zarr", "A Zarr array")
    if array.metadata.zarr_format == 3:
        codecs = array.metadata.codecs
        is_plain = len(codecs) == 1 and isinstance(codecs[0], zarr.codecs.BytesCodec)
        order = getattr(codecs[0], "endian", None)  # an enumeration, in newer versions a str
        is_plain = is_plain and getattr(order, "value", order) in (None, sys.byteorder)
    else:
        is_plain = not array.filters and not array.compressors and array.order == "C"
    is_local = type(array.store) is zarr.storage.LocalStore
    return is_plain and is_local and bool(np.dtype(array.dtype).isnative)
