"""Small problems for tests: planted dictionaries, sparse samples, and the rows of a mask."""

import numpy as np
import scipy.sparse as sp

from somf.algorithm.masks import Subset
from somf.typing import Array, Ints


def planted(
    n: int, p: int, k: int, *, density: float = 0.3, noise: float = 0.05, seed: int = 0
) -> tuple[Array, Array]:
    """Return samples of unit norm that are sparse combinations of atoms, and the atoms.

    Returns
    -------
    X : array of shape (n, p)
    atoms : array of shape (k, p)
    """
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((k, p))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    code = rng.standard_normal((n, k)) * (rng.random((n, k)) < density)
    X = code @ atoms + noise * rng.standard_normal((n, p))
    return X / np.linalg.norm(X, axis=1, keepdims=True), atoms


def random_csr(n: int, p: int, density: float, *, seed: int = 0) -> sp.csr_array:
    """Return a sparse matrix of shape (n, p), its entries uniform in [0, 1)."""
    rng = np.random.default_rng(seed)
    return sp.csr_array(np.where(rng.random((n, p)) < density, rng.random((n, p)), 0))


def listed(subset: Subset) -> Ints:
    """Return the indices of the rows in a subset, whether it stores slices or indices."""
    if isinstance(subset.rows, tuple):
        return np.concatenate([np.arange(s.start, s.stop) for s in subset.rows])
    return subset.rows
