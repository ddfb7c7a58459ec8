"""The background thread: order, bounds, errors, and its end."""

import threading

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.data import Loader, as_source
from somf.data.readahead.background import read_ahead
from somf.errors import NotFiniteError
from tests.helpers.sources import WatchedSource, failing_at


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [t for t in threading.enumerate() if t.name.startswith("somf")]


def test_items_come_in_order_from_one_other_thread():
    with read_ahead(lambda i: (i, threading.current_thread()), range(20), 3) as items:
        found = list(items)
    assert [i for i, _ in found] == list(range(20))
    assert {t for _, t in found}.isdisjoint({threading.main_thread()})
    assert len({t for _, t in found}) == 1


def test_the_next_items_are_made_while_one_is_in_use():
    second = threading.Event()
    with read_ahead(lambda i: second.set() if i == 1 else None, range(3), 1) as items:
        next(items)
        assert second.wait(10)  # made before it is taken


def test_n_ahead_items_are_made_in_advance_and_no_more():
    is_made = [threading.Event() for _ in range(100)]
    with read_ahead(lambda i: is_made[i].set(), range(100), 4) as items:
        for n, _ in enumerate(items, start=1):
            n_expected = min(n + 4, 100)
            assert is_made[n_expected - 1].wait(10)
            assert sum(event.is_set() for event in is_made) == n_expected


def test_an_error_is_raised_in_the_place_of_its_item():
    error = OSError("the disk is gone")

    def make(i):
        if i == 3:
            raise error
        return i

    with read_ahead(make, range(10), 5) as items:
        assert [next(items) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match="the disk is gone") as caught:
            next(items)
    assert caught.value is error


def test_the_item_at_which_the_consumer_leaves_is_the_last_one(monkeypatch):
    monkeypatch.setattr("somf.data.readahead.background.JOIN_TIMEOUT", 0)
    made, begun, may_end = [], threading.Event(), threading.Event()

    def make(i):
        if i == 1:
            begun.set()
            assert may_end.wait(10)
        made.append(i)

    with read_ahead(make, range(1000), 8) as items:
        next(items)
        assert begun.wait(10)
    may_end.set()
    for thread in threading.enumerate():
        if thread.name.startswith("somf-reader"):
            thread.join(10)
    assert made == [0, 1]


def test_an_error_of_the_consumer_ends_the_thread():
    def consume():
        with read_ahead(lambda i: i, range(1000), 8) as items:
            next(items)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()


# A fit that reads in the background


def on_disk(X, breaks_at=None):
    """Return a source that is not in memory, and fails at the given read."""
    return WatchedSource(X, failing_at(breaks_at, OSError("the disk is gone")))


def test_a_fit_that_reads_ahead_gives_the_same_dictionary(toy):
    source = on_disk(toy)
    model = DictionaryLearning(4, n_epochs=3, random_state=0).fit(source, validation=toy)
    assert any(name.startswith("somf-reader") for name in source.threads)
    expected = DictionaryLearning(4, n_epochs=3, random_state=0).fit(toy, validation=toy)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.history_["objective"] == expected.history_["objective"]


@pytest.mark.parametrize("breaks_at", [1, 2, 3, 7, 11])
def test_an_error_of_a_source_in_the_background_is_raised_by_fit(toy, breaks_at):
    seen = []
    model = DictionaryLearning(
        4, batch_size=30, n_epochs=2, callbacks=[lambda p: seen.append(p.n_iter)], random_state=0
    )
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(on_disk(toy, breaks_at))
    assert len(seen) == max(breaks_at - 2, 0)  # the first read is for the initial atoms


def test_nan_is_reported_after_all_minibatches_before_it(toy):
    X = toy.copy()
    X[100, 3] = np.nan
    seen = []
    model = DictionaryLearning(
        4, init="random", batch_size=30, callbacks=[lambda p: seen.append(p.n_iter)], random_state=0
    )
    source = on_disk(X)
    with pytest.raises(NotFiniteError, match="got NaN in row 100") as caught:
        model.fit(source)
    assert (caught.value.name, caught.value.row) == ("X", 100)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    order = Loader(source, source.dtype).order(np.arange(300), seed, 0)
    assert len(seen) == int(np.flatnonzero(order == 100)[0]) // 30


def test_a_fit_that_is_stopped_early_leaves_no_thread(toy):
    model = DictionaryLearning(4, batch_size=10, callbacks=[lambda p: p.n_iter == 3])
    assert model.fit(on_disk(toy)).n_iter_ == 3


def test_a_callback_that_raises_leaves_no_thread(toy):
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        DictionaryLearning(4, batch_size=10, callbacks=[interrupt]).fit(on_disk(toy))
    # The thread has ended although the traceback still refers to the iterator.
    assert caught.value is not None
    assert not [t for t in threading.enumerate() if t.name.startswith("somf-reader")]


def test_transform_and_objective_read_ahead_and_leave_no_thread(toy, monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 60 * 50)
    model = DictionaryLearning(4, random_state=0).fit(toy)
    for breaks_at in (None, 1, 3):
        for call in (model.transform, model.objective, model.stationarity_gap):
            source = on_disk(toy, breaks_at)
            if breaks_at is None:
                call(source)
                assert all(name.startswith("somf-reader") for name in source.threads)
            else:
                with pytest.raises(OSError, match="the disk is gone"):
                    call(source)
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012 (it is a loop)
        for _ in Loader(on_disk(toy), toy.dtype).chunks(np.arange(300)):
            raise ZeroDivisionError
    assert caught.value is not None
    assert not [t for t in threading.enumerate() if t.name.startswith("somf-reader")]


def test_data_in_memory_is_not_read_ahead(toy):
    with Loader(as_source(toy), toy.dtype).stream(np.split(np.arange(300), 6)) as minibatches:
        next(minibatches)
        assert not [t for t in threading.enumerate() if t.name.startswith("somf-reader")]
