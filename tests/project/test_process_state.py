"""The library leaves a process as it found it: BLAS limits, signal handlers, descriptors, umask."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import somf
from somf.report import write_report

X = np.random.default_rng(0).standard_normal((200, 30)).astype(np.float32)

N_THREADS = 8
"""Threads that use the library at the same time."""


def use(folder):
    """Use everything that opens files, limits threads or handles signals."""
    model = somf.DictionaryLearning(
        5, batch_size=20, random_state=0, checkpoint=folder / "checkpoint", n_threads=2
    )
    np.save(folder / "X.npy", X)
    model.fit(folder / "X.npy", validation=0.1)
    model.save(folder / "model", state=True)
    again = somf.load(folder / "model")
    again.partial_fit(X)
    again.transform(folder / "X.npy", out=folder / "codes.npy")
    again.stationarity_gap(X)
    write_report(again, folder / "report.html", data=folder / "X.npy")


def use_in_vain(folder):
    """Fail at every one of these."""
    model = somf.DictionaryLearning(5, batch_size=20, random_state=0).fit(X)
    holes = X.copy()
    holes[150] = np.nan
    np.save(folder / "holes.npy", holes)
    (folder / "damaged").write_bytes(b"damaged")
    missing = folder / "missing" / "file"
    for attempt in (
        lambda: somf.DictionaryLearning(5, checkpoint=folder / "c").fit(folder / "holes.npy"),
        lambda: somf.DictionaryLearning(5, checkpoint=missing).fit(X),
        lambda: model.transform(folder / "holes.npy", out=folder / "codes.npy"),
        lambda: model.save(missing),
        lambda: somf.load(folder / "damaged"),
        lambda: write_report(model, missing),
        lambda: write_report(model, folder / "report.html", data=holes),
    ):
        with pytest.raises((ValueError, OSError)):
            attempt()


def umask():
    """Return the umask; reading it takes setting it."""
    now = os.umask(0o022)
    os.umask(now)
    return now


def handlers():
    return {s: signal.getsignal(s) for s in signal.valid_signals()}


def descriptors():
    """Return what the descriptors of this process refer to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found


def blas_limits():
    return [(p["filepath"], p["num_threads"]) for p in threadpool_info()]


def in_threads(work, tmp_path):
    """Do some work in several threads at the same time, each in a folder of its own."""
    barrier = threading.Barrier(N_THREADS)

    def run(i):
        (tmp_path / str(i)).mkdir()
        barrier.wait()
        work(tmp_path / str(i))

    with ThreadPoolExecutor(N_THREADS) as pool:
        for done in [pool.submit(run, i) for i in range(N_THREADS)]:
            done.result()


STATES = [
    pytest.param(umask, id="umask"),
    pytest.param(handlers, id="handlers"),
    pytest.param(
        descriptors,
        id="descriptors",
        marks=pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc"),
    ),
]


@pytest.mark.parametrize("work", [use, use_in_vain])
@pytest.mark.parametrize("state", [*STATES, pytest.param(blas_limits, id="blas")])
def test_a_process_is_as_before_after_any_use(tmp_path, state, work):
    (tmp_path / "first").mkdir()
    use(tmp_path / "first")  # imports what is imported late
    before = state()
    work(tmp_path)
    assert state() == before


@pytest.mark.parametrize("work", [use, use_in_vain])
@pytest.mark.parametrize("state", STATES)
def test_a_process_is_as_before_after_use_in_several_threads(tmp_path, state, work):
    (tmp_path / "first").mkdir()
    use(tmp_path / "first")
    before = state()
    in_threads(work, tmp_path)
    assert state() == before


class Meeting:
    """Samples that are there only after an event, and that tell when they are requested."""

    shape, dtype = X.shape, X.dtype

    def __init__(self, awaited):
        self.requested, self.awaited = threading.Event(), awaited

    def __getitem__(self, rows):
        self.requested.set()
        assert self.awaited.wait(60)
        return X[rows]


def test_limits_of_blas_are_as_before_after_uses_that_overlap():
    """The second use begins before the first one ends, and ends after it."""
    model = somf.DictionaryLearning(5, random_state=0).fit(X)
    first_ended = threading.Event()
    second = Meeting(first_ended)
    first = Meeting(second.requested)
    before = blas_limits()
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(model.transform, first)]
        assert first.requested.wait(60)
        results.append(pool.submit(model.transform, second))
        codes = results[0].result()
        first_ended.set()
        np.testing.assert_array_equal(results[1].result(), codes)
        assert blas_limits() == before


def test_the_umask_of_the_process_is_never_set(tmp_path, monkeypatch):
    def refuse(mask):
        raise AssertionError("os.umask is process-wide")

    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", refuse)
        use(tmp_path)
    permissions = (tmp_path / "model").stat().st_mode & 0o777
    assert permissions == 0o666 & ~umask()
