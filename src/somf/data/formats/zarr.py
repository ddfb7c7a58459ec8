"""Arrays of Zarr, version 3 of the library (formats 2 and 3)."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from somf.data.formats.checks import check_claim, check_dimensions, choose, guarded, not_in_file
from somf.data.sources.plain_chunks import PlainChunks, has_chunks_of_rows
from somf.data.sources.sliced import SlicedSource
from somf.errors import FileRequestError, MissingFileError
from somf.optional import import_optional
from somf.typing import Array

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
            arrays = {at: item for at, item in node.members(max_depth=None) if _is_array(item)}
            names = [at for at, item in arrays.items() if item.ndim in dimensions]
            chosen = choose(path, names, name, dimensions)
            if chosen not in arrays:
                raise not_in_file(path, name, names)
            node = arrays[chosen]
        elif name is not None:
            raise FileRequestError(path, "dataset", f"not be given for the array {path!r}", name)
        check_dimensions(path, node.shape, dimensions, name)
        # Some chunks may be missing, and read as the fill value, but not nearly all of them.
        check_claim(path, node.nbytes, node.nbytes_stored())
    return node


def _is_array(item: Any) -> bool:
    return hasattr(item, "dtype")


def zarr_source(path: str, name: str | None, transposed: bool) -> SlicedSource:
    """Open an array as the source that suits its layout.

    Parameters
    ----------
    path : str
    name : str, optional
        See `open_array`.
    transposed : bool
        Whether it is of shape (p, n).
    """
    array = open_array(path, name)
    if not transposed and _is_raw(array) and has_chunks_of_rows(array):
        return PlainChunkFiles(array, path=path)
    return ZarrSource(array, transposed, path)


class ZarrSource(SlicedSource):
    """An array in a folder, which must still exist when it is read.

    The library takes a missing chunk for one that was never written, and returns the fill value: a
    folder that was moved away would be read as zeros.

    Parameters
    ----------
    X : zarr.Array of shape (n, p)
    transposed : bool
    path : str
    """

    def __init__(self, X: Any, transposed: bool = False, path: str | None = None) -> None:
        super().__init__(X, transposed, path)
        self._folder = Path(X.store.root) / X.path
        self._metadata = self._folder / ("zarr.json" if X.metadata.zarr_format == 3 else ".zarray")

    def _slice(self, start: int, stop: int) -> Array:
        if not self._metadata.exists():
            raise MissingFileError(f"{os.fspath(self._metadata)!r} is no longer there.")
        return super()._slice(start, stop)


class PlainChunkFiles(PlainChunks, ZarrSource):
    """An array whose chunks are whole rows, not compressed, each in a file of its own.

    Parameters
    ----------
    X : zarr.Array of shape (n, p)
    path : str
    """

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
        except FileNotFoundError:
            return False  # never written, or the library raises an error
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
            name = f"{self._folder}/{self.X.metadata.encode_chunk_key((chunk, 0))}"
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
        order = getattr(codecs[0], "endian", None)
        is_plain = is_plain and (order is None or order.value == _native_order())
    else:
        is_plain = not array.filters and not array.compressors and np.dtype(array.dtype).isnative
        is_plain = is_plain and array.order == "C"
    return is_plain and type(array.store) is zarr.storage.LocalStore


def _native_order() -> str:
    return "little" if np.dtype("<i4").isnative else "big"
