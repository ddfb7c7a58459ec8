"""Symmetric matrices as their upper triangles, row after row: k (k + 1) / 2 numbers instead of k².

These are the products of all pairs of entries, for a matrix aaᵀ.
"""

from functools import cache

import numpy as np

from somf.typing import Array, Ints


def n_pairs(k: int) -> int:
    """Return how many numbers a symmetric matrix of k rows has."""
    return k * (k + 1) // 2


@cache
def upper(k: int) -> tuple[Ints, Ints]:
    """Return the rows and the columns of the numbers, in their order."""
    return np.triu_indices(k)


@cache
def places(k: int) -> Ints:
    """Return where every entry of the matrix (k, k) is among the numbers."""
    found = np.empty((k, k), dtype=np.int64)
    found[upper(k)] = found.T[upper(k)] = np.arange(n_pairs(k))
    return found


def unpacked(packed: Array, k: int) -> Array:
    """Return the matrices (m, k, k) of upper triangles (m, k (k + 1) / 2), on any device."""
    matrices: Array = packed[:, places(k).ravel()].reshape(-1, k, k)
    return matrices
