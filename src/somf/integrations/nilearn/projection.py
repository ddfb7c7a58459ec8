"""Rows on maps: time series by least squares, and the variance that maps explain."""

from dataclasses import dataclass

import numpy as np

from somf.typing import Array

ROWS_AT_ONCE = 64
"""Rows that are read at a time."""


@dataclass(frozen=True)
class Projection:
    """Rows in the coordinates of maps.

    Parameters
    ----------
    energy : float
        ‖X‖².
    products : ndarray of shape (n, k)
        X Dᵀ.
    gram : ndarray of shape (k, k)
        D Dᵀ.
    """

    energy: float
    products: Array
    gram: Array

    @property
    def time_series(self) -> Array:
        """A in the least-squares solution of X ≈ A D, the shortest one where there are several."""
        solution = np.linalg.lstsq(self.gram, self.products.T, rcond=None)[0]
        return np.ascontiguousarray(solution.T)

    @property
    def explained_energy(self) -> float:
        """‖X‖² − ‖X − A D‖² = ⟨A, X Dᵀ⟩ for the least-squares solution."""
        return float(np.vdot(self.time_series, self.products))

    @property
    def explained_alone(self) -> Array:
        """‖X‖² − min over a of ‖X − a dᵀ‖² = ‖X d‖², for every map d of unit norm."""
        return np.asarray((self.products**2).sum(axis=0))


def project(rows: Array, maps: Array) -> Projection:
    """Return rows in the coordinates of maps, computed in double precision.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
    maps : ndarray of shape (k, p)
        Each of unit norm, or zero.
    """
    energy, products = 0.0, np.empty((len(rows), len(maps)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = np.asarray(rows[start : start + ROWS_AT_ONCE])
        energy += float(np.einsum("ij,ij->", part, part, dtype=np.float64))
        products[start : start + len(part)] = part @ maps.T
    return Projection(energy, products, (maps @ maps.T).astype(np.float64))
