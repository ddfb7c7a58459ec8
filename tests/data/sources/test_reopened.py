"""Many files, and errors of the system."""

import errno
import os

import numpy as np
import pytest

from somf.data import open_source
from somf.errors import DamagedFileError, MissingFileError
from tests.helpers.processes import FITTING, run_forks

resource = pytest.importorskip("resource", reason="the system has no limit on descriptors")

X = np.random.default_rng(0).standard_normal((300, 4))


def write(folder, kind, number, rows, chunks=None):
    if kind == "npy":
        np.save(folder / f"{number:04}.npy", rows)
    elif kind == "HDF5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(folder / f"{number:04}.h5", "w") as file:
            file.create_dataset("X", data=rows, chunks=chunks)
    else:
        zarr = pytest.importorskip("zarr", reason="Zarr needs somf[zarr]")
        path = folder / f"{number:04}.zarr"
        zarr.create_array(path, shape=rows.shape, chunks=chunks, dtype=float)[:] = rows


MODULES = [*FITTING, "h5py", "zarr"]
"""What processes import before the limit on descriptors is lowered."""

FIT = """
import resource, sys
import numpy as np
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
from somf import DictionaryLearning
from somf.data import open_source

source = open_source(sys.argv[1])
expected = np.load(sys.argv[2])
np.testing.assert_array_equal(source.rows(np.arange(len(expected))), expected)
model = DictionaryLearning(3, init="random", batch_size=50, n_epochs=1, n_threads=2).fit(source)
assert model.n_samples_seen_ == len(expected)
"""


def test_more_files_than_may_be_open_can_be_stacked(tmp_path):
    pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    pytest.importorskip("zarr", reason="Zarr needs somf[zarr]")
    n_files, limit, runs = 260, 256, []
    np.save(tmp_path / "expected.npy", X[:n_files])
    for kind, chunks in (("npy", None), ("HDF5", None), ("HDF5", (1, 4)), ("Zarr", (1, 4))):
        folder = tmp_path / f"{kind} in chunks of {chunks}"
        folder.mkdir()
        for number, row in enumerate(X[:n_files]):
            write(folder, kind, number, row[None], chunks)
        runs.append([os.fspath(folder / "*"), os.fspath(tmp_path / "expected.npy"), str(limit)])
    for done in run_forks(FIT, runs, MODULES):
        assert done.returncode == 0, f"{done.args}: {done.stderr}"


@pytest.fixture
def few(monkeypatch):
    """Let only two files be open at a time."""
    monkeypatch.setattr("somf.data.sources.reopened.most_open", lambda: 2)


@pytest.mark.parametrize("kind", ["npy", "HDF5", "Zarr"])
def test_files_that_are_opened_again_are_one_matrix(tmp_path, few, kind):
    for number in range(5):
        write(tmp_path, kind, number, X[10 * number : 10 * number + 10], (5, 4))
    source = open_source(tmp_path / "*")
    ids = np.random.default_rng(0).permutation(50)
    source.prefetch(ids)
    np.testing.assert_array_equal(source.rows(ids), X[ids])
    out = np.empty((10, 4))
    source.read(20, 30, out)
    np.testing.assert_array_equal(out, X[20:30])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files cannot be counted")
@pytest.mark.parametrize("kind", ["npy", "HDF5"])
def test_only_a_few_files_are_open_and_none_after_the_last_use(tmp_path, few, kind):
    for number in range(6):
        write(tmp_path, kind, number, X[:10], (5, 4))
    n_open = len(os.listdir("/proc/self/fd"))
    source = open_source(tmp_path / "*")
    source.rows(np.arange(60))
    assert len(os.listdir("/proc/self/fd")) <= n_open + 2 * 2  # h5py's own, and that of the reader
    del source
    assert len(os.listdir("/proc/self/fd")) == n_open


def test_a_file_that_changed_or_went_away_before_it_is_opened_again_is_named(tmp_path, few):
    for number in range(6):
        write(tmp_path, "npy", number, X[:10])
    source = open_source(tmp_path / "*")
    np.save(tmp_path / "0000.npy", X[10:20])
    with pytest.raises(DamagedFileError, match=r"0000\.npy' was changed while it was in use"):
        source.rows(np.arange(60))
    (tmp_path / "0001.npy").unlink()
    with pytest.raises(MissingFileError, match=r"0001\.npy' is no longer there"):
        source.rows(np.arange(10, 60))


# Errors of the system keep their own names


ERRORS = """
import resource, sys, os
import numpy as np
from somf.data import open_source
from somf.errors import SomfError

source = open_source(sys.argv[1]) if sys.argv[2] == "read" else None
if source is None and not sys.argv[1].endswith("npy"):
    import h5py, zarr, zarr.codecs  # with all files that they need
    zarr.open(sys.argv[3], mode="r")[:]
files = []
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
try:
    while True:
        files.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
try:
    if source is None:
        open_source(sys.argv[1])
    else:
        source.rows(np.arange(10))
except OSError as error:
    [os.close(file) for file in files]
    assert not isinstance(error, SomfError), error
    print(error.errno)
"""


def test_too_many_open_files_are_not_called_damage(tmp_path):
    pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    zarr = pytest.importorskip("zarr", reason="Zarr needs somf[zarr]")
    for name, options in (("Zarr", {}), ("plain", {"compressors": None})):
        path = tmp_path / f"{name}.zarr"
        array = zarr.create_array(path, shape=X.shape, chunks=(10, 4), dtype=float, **options)
        array[:] = X
    for other in ("npy", "HDF5"):
        write(tmp_path, other, 0, X, (10, 4))
    runs = [
        [os.fspath(tmp_path / name), when, os.fspath(tmp_path / "Zarr.zarr")]
        for name, when in (
            ("0000.npy", "open"),
            ("0000.h5", "open"),
            ("Zarr.zarr", "open"),
            ("Zarr.zarr", "read"),
            ("plain.zarr", "read"),
        )
    ]
    for done in run_forks(ERRORS, runs, MODULES):
        assert done.stdout.split() == [str(errno.EMFILE)], f"{done.args}: {done.stderr}"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ESTALE])
def test_an_error_of_the_system_keeps_its_number_and_names_the_file(tmp_path, monkeypatch, number):
    np.save(tmp_path / "X.npy", X)

    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("numpy.lib.format.open_memmap", fails)
    with pytest.raises(OSError, match=r"X\.npy") as caught:
        open_source(tmp_path / "X.npy")
    assert caught.value.errno == number
    assert not isinstance(caught.value, DamagedFileError)


@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
def test_an_error_of_the_disk_while_rows_are_read_keeps_its_number(tmp_path, monkeypatch, kind):
    if kind == "Zarr":
        zarr = pytest.importorskip("zarr", reason="Zarr needs somf[zarr]")
        options = {"chunks": (10, 4), "dtype": float, "compressors": None}
        zarr.create_array(tmp_path / "0000.zarr", shape=X.shape, **options)[:] = X
    else:
        write(tmp_path, kind, 0, X, (10, 4))
    source = open_source(tmp_path / "*")

    def fails(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("os.preadv", fails)
    with pytest.raises(OSError, match="Input/output") as caught:
        source.rows(np.arange(10))
    assert caught.value.errno == errno.EIO


def test_too_little_memory_is_not_called_damage(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)

    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr("numpy.lib.format.open_memmap", fails)
    with pytest.raises(MemoryError):
        open_source(tmp_path / "X.npy")
