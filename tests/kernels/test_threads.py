"""The thread pool of the CPU kernels."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

from somf import DictionaryLearning, SparsePCA
from somf.kernels.cpu.threads import SERIAL_POOL, ThreadPool, _blas, pool_for, threads


@pytest.fixture(params=[1, 2, 5])
def pool(request):
    pool = ThreadPool(request.param)
    yield pool
    pool.close()


def test_all_workers_run_and_results_are_in_order(pool):
    assert pool.run(lambda worker: worker * 10) == [10 * worker for worker in range(pool.size)]


@pytest.mark.parametrize(
    "rows", [(slice(0, 10),), (slice(3, 4), slice(8, 30)), (slice(5, 6),), (slice(2, 2),)]
)
def test_static_chunks_are_disjoint_complete_and_balanced(pool, rows):
    parts = [
        [i for s in pool.static_chunks(rows, worker) for i in range(s.start, s.stop)]
        for worker in range(pool.size)
    ]
    assert list(chain(*parts)) == [i for s in rows for i in range(s.start, s.stop)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 50])
def test_every_dynamic_chunk_goes_to_one_worker(pool, n_rows, size):
    chunks = pool.dynamic_chunks(n_rows, size)
    taken = pool.run(lambda worker: [i for s in chunks for i in range(s.start, s.stop)])
    assert sorted(chain(*taken)) == list(range(n_rows))


def test_a_slow_worker_does_not_delay_the_others_with_dynamic_chunks():
    pool, everything_is_done = ThreadPool(2), threading.Event()
    chunks = pool.dynamic_chunks(40, max_rows=1)

    def work(worker):
        done = []
        for chunk in chunks:
            if worker == 1:  # holds its first chunk until worker 0 has done the rest
                assert everything_is_done.wait(60)
            done.append(chunk.start)
        everything_is_done.set()
        return done

    try:
        mine, others = pool.run(work)
        assert len(others) <= 1
        assert sorted(mine + others) == list(range(40))
    finally:
        pool.close()


def test_nested_work_is_serial(shared_pool):
    assert pool_for(10**9) is shared_pool
    found = shared_pool.run(lambda worker: pool_for(10**9))
    assert shared_pool.size == 1 or all(pool is SERIAL_POOL for pool in found)
    assert pool_for(10**9) is shared_pool


def test_workers_wait_for_each_other_at_a_barrier(pool):
    seen = [0] * pool.size

    def work(worker):
        for step in range(1, 20):
            seen[worker] = step
            pool.barrier()
            assert min(seen) >= step
            pool.barrier()

    pool.run(work)


@pytest.mark.parametrize("culprit", [0, -1])
def test_the_error_of_one_worker_is_raised_and_no_worker_hangs(pool, culprit):
    def work(worker):
        if worker == culprit % pool.size:
            raise KeyError("mine")
        pool.barrier()

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            pool.run(work)
    assert pool.run(lambda worker: worker) == list(range(pool.size))


def blas_threads():
    return {info["num_threads"] for info in _blas().info()}


def test_blas_is_limited_to_one_thread_inside_the_context():
    before = blas_threads()
    with threads(None):
        assert set.union(*pool_for(10**9).run(lambda worker: blas_threads())) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("min_work", [0, 10**12], ids=["pools", "serial"])
def test_several_threads_may_fit_at_the_same_time(min_work, monkeypatch):
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_PARALLEL_WORK", min_work)

    def compute(seed):
        X = np.random.default_rng(seed).standard_normal((120, 20))
        kind = (DictionaryLearning, SparsePCA)[seed % 2]
        return kind(5, n_threads=2, code_tol=0, random_state=0).fit(X).components_

    expected = [compute(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compute, range(12)))
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_threads_of_a_pool_end_with_the_context():
    n_before = threading.active_count()
    with threads(None):
        pool = pool_for(10**9)
        pool.run(lambda worker: worker)
        assert threading.active_count() == n_before + pool.size - 1
        assert pool_for(10**9) is pool
        assert pool_for(1) is SERIAL_POOL
    assert threading.active_count() == n_before
    assert pool_for(10**9) is SERIAL_POOL


def test_a_pool_has_no_more_workers_than_the_machine_has_cores():
    with threads(10**6):
        assert pool_for(10**9).size <= (os.cpu_count() or 1)


def test_sums_over_static_chunks_do_not_depend_on_timing():
    x = np.random.default_rng(0).standard_normal(10_000)
    with threads(None):
        pool = pool_for(10**9)

        def work(worker):
            return sum(x[s].sum() for s in pool.static_chunks((slice(0, len(x)),), worker))

        sums = {sum(pool.run(work)) for _ in range(20)}
    assert len(sums) == 1


@pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA])
def test_a_pool_may_have_more_workers_than_there_are_rows(kind, monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 5))

    def components(size):
        monkeypatch.setattr("somf.kernels.cpu.threads.ThreadPool", lambda _: ThreadPool(size))
        return kind(8, reduction=2, code_tol=0, random_state=0).fit(X).components_

    serial = components(1)
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_PARALLEL_WORK", 0)
    np.testing.assert_allclose(components(7), serial, atol=1e-10)


def test_the_limit_of_blas_ends_with_the_last_of_several_contexts():
    libraries = _blas().lib_controllers
    before = [library.get_num_threads() for library in libraries]
    for library in libraries:
        library.set_num_threads(2)
    entered, leave = threading.Barrier(3), [threading.Event() for _ in range(2)]

    def compute(number):
        with threads(1):
            entered.wait(60)
            assert leave[number].wait(60)

    try:
        with ThreadPoolExecutor(2) as pool:
            computing = [pool.submit(compute, number) for number in range(2)]
            entered.wait(60)
            leave[0].set()
            computing[0].result(60)
            assert blas_threads() == {1}
            leave[1].set()
            computing[1].result(60)
        assert blas_threads() == {2}
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)
