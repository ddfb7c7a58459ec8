"""Arrays and text in one file that is safe to read, whoever wrote it.

The layout is that of safetensors (eight bytes of header length, a JSON header, raw bytes), so other
tools can read the files too. Nothing in it is executed, and every size is checked against the file
before memory is taken. Files are written aside and renamed: a reader sees the old file or the new
one, never half of one.
"""

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from somf.typing import Array

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER = 2**26


class DamagedFileError(ValueError):
    """A file is not what it should be; the message names it."""


def write(path: str | os.PathLike[str], tensors: dict[str, Array], text: str) -> None:
    """Write arrays and a text, replacing the file as a whole.

    Parameters
    ----------
    path : path-like
    tensors : dict of str to ndarray
        float32, float64 or int64.
    text : str
    """
    header: dict[str, Any] = {"__metadata__": {"somf": text}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {
            "dtype": NAMES[tensor.dtype.newbyteorder("<")],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # keep the arrays aligned

    path = Path(path)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(encoded).to_bytes(8, "little"))
            file.write(encoded)
            for tensor in tensors.values():
                little = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
                file.write(np.ascontiguousarray(little).data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(aside, 0o666 & ~umask)  # mkstemp is stricter than open
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Array], str]:
    """Read what `write` has written.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    tensors : dict of str to ndarray
    text : str

    Raises
    ------
    DamagedFileError
        If the file is not such a file, or is damaged.
    """
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        try:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, MAX_HEADER):
                raise ValueError("the header does not fit into the file")
            header = json.loads(file.read(length))
            text = header.pop("__metadata__")["somf"]
            if not isinstance(text, str):
                raise ValueError("the metadata is not text")
            start = 8 + length
            places = {name: _place(entry) for name, entry in header.items()}
            _check_layout(places, size - start)
            tensors = {}
            for name, (dtype, shape, begin, _) in places.items():
                file.seek(start + begin)
                flat = np.fromfile(file, dtype, count=math.prod(shape))
                tensors[name] = flat.reshape(shape).astype(dtype.newbyteorder("="), copy=False)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedFileError(
                f"{os.fspath(path)!r} is not a somf file, or is damaged: {error}."
            ) from error
    return tensors, text


def _place(entry: dict[str, Any]) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """Return dtype, shape, begin and end of a tensor, checked against each other."""
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{entry['dtype']!r} is not a type that somf writes")
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError("a size is not a non-negative integer")
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError("the size of an array does not match its shape")
    return dtype, tuple(shape), begin, end


def _check_layout(places: dict[str, tuple[Any, Any, int, int]], size: int) -> None:
    """Check that the arrays fill the rest of the file, one after the other."""
    position = 0
    for begin, end in sorted((begin, end) for *_, begin, end in places.values()):
        if begin != position:
            raise ValueError("the arrays do not follow each other")
        position = end
    if position != size:
        raise ValueError(f"{position} bytes of arrays were announced, {size} are there")
