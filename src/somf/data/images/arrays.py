"""Images that are arrays of other libraries: of Dask, xarray and HyperSpy."""

from typing import Any, NamedTuple

import numpy as np

from somf.data.channels import Channels
from somf.data.sources.labelled import coordinates_of, is_loaded, signal_channels
from somf.data.sources.lazy import compute_into
from somf.data.sources.recognition import is_dask_array, is_data_array, is_signal
from somf.scratch import scratch_zeros
from somf.typing import Array

CHANNEL_DIMENSIONS = (
    "band",
    "bands",
    "channel",
    "channels",
    "wavelength",
    "wavelengths",
    "wavenumber",
    "frequency",
    "energy",
    "spectral",
    "c",
)
"""Names of the dimension of a cube that holds its channels. Otherwise it is the last one."""

BAND_BYTES = 2**26
"""Bytes of an image that are read from its file at once."""


class ForeignImage(NamedTuple):
    """What an array of another library says of an image.

    Attributes
    ----------
    image : ndarray of shape (height, width) or (height, width, channels)
    no_data : float or None
        The value that stands for no data, if there is one.
    channels : Channels or None
    """

    image: Array
    no_data: float | None
    channels: Channels | None


def is_foreign(image: Any) -> bool:
    """Return whether an image is an array of a library that somf knows."""
    return is_dask_array(image) or is_data_array(image) or is_signal(image)


def foreign_image(image: Any, n_axes: int) -> ForeignImage:
    """Return an image as an array of NumPy, without a copy if it is in memory.

    Dask arrays are computed once, and files of xarray are read once, into memory or, if the image
    is large, into a scratch file that is mapped.

    Parameters
    ----------
    image : dask.array.Array, xarray.DataArray or hyperspy.signals.BaseSignal
    n_axes : {2, 3}
        Axes of space: 2 for an image, 3 for a volume.
    """
    if is_signal(image):
        return ForeignImage(_in_memory(image.data), None, signal_channels(image))
    if is_dask_array(image):
        return ForeignImage(_in_memory(image), None, None)
    channels = None
    if image.ndim > n_axes:
        named = [name for name in image.dims if str(name).lower() in CHANNEL_DIMENSIONS]
        along = (*named, image.dims[-1])[0]
        image = image.transpose(..., along)
        channels = coordinates_of(image, along)
    return ForeignImage(_values(image), _no_data(image), channels)


def _in_memory(array: Any) -> Array:
    """Return a Dask array after it is computed; other arrays as they are."""
    if not is_dask_array(array):
        return np.asarray(array)
    image = scratch_zeros(array.shape, np.dtype(array.dtype))
    compute_into(array, image)
    return image


def _values(image: Any) -> Array:
    """Return the values of an array of xarray."""
    if image.chunks is not None:
        return _in_memory(image.data)
    if is_loaded(image):
        return np.asarray(image.to_numpy())
    values = scratch_zeros(image.shape, np.dtype(image.dtype))
    step = max(1, BAND_BYTES * len(values) // max(1, values.nbytes))
    for top in range(0, len(values), step):
        values[top : top + step] = image[top : top + step].to_numpy()
    return values


def _no_data(image: Any) -> float | None:
    """Return the value of pixels without data; xarray has made it NaN if it has decoded it."""
    if "_FillValue" in image.attrs:
        return float(image.attrs["_FillValue"])
    is_decoded = any(name in image.encoding for name in ("_FillValue", "missing_value"))
    return float("nan") if is_decoded and image.dtype.kind == "f" else None
