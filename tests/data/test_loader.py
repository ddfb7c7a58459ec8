"""Type, columns and checks of minibatches."""

import mmap

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import Loader, Source, as_source, open_source
from somf.data.readahead.memory_map import CAN_ASK

X = np.random.default_rng(0).standard_normal((20, 6)) * np.array([1, 0, 1, 1, 0, 1])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_columns_are_permuted_and_types_converted(storage):
    permutation = np.random.default_rng(1).permutation(6)
    loader = Loader(as_source(storage(X)), np.dtype(np.float32), permutation)
    batch = loader.load(np.array([4, 2]))
    dense = batch if isinstance(batch, np.ndarray) else batch.toarray()
    np.testing.assert_array_equal(dense, X[[4, 2]][:, permutation].astype(np.float32))
    assert batch.dtype == np.float32
    assert sp.issparse(batch) == (storage is sp.csr_array)


def test_chunks_cover_the_samples_in_order(monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 6 * 3)
    ids = np.array([5, 1, 9, 0, 7, 3, 2])
    chunks = list(Loader(as_source(X), X.dtype).chunks(ids))
    assert [len(positions) for positions, _ in chunks] == [3, 3, 1]
    np.testing.assert_array_equal(np.vstack([rows for _, rows in chunks]), X[ids])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize(("bad", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "inf")])
def test_an_entry_that_is_not_finite_is_reported_with_its_row(storage, bad, name):
    broken = X.copy()
    broken[13, 2] = bad
    loader = Loader(as_source(storage(broken)), X.dtype, np.arange(6)[::-1].copy())
    loader.load(np.arange(13))
    with pytest.raises(ValueError, match=f"got {name}.* in row 13"):
        loader.load(np.array([2, 13, 5]))


def test_a_sum_that_overflows_is_not_mistaken_for_infinity():
    huge = np.full((4, 3), 1e308)
    np.testing.assert_array_equal(Loader(as_source(huge), huge.dtype).load(np.arange(4)), huge)


def written_in_chunks(folder, kind, rows, **options):
    if kind == "HDF5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(folder / "X.h5", "w") as file:
            file.create_dataset("X", data=rows, chunks=(10, rows.shape[1]), **options)
        return folder / "X.h5"
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    chunks = (10, rows.shape[1])
    zarr.create_array(folder / "X.zarr", data=rows, chunks=chunks, compressors=None)
    return folder / "X.zarr"


@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
def test_a_fit_does_not_depend_on_how_chunks_are_read(tmp_path, monkeypatch, kind):
    rows = np.random.default_rng(0).standard_normal((64, 30)).astype(np.float32)
    path = written_in_chunks(tmp_path, kind, rows)
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 4 * 10 * 30 * 4)
    fits = []
    for smallest in (1, 2**40):  # by rows, and by chunks that are kept
        monkeypatch.setattr("somf.data.source.LARGE_ROW", smallest)
        model = DictionaryLearning(4, n_epochs=3, batch_size=7, random_state=0)
        fits.append(model.fit(open_source(path)))
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
def test_chunks_are_asked_for_once_in_an_epoch(tmp_path, monkeypatch, kind):
    rows = np.random.default_rng(0).standard_normal((200, 30))
    source = open_source(written_in_chunks(tmp_path, kind, rows))
    monkeypatch.setattr("somf.data.source.LARGE_ROW", 1)
    asked = []
    monkeypatch.setattr(source, "prefetch", lambda *part: asked.append(part))
    loader = Loader(source, rows.dtype)
    batches = np.split(loader.order(np.arange(200), seed=0, epoch=0), range(8, 200, 8))
    with loader.stream(batches) as minibatches:
        found = np.vstack(list(minibatches))
    np.testing.assert_array_equal(found, rows[np.concatenate(batches)])
    assert sorted(asked) == [(chunk, 0, 10 * 30 * 8) for chunk in range(20)]
    np.testing.assert_array_equal(loader.load(np.array([190, 3])), rows[[190, 3]])
    assert len(asked) == 20  # for two rows no chunk is read as a whole


