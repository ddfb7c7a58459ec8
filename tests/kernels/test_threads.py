"""The pool of threads."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

from somf import DictionaryLearning, SparsePCA
from somf.kernels.cpu.threads import ALONE, ThreadPool, _blas, _current, pool_for, threads


@pytest.fixture(params=[1, 2, 5])
def pool(request):
    pool = ThreadPool(request.param)
    yield pool
    pool.close()


def test_all_members_work_and_answer_in_order(pool):
    assert pool.run(lambda member: member * 10) == [10 * m for m in range(pool.size)]


@pytest.mark.parametrize(
    "rows", [(slice(0, 10),), (slice(3, 4), slice(8, 30)), (slice(5, 6),), (slice(2, 2),)]
)
def test_shares_are_disjoint_and_complete_and_of_about_one_size(pool, rows):
    parts = [
        [i for s in pool.share(rows, member) for i in range(s.start, s.stop)]
        for member in range(pool.size)
    ]
    assert list(chain(*parts)) == [i for s in rows for i in range(s.start, s.stop)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 50])
def test_every_piece_is_dealt_to_one_member(pool, n_rows, size):
    pieces = pool.deal(n_rows, size)
    taken = pool.run(lambda member: [i for s in pieces for i in range(s.start, s.stop)])
    assert sorted(chain(*taken)) == list(range(n_rows))


def test_a_member_that_is_held_up_holds_up_nobody_who_is_dealt_pieces():
    pool, everything_is_done = ThreadPool(2), threading.Event()
    pieces = pool.deal(40, most=1)

    def work(member):
        done = []
        for piece in pieces:
            if member == 1:  # stays at its first piece until the other is through with all others
                assert everything_is_done.wait(60)
            done.append(piece.start)
        everything_is_done.set()
        return done

    try:
        mine, others = pool.run(work)
        assert len(others) <= 1
        assert sorted(mine + others) == list(range(40))
    finally:
        pool.close()


def test_work_inside_of_shared_work_is_not_shared_again(shared_pool):
    assert pool_for(10**9) is shared_pool
    found = shared_pool.run(lambda member: pool_for(10**9))
    assert shared_pool.size == 1 or all(pool is ALONE for pool in found)
    assert pool_for(10**9) is shared_pool


def test_members_wait_for_each_other(pool):
    seen = [0] * pool.size

    def work(member):
        for step in range(1, 20):
            seen[member] = step
            pool.wait()
            assert min(seen) >= step
            pool.wait()

    pool.run(work)


@pytest.mark.parametrize("culprit", [0, -1])
def test_an_error_of_one_member_is_raised_and_nobody_hangs(pool, culprit):
    def work(member):
        if member == culprit % pool.size:
            raise KeyError("mine")
        pool.wait()

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            pool.run(work)
    assert pool.run(lambda member: member) == list(range(pool.size))


def blas_threads():
    return {info["num_threads"] for info in _blas().info()}


def test_blas_is_held_to_one_thread_while_the_context_lasts():
    before = blas_threads()
    with threads(None):
        assert set.union(*_current.get().run(lambda member: blas_threads())) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("shared_work", [0, 10**12], ids=["teams", "alone"])
def test_several_threads_may_compute_at_the_same_time(shared_work, monkeypatch):
    monkeypatch.setattr("somf.kernels.cpu.threads.SMALLEST_SHARED_WORK", shared_work)

    def compute(seed):
        X = np.random.default_rng(seed).standard_normal((120, 20))
        kind = (DictionaryLearning, SparsePCA)[seed % 2]
        return kind(5, n_threads=2, code_tol=0, random_state=0).fit(X).components_

    expected = [compute(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compute, range(12)))
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_threads_end_with_the_context():
    n_before = threading.active_count()
    with threads(None):
        pool = _current.get()
        pool.run(lambda member: member)
        assert threading.active_count() == n_before + pool.size - 1
        assert pool_for(10**9) is pool
        assert pool_for(1) is ALONE
    assert threading.active_count() == n_before
    assert pool_for(10**9) is ALONE


def test_there_are_no_more_threads_than_the_machine_has():
    with threads(10**6):
        assert pool_for(10**9).size <= (os.cpu_count() or 1)


def test_results_of_a_team_do_not_depend_on_timing():
    x = np.random.default_rng(0).standard_normal(10_000)
    with threads(None):
        pool = pool_for(10**9)
        sums = {
            sum(pool.run(lambda m: sum(x[s].sum() for s in pool.share((slice(0, 10_000),), m))))
            for _ in range(20)
        }
    assert len(sums) == 1


@pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA])
def test_more_threads_than_rows_are_no_obstacle(kind, monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 5))

    def components(size):
        monkeypatch.setattr("somf.kernels.cpu.threads.ThreadPool", lambda _: ThreadPool(size))
        return kind(8, reduction=2, code_tol=0, random_state=0).fit(X).components_

    alone = components(1)
    monkeypatch.setattr("somf.kernels.cpu.threads.SMALLEST_SHARED_WORK", 0)
    np.testing.assert_allclose(components(7), alone, atol=1e-10)
