"""Arrays with names and coordinates: those of xarray, and the signals of HyperSpy."""

from typing import Any

import numpy as np

from somf.data.channels import Channels, channels_at
from somf.data.checks import check_two_dimensions
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.lazy import DaskSource
from somf.data.sources.recognition import is_dask_array
from somf.data.sources.sliced import SlicedSource
from somf.typing import Array


def data_array_source(X: Any) -> Source:
    """Return the source of an array of samples × features; coordinates name the features.

    Parameters
    ----------
    X : xarray.DataArray of shape (n, p)
        In memory, backed by Dask, or not yet read from its file.
    """
    check_two_dimensions(X.ndim)
    source: Source
    if X.chunks is not None:
        source = DaskSource(X.data)
    elif is_loaded(X):
        source = ArraySource(X.to_numpy())
    else:
        source = SlicedSource(LazyRows(X))
    source.channels = coordinates_of(X, X.dims[1])
    if source.channels is not None:
        source.feature_names = source.channels.texts
    return source


def is_loaded(X: Any) -> bool:
    """Return whether an array of xarray is in memory, or mapped into it."""
    return isinstance(X.variable._data, np.ndarray)


def coordinates_of(X: Any, dimension: str) -> Channels | None:
    """Return the coordinates along a dimension, with the unit and the name that they have."""
    if dimension not in X.coords:
        return None
    along = X.coords[dimension]
    label = along.attrs.get("long_name", dimension)
    return channels_at(along.to_numpy(), along.attrs.get("units"), label)


class LazyRows:
    """Rows of an array that is read from its file when it is sliced.

    Parameters
    ----------
    X : xarray.DataArray of shape (n, p)
    """

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        preferred = X.encoding.get("preferred_chunks") or {}
        self.chunks = tuple(preferred.get(name, size) for name, size in X.sizes.items())

    def __getitem__(self, rows: slice) -> Array:
        return np.asarray(self.X[rows].to_numpy())


def signal_source(signal: Any) -> Source:
    """Return the source of a signal: its positions are samples, its channels are features.

    Parameters
    ----------
    signal : hyperspy.signals.BaseSignal
        In memory or lazy.
    """
    n_features = int(np.prod(signal.axes_manager.signal_shape))
    data = signal.data.reshape(-1, n_features)
    source = DaskSource(data) if is_dask_array(data) else ArraySource(data)
    source.channels = signal_channels(signal)
    if source.channels is not None:
        source.feature_names = source.channels.texts
    return source


def signal_channels(signal: Any) -> Channels | None:
    """Return the channels of a signal of one dimension, such as energies in eV."""
    axes = signal.axes_manager.signal_axes
    if len(axes) != 1:
        return None
    texts = [str(text) for text in (axes[0].units, axes[0].name)]
    unit, label = ("" if text == "<undefined>" else text for text in texts)
    return channels_at(axes[0].axis, unit, label or "channel")
