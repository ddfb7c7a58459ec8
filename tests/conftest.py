"""Fixtures that several test modules share."""

import pytest

from somf.kernels.cpu.threads import ThreadPool, use_pool
from somf.typing import Array
from tests.helpers.problems import planted


@pytest.fixture(scope="session")
def toy() -> Array:
    """Return a toy problem of 300 samples, 60 features and 10 atoms."""
    return planted(300, 60, 10)[0]


@pytest.fixture(params=[1, 3], ids=["alone", "shared"])
def shared_pool(request, monkeypatch):
    """Give a thread pool that splits even the smallest work between its threads."""
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_PARALLEL_WORK", 0)
    pool = ThreadPool(request.param)
    with use_pool(pool):
        yield pool
    pool.close()
