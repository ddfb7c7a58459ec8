"""How many threads kernels use, and what they leave behind."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numba
import numpy as np
import pytest

from somf import DictionaryLearning, SparsePCA
from somf.kernels.cpu.regions import restore_num_threads
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import (
    SERIAL,
    _blas,
    current_threads,
    threads,
    threads_for,
)


def blas_threads():
    return {info["num_threads"] for info in _blas().info()}


@pytest.fixture
def two_blas_threads():
    """Let BLAS have two threads, however few cores there are."""
    before = [library.get_num_threads() for library in _blas().lib_controllers]
    for library in _blas().lib_controllers:
        library.set_num_threads(2)
    yield
    for library, count in zip(_blas().lib_controllers, before, strict=True):
        library.set_num_threads(count)


def test_little_work_is_done_by_one_thread():
    with threads(2):
        assert threads_for(1) is SERIAL
        assert threads_for(10**9) is current_threads()
        assert current_threads().count <= 2
    assert current_threads() is SERIAL


def test_blas_is_limited_to_one_thread_inside_the_context(two_blas_threads):
    with threads(None):
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_the_limit_of_blas_ends_with_the_last_of_several_contexts(two_blas_threads):
    entered, leave = threading.Barrier(3), [threading.Event() for _ in range(2)]

    def compute(number):
        with threads(1):
            entered.wait(60)
            assert leave[number].wait(60)

    with ThreadPoolExecutor(2) as pool:
        computing = [pool.submit(compute, number) for number in range(2)]
        entered.wait(60)
        leave[0].set()
        computing[0].result(60)
        assert blas_threads() == {1}
        leave[1].set()
        computing[1].result(60)
    assert blas_threads() == {2}


def test_many_threads_that_transform_leave_blas_as_it_was(toy, two_blas_threads):
    model = DictionaryLearning(5, random_state=0).fit(toy)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: model.transform(toy), range(32)))
    assert blas_threads() == {2}


def test_there_are_not_more_threads_than_numba_has():
    from numba.core import config

    with threads(10**6):
        assert current_threads().count == config.NUMBA_NUM_THREADS


def test_buffers_are_reused_and_freed_with_the_context():
    with threads(2):
        opened = current_threads()
        first = opened.buffer("x", (3, 4), np.dtype(float))
        assert np.shares_memory(first, opened.buffer("x", (2, 4), np.dtype(float)))
        assert not np.shares_memory(first, opened.buffer("x", (2, 4), np.dtype(np.float32)))
    assert not opened._buffers


def test_reader_threads_end_with_the_context():
    n_before = threading.active_count()
    with threads(2):
        assert current_threads().readers.submit(lambda: 1).result() == 1
    assert threading.active_count() == n_before


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize(
    "rows", [(slice(0, 10),), (slice(3, 4), slice(8, 30)), (slice(5, 6),), (slice(0, 9000),)]
)
def test_shares_of_rows_are_disjoint_complete_and_balanced(rows, n_threads):
    pieces, edges = shares(rows, n_threads)
    parts = [
        [i for start, stop, *_ in pieces[edges[t] : edges[t + 1]] for i in range(start, stop)]
        for t in range(n_threads)
    ]
    everything = [i for s in rows for i in range(s.start, s.stop)]
    assert list(chain(*parts)) == everything
    assert count_rows(rows) == len(everything)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [before for *_, before, _ in pieces] == [everything.index(start) for start, *_ in pieces]
    assert all(rows[run].start <= start < rows[run].stop for start, *_, run in pieces)


@pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA])
def test_there_may_be_more_threads_than_rows(kind, monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 3))

    def components(n_threads):
        model = kind(8, reduction=2, code_tol=0, random_state=0, n_threads=n_threads)
        return model.fit(X).components_

    serial = components(1)
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_WORK_PER_THREAD", 0)
    np.testing.assert_allclose(components(4), serial, atol=1e-10)


def test_numba_has_its_number_of_threads_back_after_a_fit(monkeypatch):
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_WORK_PER_THREAD", 0)
    X = np.random.default_rng(0).standard_normal((60, 8))
    restore_num_threads()  # tests call regions outside of any context
    before = numba.get_num_threads()
    assert before != 2
    DictionaryLearning(3, batch_size=20, n_threads=2).fit(X)
    assert numba.get_num_threads() == before
