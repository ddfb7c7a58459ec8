"""Dask arrays."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("dask.array", reason="Dask comes with the extra 'dask'")

import dask
import dask.array as dask_array

from somf import DictionaryLearning, scratch
from somf.data import Loader, as_source, buffer
from somf.data.sources import lazy
from somf.errors import DataError
from tests.helpers.source_contract import SourceContract, matrix


class TestDaskArray(SourceContract):
    def make(self, folder):
        return as_source(dask_array.from_array(matrix(), chunks=((10, 4, 9), (3, 4)))), matrix()


class TestDaskArrayOfSparseChunks(SourceContract):
    def make(self, folder):
        chunks = dask_array.from_array(matrix(), chunks=(10, 7)).map_blocks(sp.csr_array)
        return as_source(chunks), matrix()


def counted(X, chunks):
    """Return a Dask array, and how often each of its chunks has been computed."""
    counts = Counter()

    def count(block, block_info=None):
        counts[tuple(block_info[0]["chunk-location"])] += 1
        return block

    return dask_array.from_array(X, chunks=chunks).map_blocks(
        count, dtype=X.dtype, meta=X[:0]
    ), counts


def test_each_chunk_of_both_dimensions_is_computed_once_in_an_epoch(monkeypatch):
    monkeypatch.setattr(lazy, "SMALL_CHUNK", 1)
    X = np.random.default_rng(0).standard_normal((200, 30))
    array, counts = counted(X, (20, 8))
    loader = Loader(as_source(array), np.dtype(float))
    order = loader.order(np.arange(200), seed=0, epoch=0)
    with loader.stream(np.split(order, 10)) as minibatches:
        for ids, rows in zip(np.split(order, 10), minibatches, strict=True):
            np.testing.assert_array_equal(rows, X[ids])
    assert set(counts.values()) == {1}
    assert len(counts) == 10 * 4


def test_a_buffer_of_huge_chunks_is_in_a_scratch_file(monkeypatch):
    monkeypatch.setattr(buffer, "MOST_MEMORY", 1)
    monkeypatch.setattr(scratch, "SCRATCH_BYTES", 1)
    source = as_source(dask_array.from_array(matrix(), chunks=(10, 3)))
    taken, positions = buffer.ChunkBuffer(source, [np.arange(23)], 1).take(np.arange(23))
    assert isinstance(taken, np.memmap)
    np.testing.assert_array_equal(taken[positions], matrix())


def test_small_chunks_are_computed_together():
    source = as_source(dask_array.zeros((1000, 10), chunks=(1, 10)))
    assert len(source.chunk_starts) == 1


def test_a_fit_on_a_dask_array_learns_what_the_data_holds(toy):
    model = DictionaryLearning(5, random_state=0).fit(dask_array.from_array(toy, chunks=(50, 20)))
    same = DictionaryLearning(5, random_state=0).fit(toy)
    assert model.objective(toy) == pytest.approx(same.objective(toy), rel=0.1)
    codes = model.transform(dask_array.from_array(toy, chunks=(70, 60)))
    np.testing.assert_allclose(codes, model.transform(toy), rtol=1e-4, atol=1e-6)


def test_huge_chunks_are_computed_in_pieces_with_a_warning(monkeypatch):
    monkeypatch.setattr(lazy, "SMALL_CHUNK", 1)
    monkeypatch.setattr(lazy, "LARGEST_CHUNK", 4 * 7 * 8)
    with pytest.warns(UserWarning, match="each chunk is computed 3 times in an epoch"):
        source = as_source(dask_array.from_array(matrix(), chunks=(10, 7)))
    assert source.chunk_starts.tolist() == [0, 4, 8, 10, 14, 18, 20]


def test_chunks_are_read_with_any_scheduler():
    def like_that_of_a_cluster(*arguments, **options):
        return dask.local.get_sync(*arguments, **options)

    source = as_source(dask_array.from_array(matrix(), chunks=(10, 3)))
    out = np.empty((13, 7))
    for scheduler in ("synchronous", "threads", like_that_of_a_cluster):
        with dask.config.set(scheduler=scheduler):
            out[:] = np.nan
            source.read(5, 18, out)
        np.testing.assert_array_equal(out, matrix()[5:18])


def test_unknown_chunks_are_refused_with_a_remedy():
    array = dask_array.from_array(matrix(), chunks=(10, 7))
    with pytest.raises(DataError, match=r"chunks of known sizes.*compute_chunk_sizes\(\)"):
        as_source(array[array[:, 0] > 0])


def test_chunks_of_another_kind_are_refused():
    masked = dask_array.ma.masked_equal(dask_array.from_array(matrix(), chunks=(10, 7)), 0)
    with pytest.raises(DataError, match=r"NumPy arrays or SciPy sparse.*MaskedArray"):
        as_source(masked)
