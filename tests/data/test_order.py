"""Random order that respects storage, and the buffer that it needs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from somf.data import Source, StackedSource, as_source, epoch_order
from somf.data.buffer import ChunkBuffer
from somf.data.loader import Loader
from somf.data.order import buffered_chunks, runs


def most_at_once(order, starts):
    """Return how many chunks must be held at once if each is read only once."""
    owners = np.searchsorted(starts, order, side="right")
    first = {c: i for i, c in reversed(list(enumerate(owners.tolist())))}
    last = {c: i for i, c in enumerate(owners.tolist())}
    events = sorted([(i, 1) for i in first.values()] + [(i + 0.5, -1) for i in last.values()])
    return int(np.cumsum([step for _, step in events]).max())


def test_without_chunks_the_order_is_a_plain_permutation():
    ids = np.arange(100)
    assert not np.array_equal(epoch_order(ids, 3, 5), epoch_order(ids, 4, 5))
    assert not np.array_equal(epoch_order(ids, 3, 5), epoch_order(ids, 3, 5, stream=(1,)))
    np.testing.assert_array_equal(np.sort(epoch_order(ids, 3, 5)), ids)


@pytest.mark.parametrize("starts", [None, np.arange(0, 100, 10)])
def test_all_epochs_have_the_same_order_if_any_order_is_possible(starts):
    first, later = (epoch_order(np.arange(100), 3, epoch, starts, 10) for epoch in (0, 5))
    np.testing.assert_array_equal(later, first)
    others = (epoch_order(np.arange(100), 3, epoch, np.arange(0, 100, 10), 9) for epoch in (0, 5))
    assert not np.array_equal(*others)


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    n_buffered=st.integers(1, 12),
    seed=st.integers(0, 100),
    keep=st.floats(0.1, 1),
)
def test_no_more_chunks_are_needed_at_a_time_than_the_buffer_holds(sizes, n_buffered, seed, keep):
    starts = np.cumsum([0, *sizes[:-1]])
    ids = np.flatnonzero(np.random.default_rng(seed).random(sum(sizes)) <= keep)
    order = epoch_order(ids, seed, 2, starts, n_buffered)
    np.testing.assert_array_equal(np.sort(order), ids)
    np.testing.assert_array_equal(order, epoch_order(ids, seed, 2, starts, n_buffered))
    if len(ids):
        assert most_at_once(order, starts) <= n_buffered


def test_chunks_are_mixed_from_the_first_batch_to_the_last():
    starts = np.arange(0, 10_000, 100)
    order = epoch_order(np.arange(10_000), 0, 0, starts, 10)
    for batch in np.split(order, 200):
        assert len(np.unique(batch // 100)) >= 5
    others = epoch_order(np.arange(10_000), 0, 1, starts, 10)
    assert set(order[:100] // 100) != set(others[:100] // 100)


def test_a_buffer_that_holds_all_chunks_gives_a_plain_random_order():
    order = epoch_order(np.arange(1000), 0, 0, np.arange(0, 1000, 100), 50)
    place = np.empty(1000)
    place[order] = np.arange(1000)
    means = place.reshape(10, 100).mean(axis=1)
    assert np.abs(means - 500).max() < 4 * 1000 / np.sqrt(12 * 100)


class Counting(Source):
    """Counts how often each row is read."""

    shape, dtype = (100, 3), np.dtype(np.float32)
    X = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)

    def __init__(self):
        self.chunk_starts = np.array([0, 30, 40, 41, 60, 75, 90])
        self.n_reads = np.zeros(100, dtype=int)

    def rows(self, ids):
        self.n_reads[ids] += 1
        return self.X[ids]


def test_every_chunk_is_read_once_in_an_epoch(monkeypatch):
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 3 * 30 * 3 * 4)
    monkeypatch.setattr("somf.data.order.LEAST_BUFFERED", 1)
    source = Counting()
    assert buffered_chunks(source) == 3
    loader = Loader(source, source.dtype)
    ids = np.delete(np.arange(100), [5, 40, 99])  # the chunk of row 40 is not needed at all
    order = loader.order(ids, 0, 0)
    batches = np.split(order, range(8, len(order), 8))
    with loader.stream(batches) as minibatches:
        for batch, rows in zip(batches, minibatches, strict=True):
            np.testing.assert_array_equal(rows, source.X[batch])
    expected = np.ones(100)
    expected[40] = 0
    np.testing.assert_array_equal(source.n_reads, expected)


@pytest.mark.parametrize("n_ahead", [0, 3])
def test_rows_of_a_batch_stay_in_the_buffer_until_n_ahead_more_have_been_taken(n_ahead):
    source = Counting()
    order = epoch_order(np.arange(100), 0, 0, source.chunk_starts, 2)
    buffer = ChunkBuffer(source, np.split(order, 100), n_ahead)
    assert len(buffer.rows) <= (2 + n_ahead) * 30
    taken = []
    for i in order:
        taken.append((i, *buffer.take(np.array([i]))))
        for earlier, rows, picked in taken[-n_ahead - 1 :]:
            np.testing.assert_array_equal(rows[picked], source.X[[earlier]])


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=40), longest=st.integers(1, 40))
def test_runs_are_whole_chunks_or_parts_of_one(sizes, longest):
    edges = np.cumsum([0, *sizes])
    starts = runs(edges[:-1], edges[-1], longest)
    ends = np.append(starts[1:], edges[-1])
    assert starts[0] == 0
    assert ((ends - starts > 0) & (ends - starts <= longest)).all()
    for start, end in zip(starts, ends, strict=True):
        inside = edges[(start < edges) & (edges < end)]
        assert not len(inside) or end in edges  # a chunk is not begun if it does not fit


def test_runs_of_equal_chunks_are_the_chunks():
    starts = np.arange(0, 95, 10)
    assert runs(starts, 95, 10) is starts


def test_a_buffer_stays_small_if_only_a_part_of_a_stack_has_chunks(monkeypatch):
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 2**16)
    plain, chunked = Counting(), Counting()
    plain.chunk_starts = None
    stacked = StackedSource([plain, chunked], ["a", "b"])
    loader = Loader(stacked, stacked.dtype)
    order = loader.order(np.arange(200), 0, 0)
    buffer = ChunkBuffer(stacked, np.split(order, 20), 16)
    assert len(buffer.rows) <= 2 * 200
    for batch in np.split(order, 20):
        rows, picked = buffer.take(batch)
        np.testing.assert_array_equal(rows[picked], Counting.X[batch % 100])


class Tall:
    """Chunks that are tall and narrow, and would be 1.6 GB with all their features."""

    shape, dtype, chunks = (100_000, 4_000), np.dtype(np.float32), (100_000, 8)
    largest = 0

    def __getitem__(self, rows):
        self.largest = max(self.largest, rows.stop - rows.start)
        return np.zeros((rows.stop - rows.start, 4_000), np.float32)


def test_tall_chunks_are_read_in_pieces_with_a_warning():
    with pytest.warns(UserWarning, match=r"chunks of 100,000 samples, 1,600 MB .* read 24 times"):
        source = as_source(Tall())
    assert buffered_chunks(source) == 4
    source.rows(np.arange(0, 100_000, 997))
    assert source.X.largest * 4_000 * 4 <= 2**26


def test_four_chunks_are_mixed_even_if_they_are_larger_than_the_buffer(monkeypatch):
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 1)
    assert buffered_chunks(Counting()) == 4


def test_a_pass_in_order_reads_every_chunk_once(monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 7 * 3)
    source = Counting()
    rows = list(Loader(source, source.dtype).chunks(np.arange(100)))
    np.testing.assert_array_equal(np.vstack(rows), source.X)
    assert source.n_reads.tolist() == [1] * 100
