"""Minibatches that the system reads ahead into its page cache."""

import mmap
import os
import sys

import numpy as np
import pytest

from somf import DictionaryLearning, ImagePatches
from somf.data import Loader, as_source, open_source
from somf.data.readahead.memory_map import CAN_PREFETCH
from somf.errors import DamagedFileError, NotFiniteError
from tests.helpers.processes import FITTING, run_forks

pytestmark = pytest.mark.skipif(
    not CAN_PREFETCH or not hasattr(os, "posix_fadvise"), reason="the system cannot prefetch"
)

P = 5000
ROWS = np.random.default_rng(0).standard_normal((200, P)).astype(np.float32)
ORDER = np.random.default_rng(1).permutation(200)
KINDS = ["npy", "raw", "HDF5", "Zarr", "stack"]


def write(folder, kind, rows=ROWS):
    """Write rows to files; return the path, or the paths, to open."""
    if kind == "HDF5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(folder / "X.h5", "w") as file:
            file.create_dataset("X", data=rows, chunks=(10, rows.shape[1]))
        return folder / "X.h5"
    if kind == "Zarr":
        zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
        chunks = (10, rows.shape[1])
        zarr.create_array(folder / "X.zarr", data=rows, chunks=chunks, compressors=None)
        return folder / "X.zarr"
    if kind == "stack":
        np.save(folder / "a.npy", rows[:80])
        np.save(folder / "b.npy", rows[80:])
        return [folder / "a.npy", folder / "b.npy"]
    if kind == "raw":
        rows.tofile(folder / "X.raw")
        return folder / "X.raw"
    np.save(folder / "X.npy", rows)
    return folder / "X.npy"


def opened(folder, kind, rows=ROWS):
    options = {"shape": rows.shape, "dtype": rows.dtype} if kind == "raw" else {}
    return open_source(write(folder, kind, rows), **options)


def streamed(loader, order=ORDER, size=16):
    """Return samples in the order in which minibatches of them come."""
    batches = np.split(order, range(size, len(order), size))
    with loader.stream(batches) as minibatches:
        return np.vstack(list(minibatches))


@pytest.fixture(autouse=True)
def no_background_thread(monkeypatch):
    """Let every test fail that does not read through the page cache."""

    def refuse(*_):
        raise AssertionError("a background thread was started")

    monkeypatch.setattr("somf.data.loader.read_ahead", refuse)


@pytest.mark.parametrize("kind", KINDS)
def test_minibatches_are_the_rows_of_every_kind_of_source(tmp_path, shared_threads, kind):
    source = opened(tmp_path, kind)
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype)), ROWS[ORDER])


@pytest.mark.parametrize("dtype", ["<i2", ">f4", "<f8", "u1", "<f2"])
def test_numbers_of_any_type_are_converted(tmp_path, shared_threads, dtype):
    rows = (100 * np.abs(ROWS)).astype(dtype)
    found = streamed(Loader(opened(tmp_path, "npy", rows), np.dtype(np.float32)))
    np.testing.assert_array_equal(found, rows[ORDER].astype(np.float32))


@pytest.mark.parametrize("view", [np.s_[17:], np.s_[::-1], np.s_[3::2], np.s_[:, 5:3000]])
def test_views_of_a_memory_map_are_read(tmp_path, view):
    X = np.load(write(tmp_path, "npy"), mmap_mode="r")[view]
    order = np.random.default_rng(2).permutation(len(X))
    np.testing.assert_array_equal(streamed(Loader(as_source(X), X.dtype), order), ROWS[view][order])


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_changes_of_a_writable_memory_map_are_seen(tmp_path, mode):
    X = np.load(write(tmp_path, "npy"), mmap_mode=mode)
    X[5] = 1
    assert (streamed(Loader(as_source(X), X.dtype), np.arange(200))[5] == 1).all()


