"""What is measured on data for a report, in passes that hold no more than a chunk."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from somf.data import as_source
from somf.typing import Array, Ints


class UsageCount:
    """Counts how often atoms are used, where `transform` would write codes.

    Parameters
    ----------
    shape : tuple of (int, int)
        Number of samples, number of atoms.

    Attributes
    ----------
    n_users : ndarray of shape (k,)
        How many samples use each atom.
    total_size : ndarray of shape (k,)
        The sum of the absolute values of its codes.
    n_samples_with : ndarray of shape (k + 1,)
        How many samples use so many atoms.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.n_users: Ints = np.zeros(shape[1], dtype=np.int64)
        self.total_size = np.zeros(shape[1])
        self.n_samples_with: Ints = np.zeros(shape[1] + 1, dtype=np.int64)

    def __setitem__(self, rows: slice, codes: Array) -> None:
        used = codes != 0
        self.n_users += used.sum(axis=0)
        self.total_size += np.abs(codes).sum(axis=0, dtype=np.float64)
        self.n_samples_with += np.bincount(used.sum(axis=1), minlength=self.shape[1] + 1)


@dataclass(frozen=True)
class Measurement:
    """A model on data.

    Attributes
    ----------
    n_samples : int
    objective, stationarity_gap : float
    usage : ndarray of shape (k,)
        The fraction of samples that use each atom.
    size : ndarray of shape (k,)
        The mean absolute value of its codes.
    n_samples_with : ndarray of shape (k + 1,)
        How many samples use so many atoms.
    """

    n_samples: int
    objective: float
    stationarity_gap: float
    usage: Array
    size: Array
    n_samples_with: Ints

    @classmethod
    def of(cls, model: Any, data: Any) -> Self:
        """Measure a fitted model on samples: anything that `transform` takes."""
        n_samples = as_source(data).shape[0]
        count = UsageCount((n_samples, len(model.components_)))
        model.transform(data, out=count)
        return cls(
            n_samples=n_samples,
            objective=model.objective(data),
            stationarity_gap=model.stationarity_gap(data),
            usage=count.n_users / n_samples,
            size=count.total_size / n_samples,
            n_samples_with=count.n_samples_with,
        )

    @property
    def density(self) -> float:
        """The fraction of codes that are not zero."""
        return float(self.usage.mean())

    @property
    def n_unused(self) -> int:
        """How many atoms no sample uses."""
        return int(np.count_nonzero(self.usage == 0))

    @property
    def order(self) -> Ints:
        """The atoms, most used first, and among equals those with the largest codes."""
        return np.lexsort((-self.size, -self.usage))
