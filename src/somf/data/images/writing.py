"""Images written to files, some rows at a time, with the georeferencing of where they come from."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import Any

import numpy as np

from somf.data.formats.kinds import ending_of
from somf.errors import OutputExistsError, ParameterError
from somf.files.atomic import atomic_write
from somf.optional import import_optional
from somf.scratch import reserve
from somf.typing import Array

GEOTIFF_TAGS = (33550, 33922, 34264, 34735, 34736, 34737, 42113)
"""Tags of a TIFF that say where it is on Earth (scale, tie points, transformation, keys), and which
value stands for no data."""

ENVI_FIELDS = (
    "description",
    "map info",
    "projection info",
    "coordinate system string",
    "wavelength",
    "wavelength units",
    "fwhm",
    "band names",
    "bbl",
    "sensor type",
    "data ignore value",
)
"""Fields of an ENVI header that hold for any image of the same pixels and channels."""

ENVI_TYPES = {
    "uint8": 1,
    "int16": 2,
    "int32": 3,
    "float32": 4,
    "float64": 5,
    "uint16": 12,
    "uint32": 13,
    "int64": 14,
    "uint64": 15,
}
"""Numbers that ENVI has for types."""

ENVI_DATA = ".img"
"""The ending of the file that holds the pixels of an ENVI image."""

PNG_TYPES = ("uint8", "uint16")
"""Types that a PNG can have; those with color have the first only."""

Writer = Callable[[str, tuple[int, ...], np.dtype[Any], str | None], AbstractContextManager[Any]]
"""Gives something like an array to write an image to: path, shape, type, file of the source."""


def check_new_image(path: str) -> None:
    """Raise an error unless an image can be written to a new file."""
    if ending_of(path) not in WRITERS:
        raise ParameterError("out", f"be a file of kind {', '.join(WRITERS)}", path)
    for name in files_written(path):
        if os.path.lexists(name):
            raise OutputExistsError(
                f"out must not exist yet, got {name!r}. Remove it, or name another file."
            )


def files_written(path: str) -> list[str]:
    """Return the files that an image is written to: an ENVI header has its pixels beside it."""
    is_envi = ending_of(path) == ".hdr"
    return [path, os.path.splitext(path)[0] + ENVI_DATA] if is_envi else [path]


def image_file(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], source: str | None
) -> AbstractContextManager[Any]:
    """Return a context that writes an image, atomically, and replaces one that exists.

    Parameters
    ----------
    path : str
        Of a kind in `WRITERS`.
    shape : tuple of int
    dtype : numpy.dtype
    source : str or None
        The file of the image that it was made of; what it says of places and channels is kept, if
        it is of the same kind.
    """
    return WRITERS[ending_of(path)](path, shape, dtype, source)


@contextmanager
def _npy(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], _: Any) -> Iterator[Array]:
    with atomic_write(path) as temporary:
        mapped: Any = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        _reserve(temporary, path)
        yield mapped
        mapped.flush()
        del mapped


@contextmanager
def _zarr(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], _: Any) -> Iterator[Any]:
    zarr = import_optional("zarr", "zarr", "A .zarr file")
    with atomic_write(path, is_folder=True) as temporary:
        yield zarr.create_array(temporary, shape=shape, dtype=dtype, overwrite=True)


@contextmanager
def _tiff(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], source: str | None
) -> Iterator[Array]:
    tifffile = import_optional("tifffile", "images", "A TIFF image")
    has_channels = len(shape) == 3 and shape[2] in (3, 4) and dtype.kind == "u"
    options: dict[str, Any] = {"photometric": "rgb" if has_channels else "minisblack"}
    if len(shape) == 3 and shape[2] > 1:
        options["planarconfig"] = "contig"
    is_tiff = source is not None and ending_of(source) in (".tif", ".tiff")
    if is_tiff:
        options |= {"extratags": _geotiff_tags(tifffile, source), "metadata": None}
    with atomic_write(path) as temporary:
        bigtiff = prod(shape) * dtype.itemsize > 2**32 - 2**25
        mapped = tifffile.memmap(
            temporary, shape=shape, dtype=dtype, bigtiff=bigtiff, mode="r+", **options
        )
        _reserve(temporary, path)
        yield mapped
        mapped.flush()
        del mapped


def _geotiff_tags(tifffile: Any, source: Any) -> list[Any]:
    """Return the tags of a TIFF that hold for another one of the same pixels."""
    with tifffile.TiffFile(source) as file:
        tags = file.pages[0].tags
        found = [tags[code] for code in GEOTIFF_TAGS if code in tags]
        return [(tag.code, tag.dtype, tag.count, tag.value, True) for tag in found]


@contextmanager
def _envi(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], source: str | None
) -> Iterator[Array]:
    envi = import_optional("spectral.io.envi", "images", "An ENVI image")
    if len(shape) > 3 or dtype.name not in ENVI_TYPES:
        got = f"{dtype} of shape {shape}"
        raise ParameterError("out", f"not be ENVI for {got}", path, "Write .npy or .zarr.", got=got)
    header: dict[str, Any] = {}
    if source is not None and ending_of(source) == ".hdr":
        stored = envi.read_envi_header(source)
        header = {name: stored[name] for name in ENVI_FIELDS if name in stored}
    header |= {
        "lines": shape[0],
        "samples": shape[1],
        "bands": shape[2] if len(shape) == 3 else 1,
        "header offset": 0,
        "file type": "ENVI Standard",
        "data type": ENVI_TYPES[dtype.name],
        "interleave": "bip",
        "byte order": 0,
    }
    pixels = files_written(path)[1]
    with atomic_write(path) as temporary_header, atomic_write(pixels) as temporary:
        envi.write_envi_header(temporary_header, header)
        mapped: Any = np.memmap(temporary, dtype.newbyteorder("<"), mode="w+", shape=shape)
        _reserve(temporary, pixels)
        yield mapped
        mapped.flush()
        del mapped


@contextmanager
def _png(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], _: Any) -> Iterator[Array]:
    pillow = import_optional("PIL.Image", "images", "A PNG image")
    has_color = len(shape) == 3
    is_right = dtype.name == "uint8" if has_color else dtype.name in PNG_TYPES
    if len(shape) > 3 or (has_color and shape[2] not in (2, 3, 4)) or not is_right:
        got = f"{dtype} of shape {shape}"
        hint = "Give dtype='uint8', or write .tif or .npy."
        raise ParameterError("out", f"not be .png for {got}", path, hint, got=repr(path))
    image = np.empty(shape, dtype)
    yield image
    with atomic_write(path) as temporary:
        pillow.fromarray(image).save(temporary, format="PNG")


def _reserve(temporary: str, path: str) -> None:
    """Reserve disk space: a write to a mapped file on a full disk kills the process."""
    size = os.path.getsize(temporary)
    try:
        with open(temporary, "r+b") as file:
            reserve(file.fileno(), size)
    except OSError as error:
        raise OSError(
            error.errno, f"out needs {size:,} bytes, which cannot be had: {error.strerror}", path
        ) from error


WRITERS: dict[str, Writer] = {
    ".npy": _npy,
    ".zarr": _zarr,
    ".tif": _tiff,
    ".tiff": _tiff,
    ".hdr": _envi,
    ".png": _png,
}
"""The writer for each kind of file."""
