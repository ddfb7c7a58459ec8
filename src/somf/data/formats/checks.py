"""Checks of foreign files: errors name the file, and sizes that a header declares are verified."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

from somf.data.checks import is_not_about_content
from somf.errors import (
    DamagedFileError,
    DataWarning,
    FileRequestError,
    NotAMatrixError,
    SeveralDatasetsError,
    SomfError,
)

MAX_EXPANSION = 2**12
"""Bytes that a byte of a compressed file may expand to; Deflate reaches 1032."""

MAX_EXPANSION_IN_MEMORY = 2**6
"""Bytes that a byte of a file may expand to if all of it is read into memory at once."""

SMALL = 2**28
"""Bytes that are read into memory at once in any case."""

MATRIX = (2,)
"""How many dimensions a dataset may have where a matrix is wanted."""

IMAGE = (3,)
"""Likewise, where an image with channels is wanted."""

PATCHES = "ImagePatches(path, patch_size)"
"""What to do with an image where a matrix is wanted."""


@contextmanager
def guarded(path: str, kind: str) -> Iterator[None]:
    """Turn any error of a reader into DamagedFileError, which names the file and its kind.

    Errors of somf, and those that are not about the content of the file, stay what they are; an
    error of the system is given the name of the file if it has none. What is neither a regular file
    nor a folder, such as a FIFO, is not opened: a reader could wait for ever.
    """
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise DamagedFileError(f"{path!r} is not {kind}: it is not a regular file.")
    try:
        yield
    except (SomfError, DataWarning):  # a warning, if the user wants all of them to be errors
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_not_about_content(error) and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
        if is_not_about_content(error):
            raise
        raise DamagedFileError(
            f"{path!r} is not {kind}, or is damaged: {str(error).rstrip('.')}."
        ) from error


def check_claim(path: str, claimed: int, stored: int) -> None:
    """Raise DamagedFileError if a header promises more bytes than the file can possibly hold."""
    if claimed > MAX_EXPANSION * stored:
        raise DamagedFileError(
            f"{path!r} is damaged: its header promises {claimed:,} bytes of data, "
            f"and {stored:,} are stored."
        )


def check_chunks(path: str, stored: Any, n_bytes: int) -> None:
    """Raise DamagedFileError if a chunk, which is unpacked as a whole, cannot be as large.

    Parameters
    ----------
    path : str
    stored : h5py.Dataset, zarr.Array or memmap
    n_bytes : int
        How many bytes are stored.
    """
    size = prod(getattr(stored, "chunks", None) or (1,)) * stored.dtype.itemsize
    if size > SMALL:
        check_claim(path, size, n_bytes)


def check_memory(path: str, claimed: int, hint: str) -> None:
    """Raise DamagedFileError if a file that is read at once promises far more than its size.

    Parameters
    ----------
    path : str
    claimed : int
        Bytes that the file promises.
    hint : str
        What to do if the file is fine.
    """
    stored = os.path.getsize(path)
    if claimed > max(SMALL, MAX_EXPANSION_IN_MEMORY * stored):
        raise DamagedFileError(
            f"{path!r} is damaged: {claimed:,} bytes of data would be read into memory, and only "
            f"{stored:,} are stored. {hint}"
        )


def check_dimensions(
    path: str, shape: tuple[int, ...], dimensions: tuple[int, ...] = MATRIX, name: str | None = None
) -> None:
    """Raise an error if an array in a file has another number of dimensions than it may have.

    Parameters
    ----------
    path : str
    shape : tuple of int
        Of the array.
    dimensions : tuple of int
        How many dimensions it may have.
    name : str, optional
        Its name, if the caller named it.

    Raises
    ------
    NotAMatrixError
        If a matrix is wanted.
    FileRequestError
        If an image is wanted, and the caller named something else.
    DamagedFileError
        If an image is wanted, and the file holds something else.
    """
    if len(shape) in dimensions:
        return
    got = f"{len(shape)}D array of shape {tuple(shape)}"
    if dimensions == MATRIX:
        what = f"{path!r}" if name is None else f"{name!r} in {path!r}"
        hint = f" If it is an image: {PATCHES}." if len(shape) == 3 else ""
        raise NotAMatrixError(f"{what} must hold a matrix of samples × features, got {got}.{hint}")
    if name is not None:
        rule = f"be an image of {_words(dimensions)} dimensions in {path!r}"
        raise FileRequestError(path, "dataset", rule, name, got=f"{name!r}, a {got}")
    raise DamagedFileError(
        f"{path!r} must hold an image of {_words(dimensions)} dimensions, got {got}."
    )


def _words(dimensions: tuple[int, ...]) -> str:
    return " or ".join(map(str, dimensions))


def choose(
    path: str,
    names: list[str],
    name: str | None,
    dimensions: tuple[int, ...] = MATRIX,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> str:
    """Return the name of the dataset to open: the given one, or the only one that qualifies.

    The only matrix beside an image may be its mask, its labels or its wavelengths. It is not taken
    for the samples, unless the caller names it.

    Parameters
    ----------
    path : str
    names : list of str
        The datasets of real numbers that have the right number of dimensions.
    name : str, optional
    dimensions : tuple of int
        How many dimensions a dataset may have.
    shapes : mapping, optional
        Shapes of the datasets of real numbers, also of those that do not qualify.
    """
    if name is not None:
        return name
    if dimensions == MATRIX and len(names) == 1 and shapes is not None and names[0] in shapes:
        names = names + _images_of(shapes[names[0]], shapes)
    if len(names) > 1:
        raise SeveralDatasetsError(path, names)
    if names:
        return names[0]
    if dimensions == MATRIX:
        raise NotAMatrixError(
            f"{path!r} holds no matrix of samples × features: it has no dataset of 2 dimensions "
            f"and real numbers. If it holds an image: {PATCHES}."
        )
    raise DamagedFileError(
        f"{path!r} holds no image: none of its datasets has {_words(dimensions)} dimensions."
    )


def _images_of(matrix: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the images that a matrix may describe: by a number per pixel, or per channel."""
    images = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    if min(matrix) == 1:
        return list(images)
    return [name for name, shape in images.items() if Counter(matrix) <= Counter(shape)]


def not_in_file(path: str, name: str | None, names: list[str]) -> FileRequestError:
    """Return the error that a file has no dataset of some name."""
    return FileRequestError(path, "dataset", f"be one of {names} in {path!r}", name)
