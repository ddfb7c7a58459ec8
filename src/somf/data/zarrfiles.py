"""Arrays of Zarr, version 3 of the library (formats 2 and 3)."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from somf.data.guard import check_claim, guarded, optional
from somf.data.hdf5 import choose
from somf.data.sliced import PlainChunks, SlicedSource
from somf.tensorfile import DamagedFileError
from somf.typing import Array


def open_array(path: str, name: str | None = None, dimensions: tuple[int, ...] = (2,)) -> Any:
    """Open an array, or the array of a group.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the group; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it should have.

    Returns
    -------
    array : zarr.Array
    """
    zarr = optional("zarr", "zarr")
    with guarded(path, "a Zarr array or group"):
        node = zarr.open(path, mode="r")
        if isinstance(node, zarr.Group):
            arrays = {at: item for at, item in node.members(max_depth=None) if _is_array(item)}
            names = [at for at, item in arrays.items() if item.ndim in dimensions]
            chosen = choose(path, names, name)
            if chosen not in arrays:
                raise DamagedFileError(f"dataset must be one of {names} in {path!r}, got {name!r}.")
            node = arrays[chosen]
        elif name is not None:
            raise DamagedFileError(f"dataset must be None, got {name!r}: {path!r} is an array.")
        # Chunks that were never written read as the fill value, but not all of them.
        check_claim(path, node.nbytes, node.nbytes_stored())
    return node


def _is_array(item: Any) -> bool:
    return hasattr(item, "dtype")


def source_of(array: Any, path: str, transposed: bool) -> SlicedSource:
    """Return the source that suits the layout of an array.

    Parameters
    ----------
    array : zarr.Array of shape (n, p)
    path : str
    transposed : bool
        Whether it is of shape (p, n).
    """
    if not transposed and _has_rows_as_they_are(array):
        return PlainChunkFiles(array, path=path)
    return ZarrSource(array, transposed, path)


class ZarrSource(SlicedSource):
    """An array in a folder, which must still be there when it is read.

    The library takes a chunk that it does not find for one that was never written, and gives the
    fill value: a folder that was moved away would be learned from as zeros.

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
            raise FileNotFoundError(f"{os.fspath(self._metadata)!r} is no longer there.")
        return super()._slice(start, stop)


class PlainChunkFiles(PlainChunks, ZarrSource):
    """An array whose chunks are whole rows, not compressed, each read from a file of its own."""

    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        rows, p = self.X.chunks
        name = self._folder / self.X.metadata.encode_chunk_key((chunk, 0))
        if not name.exists():  # it was never written
            return False
        with name.open("rb", buffering=0) as file:
            size, expected = os.fstat(file.fileno()).st_size, rows * p * self.dtype.itemsize
            if size != expected:
                raise ValueError(f"{os.fspath(name)!r} has {size} bytes instead of {expected}.")
            file.seek(offset)
            n_read = file.readinto(out)
            if n_read != len(out):
                raise ValueError(f"{os.fspath(name)!r} ended after {n_read} bytes.")
        return True


def _has_rows_as_they_are(array: Any) -> bool:
    """Return whether chunks are files of whole rows of NumPy's numbers, as they are."""
    zarr = optional("zarr", "zarr")
    if array.metadata.zarr_format == 3:
        codecs = array.metadata.codecs
        is_plain = len(codecs) == 1 and isinstance(codecs[0], zarr.codecs.BytesCodec)
        order = getattr(codecs[0], "endian", None)
        is_plain = is_plain and (order is None or order.value == _native_order())
    else:
        is_plain = not array.filters and not array.compressors and np.dtype(array.dtype).isnative
        is_plain = is_plain and array.order == "C"
    return (
        is_plain
        and type(array.store) is zarr.storage.LocalStore
        and array.chunks[1] == array.shape[1]
    )


def _native_order() -> str:
    return "little" if np.dtype("<i4").isnative else "big"
