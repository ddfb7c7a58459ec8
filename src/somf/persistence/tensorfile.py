"""Arrays and text in one file that is safe to read, also if it is from an untrusted source.

The layout is that of safetensors (eight bytes of header length, a JSON header, raw bytes), so other
tools can read the files too. Nothing in it is executed, and every size is checked against the file
before memory is taken. The header holds a checksum of the whole file. Writes are atomic.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from somf.errors import DamagedFileError, ParameterError
from somf.files.atomic import atomic_write
from somf.typing import Array, Ints

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
}
"""The types of arrays, by their names in a file."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}
"""The names in a file, by type."""

MAX_HEADER = 2**26
"""Bytes of a header, at most."""

PIECE = 2**24
"""Bytes that are read or written at once."""

NO_CHECKSUM = "0" * 64
"""What stands in the header for the checksum while the checksum is computed."""

MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    SyntaxError,
)
"""The built-in errors that malformed content of a file raises when it is used."""


@dataclass(frozen=True)
class SelectedRows:
    """Some rows of an array, picked a few at a time when they are written."""

    array: Array
    ids: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of these rows, stacked."""
        return (len(self.ids), *self.array.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array."""
        return self.array.dtype

    def __getitem__(self, part: slice) -> Array:
        return self.array[self.ids[part]]


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Array | SelectedRows],
    text: str,
    previous: str | os.PathLike[str] | None = None,
) -> None:
    """Write arrays and a text, replacing the file as a whole.

    Parameters
    ----------
    path : path-like
    tensors : dict of str to ndarray or SelectedRows
        float32, float64 or int64, of at least one dimension. They are not copied.
    text : str
    previous : path-like, optional
        Where to keep the file that is replaced.
    """
    header = _header(tensors, text)
    with (
        atomic_write(path, fsync=True, previous=previous) as temporary,
        open(temporary, "wb") as file,
    ):
        checksum = hashlib.sha256(header)
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for tensor in tensors.values():
            for piece in _pieces(tensor):
                checksum.update(piece)
                file.write(piece)
        file.seek(8)
        file.write(header.replace(NO_CHECKSUM.encode(), checksum.hexdigest().encode(), 1))


def read(
    path: str | os.PathLike[str],
    allocate: Callable[[str, tuple[int, ...], np.dtype[Any]], Array] | None = None,
    may_lack_checksum: Callable[[str], bool] | None = None,
) -> tuple[dict[str, Array], str]:
    """Read what `write` has written.

    Parameters
    ----------
    path : path-like
    allocate : callable, optional
        Makes the array of some name, shape and type that is read into; by default in memory.
    may_lack_checksum : callable, optional
        Returns whether a file with some text may have no checksum; by default none may.

    Returns
    -------
    tensors : dict of str to ndarray
    text : str

    Raises
    ------
    DamagedFileError
        If the file is not such a file, or is damaged.
    """
    with _opened(path) as (file, size):
        header = _read_header(file, size)
        places = {name: _place(entry) for name, entry in header.entries.items()}
        checksum = hashlib.sha256(_without_checksum(header.encoded, header.checksum))
        tensors = dict.fromkeys(places, np.empty(0))
        for name in _in_order(places, size - file.tell()):
            dtype, shape = places[name].dtype, places[name].shape
            tensor = allocate(name, shape, dtype) if allocate else np.empty(shape, dtype)
            _fill(tensor, file, checksum)
            tensors[name] = tensor.astype(dtype.newbyteorder("="), copy=False)
        if header.checksum is None and not (may_lack_checksum and may_lack_checksum(header.text)):
            raise ValueError("it has no checksum")
        if header.checksum not in (None, checksum.hexdigest()):
            raise ValueError("its checksum is wrong")
    return tensors, header.text


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file, without reading its arrays."""
    with _opened(path) as (file, size):
        return _read_header(file, size).text


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file; every error in its content is raised with its name."""
    with open(path, "rb", opener=_open_regular) as file:
        try:
            yield file, os.fstat(file.fileno()).st_size
        except MALFORMED as error:
            raise DamagedFileError(
                f"{os.fspath(path)!r} is not a somf file, or is damaged: {error}."
            ) from error


