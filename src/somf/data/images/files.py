"""Images and cubes of several kinds of files, with the value that stands for no data."""

import os
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.checks import (
    check_claim,
    check_memory,
    choose,
    guarded,
    not_in_file,
)
from somf.data.formats.hdf5 import map_dataset, open_dataset
from somf.data.formats.hdf5_external import ExternalFiles, external_files
from somf.data.formats.kinds import (
    HDF5_OR_NETCDF,
    STORED,
    Kind,
    envi_header_of,
    is_url,
    kind_of,
    recognise,
)
from somf.data.formats.netcdf import Variable, open_variable, packing_of
from somf.data.formats.npy import map_npy
from somf.data.formats.npz import open_npz
from somf.data.formats.remote import open_remote
from somf.data.formats.zarr import ChunkFiles, open_array
from somf.data.sources.scaled import Packing, Scaled
from somf.errors import FileRequestError, MissingFileError, UnknownKindError
from somf.optional import import_optional
from somf.scratch import scratch_zeros
from somf.typing import Array

IMAGE_AXES = 2
"""Axes of space of an image, height and width; a volume has three, the first of them depth."""

BAND_BYTES = 2**26
"""Bytes of a stored image that are unpacked at once."""

MATLAB_TYPES = {
    "single": "float32",
    "double": "float64",
    "logical": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""NumPy's types for the classes of MATLAB that are real numbers."""

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The first bytes of an HDF5 file, or those after its user block."""


CONVERT = "If it is fine, convert it to .npy, which is mapped into memory."
"""What to do with an image that is compressed so well that it seems to be damaged."""


def dimensions(n_axes: int) -> tuple[int, int]:
    """Return how many dimensions an image may have: its axes of space and, maybe, channels."""
    return n_axes, n_axes + 1


def open_image(
    path: str | os.PathLike[str],
    dataset: str | None = None,
    allow_external: bool = False,
    n_axes: int = IMAGE_AXES,
) -> tuple[Array, float | None]:
    """Open an image or volume by the kind of its file, mapped where the kind allows it.

    ================== ========================================================================
    ``.npy .npz``      mapped if not compressed, else unpacked
    ``.hdr``           ENVI, mapped, through Spectral Python (``somf[images]``)
    ``.tif .tiff``     TIFF and GeoTIFF, mapped if not compressed (``somf[images]``)
    ``.h5 .hdf5 .he5`` HDF5, mapped if in one piece, else unpacked (``somf[hdf5]``)
    ``.nc .nc4``       NetCDF, likewise, unpacked by ``scale_factor`` and ``add_offset``
    ``.zarr``          unpacked (``somf[zarr]``)
    ``.mat``           MATLAB, read; version 7.3 needs ``somf[hdf5]``
    ``.png .jpg``      read (``somf[images]``)
    ================== ========================================================================

    An image that is stored in chunks is unpacked once, into memory or, if it is large, into a
    scratch file that is mapped: neighbouring patches share most of their pixels, and reading
    chunks again for every patch would be slow.

    Parameters
    ----------
    path : path-like
    dataset : str, optional
        Name of the image in an HDF5, NetCDF, Zarr, ``.mat`` or ``.npz`` file; needed if there are
        several.
    allow_external : bool
        Whether an HDF5 file may have the image in other files, which it names.
    n_axes : {2, 3}
        2 for an image, 3 for a volume, such as a TIFF of several pages.

    Returns
    -------
    image : ndarray of shape (height, width) or (height, width, channels)
        A volume has the depth before them.
    no_data : float or None
        The value that stands for no data, if the file declares one.
    """
    name = os.fspath(path)
    kind = kind_of(name)
    if is_url(name):
        stored = open_stored(name, dataset, n_axes=n_axes)
        _check(stored, n_axes)
        return _unpacked(stored, None), declared_no_data(stored)
    if not os.path.exists(name):
        raise MissingFileError(f"There is no file {name!r}.")
    if kind not in READERS:
        header = envi_header_of(name)
        raise UnknownKindError(
            f"image must be an array or a file of kind {', '.join(READERS)}, got {name!r}."
            + (f" Name its header instead, {header!r}." if header else "")
        )
    if dataset is not None and kind not in (*STORED, ".mat", ".npz"):
        hint = "It is for HDF5, NetCDF, Zarr, .mat and .npz."
        raise FileRequestError(name, "dataset", f"not be given for {name!r}", dataset, hint)
    with guarded(name, f"an image of kind {kind}"):
        image, no_data = READERS[kind](name, dataset, allow_external, n_axes)
        _check(image, n_axes)
    return image, no_data


def files_of(path: str) -> list[str]:
    """Return the files that hold an image: ENVI keeps its pixels beside the header."""
    if kind_of(path) != ".hdr" or not os.path.exists(path):
        return [path]
    with guarded(path, "an image of kind .hdr"):
        return [path, _open_envi(path).filename]


def open_stored(
    path: str,
    dataset: str | None = None,
    allow_external: bool = False,
    n_axes: int = IMAGE_AXES,
) -> Any:
    """Open an image or a matrix in a file of HDF5 or NetCDF, or a Zarr folder, without reading it.

    Returns
    -------
    stored : h5py.Dataset, Variable or zarr.Array
    """
    if is_url(path):
        return open_remote(path, dataset, dimensions(n_axes))
    if kind_of(path) in HDF5_OR_NETCDF:
        if recognise(path) is Kind.NETCDF:
            return open_variable(path, dataset, dimensions(n_axes))
        return open_dataset(path, dataset, dimensions(n_axes), allow_external)
    return open_array(path, dataset, dimensions(n_axes))


def declared_no_data(stored: Any) -> float | None:
    """Return the value that stands for no data, if a dataset declares it as netCDF does."""
    value = stored.attrs.get("_FillValue")
    return None if value is None else float(np.ravel(value)[0])


def shapes_in_words(n_axes: int) -> str:
    """Return the shapes that an image or a volume may have."""
    space = "depth, height, width" if n_axes > IMAGE_AXES else "height, width"
    return f"({space}) or ({space}, channels)"


def _check(image: Any, n_axes: int) -> None:
    if len(image.shape) not in dimensions(n_axes) or not is_real(np.dtype(image.dtype)):
        raise ValueError(
            f"it must hold {shapes_in_words(n_axes)} of real numbers, got "
            f"{image.dtype} of shape {image.shape}"
        )


def _stored(
    path: str, dataset: str | None, allow_external: bool, n_axes: int
) -> tuple[Array, float | None]:
    stored = open_stored(path, dataset, allow_external, n_axes)
    _check(stored, n_axes)
    packing = packing_of(stored.attrs) if kind_of(path) in Kind.NETCDF.endings else Packing()
    is_packed = packing.scale != 1 or packing.offset != 0
    image: Array | None = None
    files: ExternalFiles | ChunkFiles | None = None
    if isinstance(stored, Variable):
        image = stored.data
    elif kind_of(path) in HDF5_OR_NETCDF:
        files = external_files(stored)
        image = None if is_packed else map_dataset(stored, path)
    else:
        files = ChunkFiles(stored)
    if is_packed:
        return _unpacked(Scaled(stored, packing), files), float("nan")
    return _unpacked(stored, files) if image is None else image, declared_no_data(stored)


def _unpacked(stored: Any, files: ExternalFiles | ChunkFiles | None) -> Array:
    """Return a chunked image as an array, reading each chunk once.

    Parameters
    ----------
    stored : h5py.Dataset, zarr.Array or Scaled
    files : ExternalFiles, ChunkFiles or None
        The files with its data, unless that is the one that is open. They are checked after
        reading, since a library returns the fill value for what is gone.
    """
    image = scratch_zeros(tuple(stored.shape), stored.dtype)
    chunk = stored.chunks[0] if stored.chunks else 1
    band_bytes = max(1, image.nbytes // len(image) * chunk)
    step = chunk * max(1, BAND_BYTES // band_bytes)
    for top in range(0, len(image), step):
        image[top : top + step] = stored[top : top + step]
    if files is not None:
        files.check(0, len(image))
    return image


def _npz(path: str, dataset: str | None, _: bool, n_axes: int) -> tuple[Array, None]:
    return open_npz(path, dataset, dimensions(n_axes)), None


def _npy(path: str, *_: Any) -> tuple[Array, None]:
    return map_npy(path), None


def _open_envi(path: str) -> Any:
    envi = import_optional("spectral.io.envi", "images", "An ENVI image")
    if "library" in envi.read_envi_header(path).get("file type", "").lower():
        raise ValueError("it is a spectral library")
    try:
        file = envi.open(path)
    except envi.EnviDataFileNotFoundError as error:
        beside = os.path.splitext(os.path.basename(path))[0]
        raise MissingFileError(
            f"{path!r} is a header, and its data file is missing. Put it beside the header, as "
            f"{beside!r} or {beside + '.img'!r} (or .dat, .raw, .bsq, .bil, .bip)."
        ) from error
    file.fid.close()  # pixels are read from the memory map
    return file


def _envi(path: str, *_: Any) -> tuple[Array, float | None]:
    file = _open_envi(path)
    image = file.open_memmap(interleave="bip")
    if image is None:  # Spectral Python could not map the file, such as one that is too short
        raise ValueError("its data file does not hold what its header promises")
    no_data = file.metadata.get("data ignore value")
    return image, None if no_data is None else float(no_data)


def _tiff(path: str, _: Any, __: Any, n_axes: int) -> tuple[Array, float | None]:
    tifffile = import_optional("tifffile", "images", "A TIFF image")
    with tifffile.TiffFile(path) as file:
        series, no_data = file.series[0], file.pages[0].tags.get("GDAL_NODATA")
        check_claim(path, prod(series.shape) * series.dtype.itemsize, os.path.getsize(path))
        image = series.asarray(out="memmap") if series.dataoffset is None else None
        if image is None:
            end = series.dataoffset + prod(series.shape) * series.dtype.itemsize
            if end > os.path.getsize(path):
                raise ValueError("it is shorter than its header promises")
            image = tifffile.memmap(path, mode="r")
        axes = series.axes
    if n_axes == IMAGE_AXES and image.ndim == 3 and "Y" in axes:  # planes may come first
        image = np.moveaxis(image, (axes.index("Y"), axes.index("X")), (0, 1))
    declared = "" if no_data is None else str(no_data.value).strip(" \0")
    return image, float(declared) if declared else None


def _mat(path: str, dataset: str | None, allow_external: bool, n_axes: int) -> tuple[Array, None]:
    from scipy.io import loadmat, whosmat

    if _is_hdf5(path):
        stored = open_dataset(path, dataset, dimensions(n_axes), allow_external)
        check_memory(path, stored.nbytes, CONVERT)
        return np.ascontiguousarray(_unpacked(stored, external_files(stored)).T), None
    sizes = {
        name: prod(shape) * np.dtype(MATLAB_TYPES[kind]).itemsize
        for name, shape, kind in whosmat(path)
        if kind in MATLAB_TYPES and len(shape) in dimensions(n_axes) and min(shape) > 1
    }
    name = choose(path, list(sizes), dataset, dimensions(n_axes))
    if name not in sizes:
        raise not_in_file(path, name, list(sizes))
    check_memory(path, sizes[name], CONVERT)
    # In MATLAB's column-major order the channels of a pixel are far from each other.
    return np.ascontiguousarray(loadmat(path, variable_names=[name])[name]), None


def _is_hdf5(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(520)  # MATLAB writes a banner of 512 bytes first, other programs may not
    return start.startswith((b"MATLAB 7.3", HDF5_SIGNATURE)) or start.endswith(HDF5_SIGNATURE)


def _pixels(path: str, *_: Any) -> tuple[Array, None]:
    module = import_optional("PIL.Image", "images", "An image file")
    with module.open(path) as image:
        check_memory(path, prod(image.size) * len(image.getbands()), CONVERT)
        return np.array(image.convert("RGB") if image.mode == "P" else image), None


READERS: dict[str, Callable[[str, str | None, bool, int], tuple[Array, Any]]] = {
    ".npy": _npy,
    ".npz": _npz,
    **dict.fromkeys(STORED, _stored),
    ".hdr": _envi,
    ".tif": _tiff,
    ".tiff": _tiff,
    ".mat": _mat,
    ".png": _pixels,
    ".jpg": _pixels,
    ".jpeg": _pixels,
}
"""The function that reads each kind of file.

It is given the path, the name of a dataset, whether data may be in other files, and the number of
axes of space.
"""
