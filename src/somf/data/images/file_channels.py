"""What a file says of the channels of its image: wavelengths with their unit, or names."""

import re
from collections.abc import Callable
from typing import Any

from somf.data.channels import Channels, channels_at
from somf.data.formats.checks import guarded
from somf.data.formats.coordinates import (
    hdf5_coordinates,
    hdf5_wavelengths,
    zarr_coordinates,
)
from somf.data.formats.kinds import HDF5_OR_NETCDF, STORED, is_url, kind_of
from somf.data.formats.netcdf import Variable
from somf.data.images.files import open_stored
from somf.optional import import_optional

UNITS = {
    "nanometers": "nm",
    "nanometer": "nm",
    "micrometers": "µm",
    "micrometer": "µm",
    "microns": "µm",
    "um": "µm",
    "wavenumber": "1/cm",
    "unknown": "",
    "index": "",
}
"""Short units for the words that ENVI headers have."""

TIFF_ITEM = re.compile(r'<Item name="(\w+)" sample="(\d+)"[^>]*>([^<]*)</Item>')
"""A property of a channel in the metadata that GDAL writes into a GeoTIFF."""


def channels_of_file(
    path: str, dataset: str | None, shape: tuple[int, ...], allow_external: bool
) -> Channels | None:
    """Return what a file says of the channels of its image, or None if it says nothing.

    Parameters
    ----------
    path : str
        A file that `open_image` has opened.
    dataset : str or None
    shape : tuple of int
        Of the image; its last axis are the channels.
    allow_external : bool
        As it was for `open_image`, so that the same dataset is found.
    """
    kind = kind_of(path)
    if kind not in READERS or is_url(path):
        return None
    with guarded(path, f"an image of kind {kind}"):
        channels = READERS[kind](path, dataset, len(shape), allow_external)
    return channels if channels is not None and len(channels) == shape[-1] else None


def _envi(path: str, *_: Any) -> Channels | None:
    envi = import_optional("spectral.io.envi", "images", "An ENVI image")
    header = envi.read_envi_header(path)
    names, unit = header.get("band names"), str(header.get("wavelength units", ""))
    unit = UNITS.get(unit.strip().lower(), unit)
    try:
        channels = channels_at([float(text) for text in header.get("wavelength", ())], unit)
    except ValueError:
        channels = None  # not all of them are numbers
    if not isinstance(names, list) or not names:
        return channels
    if channels is None or len(channels) != len(names):
        return Channels(names=tuple(names))
    return Channels(channels.values, channels.unit, channels.label, tuple(names))


def _stored(
    path: str, dataset: str | None, n_dimensions: int, allow_external: bool
) -> Channels | None:
    axis = n_dimensions - 1
    stored = open_stored(path, dataset, allow_external, n_axes=axis)
    if isinstance(stored, Variable):
        return stored.coordinates[axis]
    if kind_of(path) not in HDF5_OR_NETCDF:
        return zarr_coordinates(stored, axis)
    return hdf5_coordinates(stored, axis) or hdf5_wavelengths(stored, axis)


def _tiff(path: str, *_: Any) -> Channels | None:
    tifffile = import_optional("tifffile", "images", "A TIFF image")
    with tifffile.TiffFile(path) as file:
        tag = file.pages[0].tags.get("GDAL_METADATA")
        metadata = "" if tag is None else str(tag.value)
    found: dict[str, dict[int, str]] = {}
    for name, sample, text in TIFF_ITEM.findall(metadata):
        found.setdefault(name.lower(), {})[int(sample)] = text.strip()
    for name in ("wavelength", "description"):
        texts = found.get(name, {})
        if texts and sorted(texts) == list(range(len(texts))):
            ordered = [texts[i] for i in range(len(texts))]
            unit = found.get("wavelength_units", {}).get(0, "")
            try:
                return channels_at(list(map(float, ordered)), UNITS.get(unit.lower(), unit))
            except ValueError:
                return Channels(names=tuple(ordered))
    return None


READERS: dict[str, Callable[[str, str | None, int, bool], Channels | None]] = {
    ".hdr": _envi,
    ".tif": _tiff,
    ".tiff": _tiff,
    **dict.fromkeys(STORED, _stored),
}
"""The function that reads the channels of each kind of file.

It is given the path, the name of a dataset, the number of dimensions of the image, and whether data
may be in other files.
"""