def _open_regular(path: str, flags: int) -> int:
    """Open a file; refuse a FIFO or a device, which might block, or never end."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # `open` refuses folders
        os.close(handle)
        raise DamagedFileError(f"{path!r} is not a somf file: it is not a regular file.")
    return handle


class _Header(NamedTuple):
    """The header of a file: its bytes, its entries for arrays, the text, and the checksum."""

    encoded: bytes
    entries: dict[str, Any]
    text: str
    checksum: str | None


def _read_header(file: BinaryIO, size: int) -> _Header:
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, MAX_HEADER):
        raise ValueError("the header does not fit into the file")
    encoded = file.read(length)
    header = json.loads(encoded)
    metadata = header.pop("__metadata__")
    text, checksum = metadata.pop("somf"), metadata.pop("sha256", None)
    if not isinstance(text, str) or metadata:
        raise ValueError("the metadata is not that of a somf file")
    return _Header(encoded, header, text, checksum)


def _header(tensors: Mapping[str, Array | SelectedRows], text: str) -> bytes:
    """Return the header of a file, with a place for the checksum before anything else."""
    header: dict[str, Any] = {"__metadata__": {"sha256": NO_CHECKSUM, "somf": text}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + math.prod(tensor.shape) * tensor.dtype.itemsize
        header[name] = {
            "dtype": NAMES[tensor.dtype.newbyteorder("<")],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # keep the arrays aligned
    if len(encoded) > MAX_HEADER:
        raise ParameterError("text", f"fit into {MAX_HEADER} bytes", text, got=str(len(encoded)))
    return encoded


def _without_checksum(header: bytes, checksum: Any) -> bytes:
    """Return a header as it was while its checksum was computed."""
    return header.replace(str(checksum).encode(), NO_CHECKSUM.encode(), 1)


def _pieces(tensor: Array | SelectedRows) -> Iterator[memoryview]:
    """Yield the bytes of a tensor, little end first, a bounded number at a time."""
    row = math.prod(tensor.shape[1:]) * tensor.dtype.itemsize
    step = max(1, PIECE // max(1, row))
    for first in range(0, tensor.shape[0] if row else 0, step):
        part = tensor[first : first + step]
        yield np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data.cast("B")


def _fill(tensor: Array, file: BinaryIO, checksum: "hashlib._Hash") -> None:
    """Read a tensor from where the file stands."""
    if tensor.size == 0:
        return
    content = tensor.reshape(-1).data.cast("B")
    for first in range(0, len(content), PIECE):
        piece = content[first : first + PIECE]
        if file.readinto(piece) < len(piece):  # type: ignore[attr-defined] # typeshed has it not
            raise ValueError("it ends too early")
        checksum.update(piece)


class _Place(NamedTuple):
    """Where in a file an array is, from its first byte to the one after its last."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def _place(entry: dict[str, Any]) -> _Place:
    """Return the place of an array, its size checked."""
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{entry['dtype']!r} is not a type that somf writes")
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError("a size is not a non-negative integer")
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError("the size of an array does not match its shape")
    return _Place(dtype, tuple(shape), begin, end)


def _in_order(places: dict[str, _Place], size: int) -> list[str]:
    """Return the arrays in the order of the file, which they must fill, one after the other."""
    names = sorted(places, key=lambda name: (places[name].begin, places[name].end))
    position = 0
    for name in names:
        if places[name].begin != position:
            raise ValueError("the arrays do not follow each other")
        position = places[name].end
    if position != size:
        raise ValueError(f"{position} bytes of arrays were announced, {size} are there")
    return names
