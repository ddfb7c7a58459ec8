"""The loader of each device."""

from typing import Any

import numpy as np

from somf.data.loader import Loader
from somf.data.observed import ObservedLoader, ObservedSource
from somf.data.source import Source
from somf.typing import Ints


def loader_for(
    device: str,
    source: Source,
    dtype: np.dtype[Any],
    permutation: Ints | None = None,
    non_negative: bool = False,
    name: str = "X",
) -> Loader:
    """Return the loader that brings minibatches to a device; see `Loader` for the parameters."""
    if isinstance(source, ObservedSource):
        return ObservedLoader(source, dtype, permutation, non_negative, name, device)
    if device == "cuda":
        from somf.data.cuda.loader import DeviceLoader  # torch is optional

        return DeviceLoader(source, dtype, permutation, non_negative, name)
    return Loader(source, dtype, permutation, non_negative, name)
