"""What the system reads ahead, through its page cache and past it."""

import ctypes
import errno
import mmap
import os
import time

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.data import Loader, aio, as_source, asking, open_source
from somf.tensorfile import DamagedFileError

P = 5000  # rows of 20,000 bytes in float32 begin anywhere in a block
ROWS = np.random.default_rng(0).standard_normal((200, P)).astype(np.float32)


def forget(*paths):
    """Make sure that files are not in the page cache."""
    for path in paths:
        for name in path.rglob("*") if path.is_dir() else [path]:
            if name.is_file() and name.stat().st_size:
                file = os.open(name, os.O_RDONLY)
                os.fsync(file)
                for _ in range(100):
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                    if not n_cached(file):
                        break
                    time.sleep(0.01)
                else:
                    pytest.skip("files of this folder do not leave the page cache")
                os.close(file)


def n_cached(file):
    """Return how many pages of a file are in the page cache."""
    libc, size = ctypes.CDLL(None, use_errno=True), os.fstat(file).st_size
    with mmap.mmap(file, size, flags=mmap.MAP_PRIVATE) as pages:
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        there = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), there) == 0
    return sum(page & 1 for page in there)


@pytest.fixture
def past_cache(tmp_path, monkeypatch):
    """Let rows of any size go past the page cache; return the ways that are taken."""
    if not aio.IS_AVAILABLE:
        pytest.skip("asynchronous reads need Linux on x86-64 or 64-bit ARM")
    (tmp_path / "probe").write_bytes(bytes(asking.BLOCK))
    forget(tmp_path / "probe")
    try:
        os.close(os.open(tmp_path / "probe", os.O_RDONLY | os.O_DIRECT))
        aio.Reads(1)
        asking._is_cached(str(tmp_path / "probe"), 0)
    except OSError as refusal:
        pytest.skip(f"the system refuses to read past its page cache: {refusal}")
    monkeypatch.setattr("somf.data.source.LARGE_ROW", 1)
    monkeypatch.setattr(asking, "LEAST_BYTES", 0)
    monkeypatch.setattr(asking, "FIRST_SECONDS", float("inf"))  # no disk is late
    ways, choose = [], asking.Asking._way
    monkeypatch.setattr(asking.Asking, "_way", lambda *args: ways.append(choose(*args)) or ways[-1])
    return ways


def written(folder, kind, rows=ROWS):
    """Return a source, and the files that it reads."""
    if kind == "HDF5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(folder / "X.h5", "w") as file:
            file.create_dataset("X", data=rows, chunks=(10, P))
    elif kind == "Zarr":
        zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
        zarr.create_array(folder / "X.zarr", data=rows, chunks=(10, P), compressors=None)
    elif kind == "stack":
        np.save(folder / "a.npy", rows[:80])
        np.save(folder / "b.npy", rows[80:])
    elif kind == "raw":
        rows.tofile(folder / "X.raw")
    else:
        np.save(folder / "X.npy", rows)
    paths = [path for path in folder.iterdir() if path.name != "probe"]
    if kind == "stack":
        return open_source(sorted(paths)), paths
    options = {"shape": rows.shape, "dtype": rows.dtype} if kind == "raw" else {}
    return open_source(paths[0], **options), paths


def streamed(loader, order, size=16):
    """Return samples in the order in which minibatches of them come."""
    batches = np.split(order, range(size, len(order), size))
    with loader.stream(batches) as minibatches:
        return np.vstack(list(minibatches))


def refuse(*_):
    raise AssertionError("a row came through the page cache")


