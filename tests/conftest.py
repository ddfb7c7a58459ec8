"""Data that several tests learn from."""

import numpy as np
import pytest

from somf.algorithm.masks import Subset
from somf.kernels.cpu.threads import ThreadPool, use_pool
from somf.typing import Array, Ints


def planted(
    n: int, p: int, k: int, *, density: float = 0.3, noise: float = 0.05, seed: int = 0
) -> tuple[Array, Array]:
    """Return samples of unit norm that are sparse combinations of atoms, and the atoms."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((k, p))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    code = rng.standard_normal((n, k)) * (rng.random((n, k)) < density)
    X = code @ atoms + noise * rng.standard_normal((n, p))
    return X / np.linalg.norm(X, axis=1, keepdims=True), atoms


@pytest.fixture(scope="session")
def toy() -> Array:
    """Return a toy problem of 300 samples, 60 features and 10 atoms."""
    return planted(300, 60, 10)[0]


def listed(subset: Subset) -> Ints:
    """Return the rows of a subset one by one."""
    if isinstance(subset.rows, tuple):
        return np.concatenate([np.arange(s.start, s.stop) for s in subset.rows])
    return subset.rows


@pytest.fixture(params=[1, 3], ids=["alone", "shared"])
def shared_pool(request, monkeypatch):
    """Let threads share even the smallest work."""
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_PARALLEL_WORK", 0)
    pool = ThreadPool(request.param)
    with use_pool(pool):
        yield pool
    pool.close()
