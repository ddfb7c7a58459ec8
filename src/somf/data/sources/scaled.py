"""Stored integers that stand for other numbers: scaled, shifted, with a value for no data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from somf.data.sources.sliced import dtype_of
from somf.typing import Array


@dataclass(frozen=True)
class Packing:
    """What stored numbers stand for: ``scale * stored + offset``, or NaN.

    Attributes
    ----------
    scale, offset : float
    missing : tuple of float
        Stored values that stand for no data.
    """

    scale: float = 1.0
    offset: float = 0.0
    missing: tuple[float, ...] = ()

    @property
    def is_trivial(self) -> bool:
        """Whether stored numbers stand for themselves."""
        is_unscaled = self.scale == 1 and self.offset == 0
        return is_unscaled and all(np.isnan(value) for value in self.missing)


class Scaled:
    """An array of which slices are unpacked.

    Parameters
    ----------
    X : object of shape (n, p)
        With `shape`, `dtype` and slices; where it has `chunks`, they are kept.
    packing : Packing
    """

    def __init__(self, X: Any, packing: Packing) -> None:
        self.X, self.packing = X, packing
        self.shape = tuple(X.shape)
        stored = dtype_of(X)
        is_small = stored.itemsize <= 2 or stored == np.float32
        self.dtype = np.dtype(np.float32 if is_small else np.float64)
        self.chunks = getattr(X, "chunks", None)

    def __getitem__(self, where: Any) -> Array:
        stored = np.asarray(self.X[where])
        numbers = stored.astype(self.dtype)
        numbers *= self.packing.scale
        numbers += self.packing.offset
        for value in self.packing.missing:
            numbers[stored == value] = np.nan
        return numbers
