"""Initial maps: principal components of some scans, rotated so that each has few large voxels.

From scans that are drawn at random, a fit often splits a network in two and misses another one.
"""

import numpy as np

from somf.typing import Array

MOST_SCANS = 500
"""Scans whose principal components are computed, at most."""

MOST_BYTES = 2**28
"""Bytes of these scans, at most."""

MOST_ROTATIONS = 50
"""Steps of the search for a rotation, at most."""

LEAST_GAIN = 1e-4
"""The search ends when a step improves its criterion by less than this fraction."""


def initial_maps(rows: Array, n_components: int) -> Array | None:
    """Return initial maps for a fit to some scans.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Scans. At most 500 of them are used, at equal distances.
    n_components : int

    Returns
    -------
    maps : ndarray of shape (n_components, p) or None
        Of unit ℓ1 norm; None if there are too few scans for as many maps.
    """
    n_bytes = rows.shape[1] * rows.dtype.itemsize
    n_scans = min(len(rows), MOST_SCANS, MOST_BYTES // n_bytes)
    if n_scans < 2 * n_components:
        return None
    scans = np.asarray(rows[np.linspace(0, len(rows) - 1, n_scans).astype(int)])
    values, vectors = np.linalg.eigh((scans @ scans.T).astype(np.float64))
    values, vectors = values[-n_components:], vectors[:, -n_components:]
    if values[0] <= values[-1] * np.finfo(rows.dtype).eps * n_scans:  # of a lower rank
        return None
    components = (vectors / np.sqrt(values)).T.astype(rows.dtype) @ scans
    maps = varimax(components)
    maps /= np.abs(maps).sum(axis=1, keepdims=True)
    return maps


def varimax(components: Array) -> Array:
    """Return the rotation of orthonormal rows whose squared entries have the largest variance.

    Each step replaces the rotation R by the polar factor of the gradient of Σ var(L²) in R, where
    L = W R has the rotated maps as columns.

    Parameters
    ----------
    components : ndarray of shape (k, p)

    Returns
    -------
    rotated : ndarray of shape (k, p)
    """
    W = components.T
    rotation, criterion = np.eye(W.shape[1], dtype=W.dtype), 0.0
    for _ in range(MOST_ROTATIONS):
        L = W @ rotation
        squares = L**2
        left, values, right = np.linalg.svd(W.T @ (L * (squares - squares.mean(axis=0))))
        rotation = left @ right
        before, criterion = criterion, float(values.sum())
        if criterion <= before * (1 + LEAST_GAIN):
            break
    return np.ascontiguousarray((W @ rotation).T)