def test_the_system_is_asked_for_every_sample_once_and_some_minibatches_ahead(
    tmp_path, monkeypatch, shared_pool
):
    rows = np.random.default_rng(0).standard_normal((100, 300))
    np.save(tmp_path / "X.npy", rows)
    source = open_source(tmp_path / "X.npy")
    monkeypatch.setattr("somf.data.loader.AHEAD_BYTES", 3 * 10 * 300 * 8)
    asked = []
    monkeypatch.setattr(source, "prefetch", lambda ids: asked.extend(ids.tolist()))
    order = np.random.default_rng(1).permutation(100)
    with Loader(source, rows.dtype).stream(np.split(order, 10)) as minibatches:
        assert asked == []
        for number, minibatch in enumerate(minibatches):
            np.testing.assert_array_equal(minibatch, rows[order[10 * number : 10 * number + 10]])
            assert sorted(asked) == sorted(order[: 10 * (number + 4)].tolist())


@pytest.mark.skipif(not CAN_ASK, reason="the system takes no advice about maps")
def test_what_the_system_is_asked_for_are_whole_pages_of_the_map(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", np.ones((50, 3000)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")[10:]
    asked = []
    monkeypatch.setattr(
        "somf.data.readahead.memory_map._madvise", lambda: lambda *call: asked.append(call)
    )
    as_source(X).prefetch(np.array([0, 39, 7]))
    begin = X.__array_interface__["data"][0]
    for (start, length, _), row in zip(asked, (0, 39, 7), strict=True):
        first = begin + 24_000 * row
        assert start % mmap.PAGESIZE == 0
        assert first - mmap.PAGESIZE < start <= first
        assert start + length == first + 24_000


class Odd(Source):
    """Gives something else than it promises."""

    def __init__(self, given):
        self.shape, self.dtype, self.given = (20, 6), np.dtype(float), given

    def rows(self, ids):
        return self.given(X[ids])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (lambda rows: rows[:, :-1], "must be of shape"),
        (lambda rows: np.hstack([rows, rows]), "must be of shape"),
        (lambda rows: rows[:-1], "must be of shape"),
        (lambda rows: rows.ravel(), "must be of shape"),
        (sp.csr_array, "is_sparse"),
    ],
    ids=["narrow", "wide", "few", "flat", "sparse"],
)
@pytest.mark.parametrize("permutation", [None, np.arange(6)], ids=["in order", "permuted"])
def test_rows_that_are_not_what_a_source_promises_are_refused(given, error, permutation):
    with pytest.raises((ValueError, TypeError), match=error):
        Loader(Odd(given), X.dtype, permutation).load(np.array([3, 7, 1]))


def test_of_a_large_chunk_a_part_is_asked_for(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((35, 30))
    monkeypatch.setattr("somf.data.sources.sliced.LARGEST_CHUNK", 4 * 30 * 8)
    source = open_source(written_in_chunks(tmp_path, "HDF5", rows))
    asked = []
    monkeypatch.setattr(source, "prefetch", lambda *part: asked.append(part))
    source.prefetch(np.array([3, 17, 34]))
    assert asked == [(0, 0, 960), (1, 4 * 240, 960), (3, 4 * 240, 240)]


def test_epochs_share_memory_and_streams_at_the_same_time_do_not(tmp_path):
    rows = np.random.default_rng(0).standard_normal((60, 30))
    path = written_in_chunks(tmp_path, "HDF5", rows, compression="gzip")
    loader = Loader(open_source(path), rows.dtype)
    batches = np.split(np.random.default_rng(1).permutation(60), 6)
    with loader.stream(batches) as first:
        halves = [next(first) for _ in range(3)]
        with loader.stream(batches[::-1]) as second:
            np.testing.assert_array_equal(
                np.vstack(list(second)), rows[np.concatenate(batches[::-1])]
            )
        halves += list(first)
    np.testing.assert_array_equal(np.vstack(halves), rows[np.concatenate(batches)])
    memory = loader._memory
    with loader.stream(batches) as again:
        list(again)
    assert loader._memory is memory
