"""Fixtures that several test modules share."""

import pytest

from somf.kernels.cpu.threads import ThreadPool, _current
from somf.typing import Array
from tests.helpers.problems import planted


@pytest.fixture(scope="session")
def toy() -> Array:
    """Return a toy problem of 300 samples, 60 features and 10 atoms."""
    return planted(300, 60, 10)[0]


@pytest.fixture(params=[1, 3], ids=["alone", "shared"])
def shared_pool(request, monkeypatch):
    """Give a thread pool that splits even the smallest work between its threads."""
    monkeypatch.setattr("somf.kernels.cpu.threads.SMALLEST_SHARED_WORK", 0)
    pool = ThreadPool(request.param)
    token = _current.set(pool)
    yield pool
    _current.reset(token)
    pool.close()
