"""What can be measured of a model on data, in one pass that holds no more than a chunk."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from somf.estimators.base import CODE_TOL, GAP_TOL
from somf.inference.coding import Gradient
from somf.inference.usage import Usage
from somf.kernels.host import to_host
from somf.typing import Ints


@dataclass(frozen=True, kw_only=True)
class Measurement(Usage):
    """A model on data: how much atoms are used, and how well they do.

    Attributes
    ----------
    objective : float
    stationarity_gap : float or None
    n_samples_with : ndarray of shape (k + 1,)
        How many samples use so many atoms.
    """

    objective: float
    stationarity_gap: float | None
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
        return cls(
            n_samples=n,
            n_users=n_users,
            size=total_size / n,
            objective=total / n,
            stationarity_gap=gap,
            n_samples_with=n_samples_with,
        )
