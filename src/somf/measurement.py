"""What can be measured of a model on data, in one pass that holds no more than a chunk."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from somf.coding import Gradient
from somf.estimators import CODE_TOL, GAP_TOL
from somf.kernels.host import to_host
from somf.typing import Array, Ints


@dataclass(frozen=True)
class Measurement:
    """A model on data.

    Attributes
    ----------
    n_samples : int
    objective : float
    stationarity_gap : float or None
    usage : ndarray of shape (k,)
        The fraction of samples that use each atom.
    size : ndarray of shape (k,)
        The mean absolute value of its codes.
    n_samples_with : ndarray of shape (k + 1,)
        How many samples use so many atoms.
    """

    n_samples: int
    objective: float
    stationarity_gap: float | None
    usage: Array
    size: Array
    n_samples_with: Ints

    @classmethod
    def of(cls, model: Any, data: Any, *, with_gap: bool = True) -> Self:
        """Measure a fitted model on samples.

        Parameters
        ----------
        model : MatrixFactorization
        data : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        with_gap : bool
            Whether to measure the stationarity gap, which takes more precise codes.
        """
        coder, loader, ids = model._coder(data, GAP_TOL if with_gap else CODE_TOL)
        k = len(model.components_)
        total, total_size = 0.0, np.zeros(k)
        n_users, n_samples_with = np.zeros(k, np.int64), np.zeros(k + 1, np.int64)
        gradient = Gradient(coder) if with_gap else None
        with model._pass(coder, loader, ids) as chunks:
            for X, code, objective in chunks:
                total += float(objective.sum(dtype=np.float64))
                if gradient is not None:
                    gradient.add(X, code)
                codes = to_host(code)
                used = codes != 0
                n_users += used.sum(axis=0)
                total_size += np.abs(codes).sum(axis=0, dtype=np.float64)
                n_samples_with += np.bincount(used.sum(axis=1), minlength=k + 1)
            gap = None if gradient is None else gradient.stationarity_gap(model._config().ball)
        n = len(ids)
        return cls(n, total / n, gap, n_users / n, total_size / n, n_samples_with)

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
