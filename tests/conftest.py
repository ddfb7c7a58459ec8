"""Fixtures that several test modules share."""

import os
import signal

import pytest

from somf.kernels.cpu.threads import Threads, use_threads
from somf.typing import Array
from tests.helpers.problems import planted

# Before Numba and OpenMP start: more threads than a small machine has, which do not spin while they
# wait, since other tests run at the same time.
os.environ.setdefault("NUMBA_NUM_THREADS", "4")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.fixture(autouse=True)
def _ctrl_c_is_not_ignored():
    """Restore Ctrl-C, which shells ignore for jobs in the background, and so would processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def toy() -> Array:
    """Return a toy problem of 300 samples, 60 features and 10 atoms."""
    return planted(300, 60, 10)[0]


@pytest.fixture(params=[1, 3], ids=["alone", "shared"])
def shared_threads(request, monkeypatch):
    """Give threads that share even the smallest work."""
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_WORK_PER_THREAD", 0)
    opened = Threads(request.param)
    with use_threads(opened):
        yield opened
    opened.close()
