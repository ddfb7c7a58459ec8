"""Coordinates along an axis of a dataset, as NetCDF and xarray store them beside it."""

import os
from typing import Any

from somf.data.channels import Channels, channels_at
from somf.data.formats.zarr import folder_of, open_array
from somf.errors import SomfError


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
        # A dimension without coordinates has a scale, too, whose values mean nothing.
        is_placeholder = b"not a netCDF variable" in bytes(_attribute(scale, "NAME"), "utf-8")
        if scale.shape == (stored.shape[axis],) and not is_placeholder:
            label = _attribute(scale, "long_name") or str(scale.name).rpartition("/")[2]
            return channels_at(scale[()], _attribute(scale, "units"), label)
    return None


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
