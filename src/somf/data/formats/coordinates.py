"""Coordinates along an axis of a dataset, as NetCDF and xarray store them beside it."""

import os
from typing import Any

from somf.data.channels import Channels, channels_at
from somf.data.formats.hdf5_external import names_of_external_files
from somf.data.formats.zarr import folder_of, open_array
from somf.errors import SomfError

NO_COORDINATE = "This is a netCDF dimension but not a netCDF variable"
"""How netCDF-4 begins the name of a dimension without coordinates."""


def hdf5_coordinates(stored: Any, axis: int) -> Channels | None:
    """Return the dimension scale of an axis, which is what NetCDF 4 calls a coordinate variable.

    Parameters
    ----------
    stored : h5py.Dataset
    axis : int
    """
    try:
        scales = list(stored.dims[axis].values())
    except (RuntimeError, KeyError):  # references that lead nowhere
        return None
    for scale in scales:
        has_coordinates = not _attribute(scale, "NAME").startswith(NO_COORDINATE)
        if has_coordinates and _is_along(scale, stored, axis):
            return _read(scale)
    return None


def hdf5_wavelengths(stored: Any, axis: int) -> Channels | None:
    """Return the only dataset of a file that is called wavelengths and has one for each channel.

    Products of spectrometers have them in a group of their own, and no dimension scales.

    Parameters
    ----------
    stored : h5py.Dataset
    axis : int
        The axis of the channels.
    """
    found: list[Any] = []

    def look(name: str, item: Any) -> None:
        is_called_so = name.rpartition("/")[2].lower() in ("wavelength", "wavelengths")
        if is_called_so and hasattr(item, "dtype") and _is_along(item, stored, axis):
            found.append(item)

    stored.file.visititems(look)  # links to other files are not followed
    return _read(found[0]) if len(found) == 1 else None


def _is_along(scale: Any, stored: Any, axis: int) -> bool:
    """Return whether a dataset, which has its values in the same file, fits an axis."""
    return scale.shape == (stored.shape[axis],) and not names_of_external_files(scale)


def _read(scale: Any) -> Channels | None:
    label = _attribute(scale, "long_name") or str(scale.name).rpartition("/")[2]
    unit = _attribute(scale, "units") or _attribute(scale, "Units")
    return channels_at(scale[()], unit, label)


def zarr_coordinates(stored: Any, axis: int) -> Channels | None:
    """Return the array beside another one that is named like its dimension, as xarray writes it.

    Parameters
    ----------
    stored : zarr.Array
        In a folder.
    axis : int
    """
    names = getattr(stored.metadata, "dimension_names", None)
    names = names or stored.attrs.get("_ARRAY_DIMENSIONS") or ()
    name = names[axis] if len(names) == stored.ndim else None
    if not isinstance(name, str) or name != os.path.basename(name):
        return None
    path = os.path.join(os.path.dirname(folder_of(stored)), name)
    if not os.path.isdir(path):
        return None
    try:
        along = open_array(path, dimensions=(1,))
    except SomfError:
        return None
    if along.shape != (stored.shape[axis],):
        return None
    return channels_at(along[:], along.attrs.get("units"), along.attrs.get("long_name", name))


def _attribute(scale: Any, name: str) -> str:
    value = scale.attrs.get(name, "")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