def test_patches_of_a_mapped_image_are_read(tmp_path, shared_threads):
    image = np.random.default_rng(0).random((20, 30, 4))
    patches = ImagePatches(write(tmp_path, "npy", image), 5)
    order = np.random.default_rng(1).permutation(patches.shape[0])
    expected = ImagePatches(image, 5).rows(order)
    np.testing.assert_array_equal(streamed(Loader(patches, patches.dtype), order), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_equals_that_of_the_same_order_in_memory(tmp_path, kind):
    source = opened(tmp_path, kind)

    def fit(X):
        return DictionaryLearning(5, batch_size=16, reduction=2, random_state=0).fit(X)

    in_memory = as_source(ROWS)
    in_memory.chunk_starts = source.chunk_starts
    np.testing.assert_array_equal(fit(source).components_, fit(in_memory).components_)


# What is prefetched


def test_every_sample_is_prefetched_once_and_some_minibatches_ahead(
    tmp_path, monkeypatch, shared_threads
):
    source = opened(tmp_path, "npy")
    monkeypatch.setattr("somf.data.loader.READAHEAD_BYTES", 3 * 20 * P * 4)
    prefetched = []
    monkeypatch.setattr(source, "prefetch", lambda ids: prefetched.extend(ids.tolist()))
    with Loader(source, ROWS.dtype).stream(np.split(ORDER, 10)) as minibatches:
        assert prefetched == []
        for number, minibatch in enumerate(minibatches):
            np.testing.assert_array_equal(minibatch, ROWS[ORDER[20 * number : 20 * number + 20]])
            assert sorted(prefetched) == sorted(ORDER[: 20 * (number + 4)].tolist())


def test_whole_pages_of_a_memory_map_are_prefetched(tmp_path, monkeypatch):
    X = np.load(write(tmp_path, "npy"), mmap_mode="r")[10:]
    calls = []
    monkeypatch.setattr(
        "somf.data.readahead.memory_map._madvise", lambda: lambda *call: calls.append(call)
    )
    as_source(X).prefetch(np.array([0, 39, 7]))
    begin = X.__array_interface__["data"][0]
    for (start, length, _), row in zip(calls, (0, 39, 7), strict=True):
        first = begin + 4 * P * row
        assert start % mmap.PAGESIZE == 0
        assert first - mmap.PAGESIZE < start <= first
        assert start + length == first + 4 * P


@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
def test_chunks_are_prefetched_once_in_an_epoch(tmp_path, monkeypatch, shared_threads, kind):
    source = opened(tmp_path, kind)
    prefetched = []
    monkeypatch.setattr(source, "_prefetch_bytes", lambda *part: prefetched.append(part))
    loader = Loader(source, ROWS.dtype)
    order = loader.order(np.arange(200), seed=0, epoch=0)
    np.testing.assert_array_equal(streamed(loader, order, 8), ROWS[order])
    assert sorted(prefetched) == [(chunk, 0, 10 * P * 4) for chunk in range(20)]
    np.testing.assert_array_equal(loader.load(np.array([190, 3])), ROWS[[190, 3]])
    assert len(prefetched) == 20  # two rows are not worth two whole chunks


def test_a_large_chunk_is_prefetched_in_part(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((35, 30))
    monkeypatch.setattr("somf.data.sources.sliced.LARGEST_CHUNK", 4 * 30 * 8)
    source = opened(tmp_path, "HDF5", rows)
    prefetched = []
    monkeypatch.setattr(source, "_prefetch_bytes", lambda *part: prefetched.append(part))
    source.prefetch(np.array([3, 17, 34]))
    assert prefetched == [(0, 0, 960), (1, 4 * 240, 960), (3, 4 * 240, 240)]


def test_a_small_image_is_prefetched_once_and_a_large_one_line_by_line(tmp_path, monkeypatch):
    path = write(tmp_path, "npy", np.zeros((20, 30, 4)))
    calls = []
    monkeypatch.setattr(
        "somf.data.readahead.memory_map._madvise", lambda: lambda *call: calls.append(call)
    )
    small = ImagePatches(path, 5)
    small.prefetch(np.arange(3))
    small.prefetch(np.arange(3, 6))
    assert len(calls) == 1
    monkeypatch.setattr("somf.data.images.image.SMALL_IMAGE", 0)
    calls.clear()
    ImagePatches(path, 5).prefetch(np.arange(3))
    assert len(calls) == 3 * 5


# Errors


@pytest.mark.parametrize("kind", ["npy", "HDF5", "Zarr", "stack"])
def test_a_file_that_was_cut_short_is_named(tmp_path, shared_threads, kind):
    source = opened(tmp_path, kind)
    path = {"npy": "X.npy", "HDF5": "X.h5", "Zarr": "X.zarr/c/7/0", "stack": "b.npy"}[kind]
    path = tmp_path / path
    os.truncate(path, path.stat().st_size - 4)
    name = "X.zarr" if kind == "Zarr" else path.name
    with pytest.raises(DamagedFileError, match=name):
        streamed(Loader(source, ROWS.dtype))


def test_a_mapped_image_that_was_cut_short_is_named(tmp_path):
    path = write(tmp_path, "npy", np.zeros((100, 100, 4)))
    patches = ImagePatches(path, 5)
    os.truncate(path, 1000)
    with pytest.raises(DamagedFileError, match=r"X\.npy' is damaged: its end has been cut off"):
        streamed(Loader(patches, patches.dtype), np.arange(50))


CUT = """
import mmap, os, sys
import numpy as np
import scipy.sparse
from somf import DictionaryLearning
from somf.data import Loader, as_source, open_source
from somf.data.readahead.memory_map import Mapping
from somf.errors import DamagedFileError

path, kind = sys.argv[1:]
if kind == "map":
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    X = np.frombuffer(mapped, offset=128).reshape(4000, 9)
elif kind == "output":
    X = np.load(path, mmap_mode="r+")[:, :3]
    model = DictionaryLearning(3, init="random").fit(np.eye(9))
elif kind.startswith("sparse"):
    entries = np.load(path, mmap_mode="r").ravel()
    X = scipy.sparse.csr_array((entries, np.tile(np.arange(9), 4000), np.arange(0, 36001, 9)))
else:
    X = np.load(path, mmap_mode="r+" if "writable" in kind else "r")
source = as_source(X.T if "transposed" in kind else X)

def cut():
    os.truncate(path, 1000)

if "renamed" in kind:
    os.rename(path, path + ".other")
    path += ".other"
try:
    if kind == "output":
        cut()
        model.transform(np.eye(9).repeat(445, axis=0)[:4000], out=X)
    elif "while" in kind:  # after the first block of features
        use = Mapping.use
        Mapping.use = lambda *args: (use(*args), seen.append(1), len(seen) == 2 and cut())
        seen = []
        source.read(0, 9, np.empty((9, 4000)))
    elif "stream" in kind:
        loader = Loader(source, X.dtype)
        ids = loader.order(np.arange(source.shape[0]), 0, 0)
        with loader.stream(np.split(ids, len(ids))) as minibatches:
            for number, _ in enumerate(minibatches):
                if number == 2:
                    cut()
    else:
        cut()
        source.rows(np.arange(source.shape[0]))
except DamagedFileError as error:
    print(error)
"""


CUT_KINDS = [
    "rows",
    "rows stream",
    "writable rows stream",
    "transposed",
    "writable transposed",
    "transposed, while it is read",
    "renamed rows stream",
    "map",
    "output",
    "sparse",
    "sparse stream",
]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not cut a file that is mapped")
def test_a_map_that_is_cut_is_an_error_and_does_not_kill_the_process(tmp_path):
    runs = [[os.fspath(tmp_path / f"{kind}.npy"), kind] for kind in CUT_KINDS]
    for path, _ in runs:
        np.save(path, np.random.default_rng(0).random((4000, 9)))
    processes = run_forks(CUT, runs, FITTING)
    for kind, done in zip(CUT_KINDS, processes, strict=True):
        assert done.returncode == 0, f"{kind}: {done.returncode}, {done.stderr}"
        assert "is damaged: its end has been cut off." in done.stdout, kind


def test_a_memory_map_whose_file_was_replaced_by_a_shorter_one_is_still_read(tmp_path):
    source = opened(tmp_path, "npy")
    np.save(tmp_path / "other.npy", ROWS[:10])
    os.replace(tmp_path / "other.npy", tmp_path / "X.npy")
    np.testing.assert_array_equal(streamed(Loader(source, ROWS.dtype)), ROWS[ORDER])


def test_chunks_that_were_never_written_have_the_fill_value(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    with h5py.File(tmp_path / "X.h5", "w") as file:
        data = file.create_dataset("X", (200, P), "f4", chunks=(10, P), fillvalue=7)
        data[:190] = ROWS[:190]
    found = streamed(Loader(open_source(tmp_path / "X.h5"), ROWS.dtype))
    expected = np.concatenate([ROWS[:190], np.full((10, P), 7, np.float32)])
    np.testing.assert_array_equal(found, expected[ORDER])


@pytest.mark.parametrize("kind", KINDS)
def test_nan_is_reported_with_its_row_after_the_minibatches_before_it(tmp_path, kind):
    rows = ROWS.copy()
    rows[ORDER[40], 3] = np.nan
    source = opened(tmp_path, kind, rows)
    batches, seen = np.split(ORDER, range(16, 200, 16)), []
    with (
        pytest.raises(NotFiniteError, match=f"NaN in row {ORDER[40]}") as caught,
        Loader(source, rows.dtype).stream(batches) as minibatches,
    ):
        seen.extend(minibatches)
    assert caught.value.row == ORDER[40]
    np.testing.assert_array_equal(np.vstack(seen), rows[ORDER[:32]])


# Streams


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files cannot be counted")
@pytest.mark.parametrize("kind", ["npy", "HDF5", "Zarr"])
@pytest.mark.parametrize("n_taken", [20, 1], ids=["all", "one"])
def test_a_stream_leaves_no_file_open(tmp_path, kind, n_taken):
    source = opened(tmp_path, kind)
    n_open = len(os.listdir("/proc/self/fd"))
    with Loader(source, ROWS.dtype).stream(np.split(ORDER, 20)) as minibatches:
        for _ in range(n_taken):
            next(minibatches)
    assert len(os.listdir("/proc/self/fd")) == n_open


@pytest.mark.parametrize("kind", KINDS)
def test_two_streams_of_one_loader_are_independent(tmp_path, kind):
    loader, batches = Loader(opened(tmp_path, kind), ROWS.dtype), np.split(ORDER, 20)
    with loader.stream(batches) as some, loader.stream(batches[::-1]) as others:
        for number, (one, other) in enumerate(zip(some, others, strict=True)):
            np.testing.assert_array_equal(one, ROWS[batches[number]])
            np.testing.assert_array_equal(other, ROWS[batches[-1 - number]])