ORDER = np.random.default_rng(1).permutation(200)
KINDS = ["npy", "raw", "HDF5", "Zarr", "stack"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_not_in_the_page_cache_go_past_it(
    tmp_path, past_cache, monkeypatch, shared_team, kind
):
    source, paths = written(tmp_path, kind)
    forget(*paths)
    for part in getattr(source, "parts", [source]):
        monkeypatch.setattr(part, "fetch", lambda _ids: refuse)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert [type(way) for way in past_cache] == [asking.PastCache]


@pytest.mark.parametrize("dtype", ["<i2", ">f4", "<f8", "u1", "<f2"])
def test_numbers_of_any_type_are_converted_on_the_way(tmp_path, past_cache, dtype):
    rows = (100 * np.abs(ROWS)).astype(dtype)
    source, paths = written(tmp_path, "npy", rows)
    forget(*paths)
    found = streamed(Loader(source, np.dtype(np.float32)), ORDER)
    np.testing.assert_array_equal(found, rows[ORDER].astype(np.float32))
    assert isinstance(past_cache[0], asking.PastCache)


@pytest.mark.parametrize("view", [np.s_[17:], np.s_[::-1], np.s_[3::2], np.s_[:, 5:3000]])
def test_views_of_a_map_are_found_in_its_file(tmp_path, past_cache, view):
    np.save(tmp_path / "X.npy", ROWS)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")[view]
    forget(tmp_path / "X.npy")
    order = np.random.default_rng(2).permutation(len(X))
    np.testing.assert_array_equal(streamed(Loader(as_source(X), X.dtype), order), ROWS[view][order])
    assert isinstance(past_cache[0], asking.PastCache)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learned_does_not_depend_on_the_way(tmp_path, past_cache, kind):
    source, paths = written(tmp_path, kind)
    fits = []
    for is_cold in (True, False):
        if is_cold:
            forget(*paths)
        else:
            source.rows(np.arange(200))
        model = DictionaryLearning(5, batch_size=16, reduction=2, random_state=0)
        fits.append(model.fit(source))
    assert [type(way) for way in past_cache] == [asking.PastCache, asking.ThroughCache]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


def test_a_second_epoch_fills_the_page_cache_and_a_third_sees_whether_it_stayed(
    tmp_path, past_cache
):
    source, paths = written(tmp_path, "HDF5")  # pages that are mapped cannot be forgotten
    loader = Loader(source, ROWS.dtype)
    for _ in range(4):
        forget(*paths)
        np.testing.assert_array_equal(streamed(loader, ORDER), ROWS[ORDER])
    past, through = asking.PastCache, asking.ThroughCache
    assert [type(way) for way in past_cache] == [past, through, past, past]
    assert past_cache[0]._room is past_cache[2]._room is past_cache[3]._room
    source.rows(np.arange(200))
    streamed(loader, ORDER)
    assert type(past_cache[-1]) is through


def test_once_the_disk_is_late_the_page_cache_is_filled(tmp_path, past_cache, monkeypatch):
    source, paths = written(tmp_path, "npy")
    asked, begin = [], asking.PastCache._begin_to_read
    monkeypatch.setattr(source, "will_need", lambda ids: asked.extend(ids.tolist()))

    def begin_late(way, number):
        if number == 4:
            monkeypatch.setattr(asking, "FIRST_SECONDS", 0.0)
            monkeypatch.setattr(asking, "LATE", 0.0)
        return begin(way, number)

    monkeypatch.setattr(asking.PastCache, "_begin_to_read", begin_late)
    forget(*paths)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert isinstance(past_cache[0], asking.PastCache)
    assert asked == ORDER[5 * 16 :].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_reads_that_do_not_begin_are_made_up_for(tmp_path, past_cache, monkeypatch, kind):
    source, paths = written(tmp_path, kind)
    begin = aio.Reads.begin
    monkeypatch.setattr(aio.Reads, "begin", lambda self, *args: begin(self, *(a[:9] for a in args)))
    forget(*paths)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert isinstance(past_cache[0], asking.PastCache)


def test_where_the_system_refuses_rows_go_through_the_page_cache(tmp_path, past_cache, monkeypatch):
    source, paths = written(tmp_path, "npy")
    monkeypatch.setitem(aio.CALLS, aio.platform.machine(), dict.fromkeys(aio.CALLS["x86_64"], -1))
    forget(*paths)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert type(past_cache[0]) is asking.ThroughCache


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_a_map_that_may_have_been_changed_is_not_read_from_its_file(tmp_path, past_cache, mode):
    np.save(tmp_path / "X.npy", ROWS)
    X = np.load(tmp_path / "X.npy", mmap_mode=mode)
    forget(tmp_path / "X.npy")
    X[5] = 1
    found = streamed(Loader(as_source(X), X.dtype), np.arange(200))
    assert (found[5] == 1).all()
    assert type(past_cache[0]) is asking.ThroughCache


def test_a_map_whose_file_was_replaced_is_still_that_of_the_old_file(tmp_path, past_cache):
    source, paths = written(tmp_path, "npy")
    forget(*paths)
    np.save(tmp_path / "other.npy", -ROWS)
    forget(tmp_path / "other.npy")
    os.replace(tmp_path / "other.npy", paths[0])
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert not past_cache[0]._files


def test_a_file_that_is_replaced_later_is_read_to_its_end(tmp_path, past_cache):
    source, paths = written(tmp_path, "HDF5")
    forget(*paths)
    os.replace(tmp_path / "probe", paths[0])
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert isinstance(past_cache[0], asking.PastCache)


@pytest.mark.parametrize("kind", ["npy", "HDF5", "Zarr"])
@pytest.mark.parametrize("way", ["PastCache", "ThroughCache"])
def test_a_file_that_was_cut_short_is_named(tmp_path, past_cache, monkeypatch, kind, way):
    source, paths = written(tmp_path, kind)
    path = paths[0] / "c" / "7" / "0" if kind == "Zarr" else paths[0]
    os.truncate(path, path.stat().st_size - 4)
    monkeypatch.setattr(asking, "_is_in_cache", lambda *_: way == "ThroughCache")
    with pytest.raises(DamagedFileError, match=paths[0].name):
        streamed(Loader(source, ROWS.dtype), ORDER)
    assert type(past_cache[0]).__name__ == way


def test_chunks_that_were_never_written_are_left_to_the_library(tmp_path, past_cache):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    with h5py.File(tmp_path / "X.h5", "w") as file:
        data = file.create_dataset("X", (200, P), "f4", chunks=(10, P), fillvalue=7)
        data[:190] = ROWS[:190]
    forget(tmp_path / "X.h5")
    found = streamed(Loader(open_source(tmp_path / "X.h5"), ROWS.dtype), ORDER)
    expected = np.concatenate([ROWS[:190], np.full((10, P), 7, np.float32)])
    np.testing.assert_array_equal(found, expected[ORDER])


def test_nan_is_reported_with_its_row_after_the_minibatches_before(tmp_path, past_cache):
    rows = ROWS.copy()
    rows[ORDER[40], 3] = np.nan
    source, paths = written(tmp_path, "npy", rows)
    forget(*paths)
    batches, seen = np.split(ORDER, range(16, 200, 16)), []
    with (
        pytest.raises(ValueError, match=f"NaN in row {ORDER[40]}"),
        Loader(source, rows.dtype).stream(batches) as minibatches,
    ):
        seen.extend(minibatches)
    assert isinstance(past_cache[0], asking.PastCache)
    np.testing.assert_array_equal(np.vstack(seen), rows[ORDER[:32]])


@pytest.mark.parametrize("kind", ["npy", "HDF5", "Zarr"])
def test_no_file_stays_open_whether_all_was_read_or_not(tmp_path, past_cache, monkeypatch, kind):
    monkeypatch.setattr(asking, "MOST_OPEN", 3)
    source, paths = written(tmp_path, kind)
    source.locate(np.array([0]))  # opens the file of a map, for as long as there is the map
    n_open = len(os.listdir("/proc/self/fd"))
    for n_taken in (20, 1):
        loader = Loader(source, ROWS.dtype)
        forget(*paths)
        with loader.stream(np.split(ORDER, 20)) as minibatches:
            for _ in range(n_taken):
                next(minibatches)
        assert len(os.listdir("/proc/self/fd")) == n_open
    assert all(isinstance(way, asking.PastCache) for way in past_cache)


@pytest.mark.parametrize("when", ["before a read", "after a read", "after it has arrived"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_at_any_moment_ends_the_stream(
    tmp_path, past_cache, monkeypatch, kind, when
):
    source, paths = written(tmp_path, kind)
    begin, finished, n_calls = aio.Reads.begin, aio.Reads.finished, []

    def interrupted(is_now):
        n_calls.append(is_now)
        # One look may find that all reads have arrived, so there may be no second one.
        if is_now and n_calls.count(True) == (1 if when == "after it has arrived" else 4):
            raise KeyboardInterrupt

    def begin_or_not(*args):
        interrupted(when == "before a read")
        n_begun = begin(*args)
        interrupted(when == "after a read")
        return n_begun

    def finished_or_not(*args):
        found = finished(*args)
        interrupted(when == "after it has arrived")
        return found

    monkeypatch.setattr(aio.Reads, "begin", begin_or_not)
    monkeypatch.setattr(aio.Reads, "finished", finished_or_not)
    n_open, loader = len(os.listdir("/proc/self/fd")), Loader(source, ROWS.dtype)
    forget(*paths)
    with pytest.raises(KeyboardInterrupt):
        streamed(loader, ORDER)
    assert len(os.listdir("/proc/self/fd")) == n_open
    assert not past_cache[0]._reads.end.alive
    np.testing.assert_array_equal(streamed(loader, ORDER), ROWS[ORDER])


def test_where_few_files_may_be_open_some_rows_go_through_the_page_cache(
    tmp_path, past_cache, monkeypatch
):
    source, paths = written(tmp_path, "Zarr")
    n_open, reopen = [], os.open

    def open_few(path, flags):
        if flags & os.O_DIRECT and len(past_cache[0]._files) == 5:
            n_open.append(len(past_cache[0]._files))
            raise OSError(errno.EMFILE, "too many open files")
        return reopen(path, flags)

    monkeypatch.setattr(asking.os, "open", open_few)
    forget(*paths)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert n_open
    assert not past_cache[0]._files


def test_not_more_files_are_opened_at_once_than_are_allowed(tmp_path, past_cache, monkeypatch):
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    zarr.create_array(tmp_path / "X.zarr", data=ROWS, chunks=(1, P), compressors=None)
    source, begin, n_open = open_source(tmp_path / "X.zarr"), aio.Reads.begin, []

    def begin_and_count(*args):
        n_open.append(len(past_cache[0]._files))
        return begin(*args)

    monkeypatch.setattr(asking, "MOST_OPEN", 7)
    monkeypatch.setattr(aio.Reads, "begin", begin_and_count)
    monkeypatch.setattr(source, "fetch", lambda _ids: refuse)
    forget(tmp_path / "X.zarr")
    found = streamed(Loader(source, ROWS.dtype), ORDER, size=50)
    np.testing.assert_array_equal(found, ROWS[ORDER])
    assert max(n_open) <= 14


def test_two_streams_of_one_loader_do_not_disturb_each_other(tmp_path, past_cache, monkeypatch):
    source, _ = written(tmp_path, "npy")
    monkeypatch.setattr(asking, "_is_in_cache", lambda *_: False)
    loader, batches = Loader(source, ROWS.dtype), np.split(ORDER, 20)
    streamed(loader, ORDER)  # leaves a room
    loader._asking._n_missed = 2
    with loader.stream(batches) as some, loader.stream(batches[::-1]) as others:
        for number, (one, other) in enumerate(zip(some, others, strict=True)):
            np.testing.assert_array_equal(one, ROWS[batches[number]])
            np.testing.assert_array_equal(other, ROWS[batches[-1 - number]])
    assert [type(way) for way in past_cache] == 3 * [asking.PastCache]


def test_to_look_for_rows_does_not_bring_them_into_the_page_cache(tmp_path, past_cache):
    source, paths = written(tmp_path, "npy")
    forget(*paths)
    for _ in range(3):
        streamed(Loader(source, ROWS.dtype), ORDER)
    assert [type(way) for way in past_cache] == 3 * [asking.PastCache]


def test_a_cold_fit_that_was_stopped_is_resumed_bit_by_bit(tmp_path, past_cache, monkeypatch):
    source, _ = written(tmp_path, "npy")
    monkeypatch.setattr(asking, "_is_in_cache", lambda *_: False)

    def fit(**params):
        model = DictionaryLearning(
            5, batch_size=16, n_epochs=3, reduction=2, random_state=0, **params
        )
        return model.fit(source).components_

    def stop(progress):
        if progress.n_samples_seen > 250:
            raise KeyboardInterrupt

    undisturbed, checkpoint = fit(), tmp_path / "run.somf"
    with pytest.raises(KeyboardInterrupt):
        fit(callbacks=stop, checkpoint=checkpoint)
    assert checkpoint.exists()
    np.testing.assert_array_equal(fit(checkpoint=checkpoint), undisturbed)
    assert type(past_cache[-1]) is asking.PastCache


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("source.LARGE_ROW", 4 * P + 1),
        ("asking.LEAST_BYTES", 2**30),
        ("asking.MOST_BYTES", P),
        ("asking.MOST_READS", 40),
    ],
    ids=["small rows", "small matrix", "large minibatches", "many rows"],
)
def test_what_is_not_worth_it_goes_through_the_page_cache(
    tmp_path, past_cache, monkeypatch, name, limit
):
    source, paths = written(tmp_path, "npy")
    monkeypatch.setattr(f"somf.data.{name}", limit)
    forget(*paths)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype), ORDER), ROWS[ORDER])
    assert type(past_cache[0]) is asking.ThroughCache
