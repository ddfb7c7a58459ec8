"""Zarr arrays that a URL leads to."""

import gc
import threading
import warnings
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
pytest.importorskip("fsspec", reason="URLs need somf[remote]")

import fsspec
import zarr

from somf import DictionaryLearning, ImagePatches
from somf.data import as_source, open_source
from somf.errors import (
    DamagedFileError,
    FileRequestError,
    MissingFileError,
    NotAMatrixError,
    SeveralDatasetsError,
    UnknownKindError,
)
from tests.helpers.files import write_zarr
from tests.helpers.source_contract import SourceContract, matrix


def write(url, X, path=None, **options):
    """Write an array to a URL."""
    store = zarr.storage.FsspecStore.from_url(url)
    array = zarr.create_array(store, name=path, shape=X.shape, dtype=X.dtype, **options)
    array[:] = X
    return url


@pytest.fixture
def memory():
    """Give the URL of a folder in the memory of fsspec."""
    yield "memory://somf-tests"
    fsspec.filesystem("memory").rm("/somf-tests", recursive=True)


class TestZarrInMemory(SourceContract):
    def make(self, folder):
        fsspec.filesystem("memory").store.clear()
        return as_source(write("memory://x.zarr", matrix(), chunks=(5, 3))), matrix()


class TestTransposedShardsByUrl(SourceContract):
    def make(self, folder):
        write_zarr(folder / "x.zarr", matrix().T.copy(), chunks=(7, 2), shards=(7, 6))
        return open_source(f"file://{folder}/x.zarr", transposed=True), matrix()


@pytest.fixture
def http(tmp_path):
    """Give the URL of a server of a folder."""
    pytest.importorskip("aiohttp", reason="https:// needs somf[remote]")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_array_is_read_over_http(http, tmp_path):
    write_zarr(tmp_path / "x.zarr", matrix(), chunks=(5, 7))
    source = open_source(f"{http}/x.zarr")
    np.testing.assert_array_equal(source.rows(np.arange(23)), matrix())
    with pytest.raises(MissingFileError, match=r"There is no Zarr array or group at 'http://.*y"):
        open_source(f"{http}/y.zarr")


@pytest.fixture(scope="module")
def bucket():
    """Give the URL of a bucket of a server that speaks the protocol of S3."""
    s3fs = pytest.importorskip("s3fs", reason="s3:// needs s3fs")
    server = pytest.importorskip("moto.server", reason="the test needs a server of moto")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*running.get_host_and_port()))
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem().mkdir("bucket")
        yield "s3://bucket"
    s3fs.S3FileSystem.clear_instance_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # s3fs does not close all its sessions
        gc.collect()
    running.stop()


@pytest.mark.parametrize(
    "storage", [{"chunks": (50, 60)}, {"chunks": (25, 60), "shards": (50, 60)}]
)
def test_a_fit_reads_from_s3(bucket, toy, storage):
    url = write(f"{bucket}/{len(storage)}.zarr", toy, **storage)
    source = open_source(url)
    np.testing.assert_array_equal(source.rows(np.arange(len(toy))[::-1]), toy[::-1])
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(url)
    expected = DictionaryLearning(3, n_epochs=1, random_state=0).fit(source)
    np.testing.assert_array_equal(model.components_, expected.components_)


def test_a_bucket_that_is_not_there_is_named(bucket):
    with pytest.raises(MissingFileError, match="There is no Zarr array or group at 's3://other/x"):
        open_source("s3://other/x.zarr")


def test_an_error_of_the_server_is_not_called_damage(memory, monkeypatch):
    class NoCredentialsError(Exception):
        """Like that of botocore, which has no common base with others."""

    def refuse(*_, **__):
        raise NoCredentialsError("Unable to locate credentials")

    write(f"{memory}/x.zarr", matrix(), chunks=(5, 7))
    monkeypatch.setattr(zarr, "open", refuse)
    with pytest.raises(OSError, match=r"NoCredentialsError: Unable to locate .*'memory://somf-tes"):
        open_source(f"{memory}/x.zarr")


def test_a_url_is_never_a_pattern(memory):
    url = write(f"{memory}/a[0]?*.zarr", matrix(), chunks=(5, 7))
    assert open_source(url).shape == (23, 7)


def test_a_fit_reads_from_a_url(memory, toy):
    write(f"{memory}/toy.zarr", toy, chunks=(50, 60))
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(f"{memory}/toy.zarr")
    assert model.transform([f"{memory}/toy.zarr"] * 2).shape == (600, 3)


def test_an_array_of_a_group_is_named(memory):
    for name in ("day", "night"):
        write(memory, matrix() + (name == "night"), path=name)
    with pytest.raises(SeveralDatasetsError):
        open_source(memory)
    night = open_source(memory, dataset="night")
    np.testing.assert_array_equal(night.rows(np.arange(2)), matrix()[:2] + 1)
    with pytest.raises(FileRequestError, match="dataset must be one of"):
        open_source(memory, dataset="dawn")
    with pytest.raises(FileRequestError, match="dataset must not be given"):
        open_source(f"{memory}/day", dataset="x")


def test_a_cube_is_cut_into_patches(memory):
    cube = np.random.default_rng(0).random((8, 9, 3), dtype=np.float32)
    write(f"{memory}/cube.zarr", cube, chunks=(4, 4, 3))
    rows = ImagePatches(f"{memory}/cube.zarr", 3).rows(np.arange(42))
    np.testing.assert_array_equal(rows, ImagePatches(cube, 3).rows(np.arange(42)))
    with pytest.raises(NotAMatrixError, match="ImagePatches"):
        open_source(f"{memory}/cube.zarr")


def test_the_command_reads_from_a_url(memory, toy, tmp_path, monkeypatch, capsys):
    pytest.importorskip("click", reason="the command comes with the extra 'cli'")
    from somf.cli.app import application

    monkeypatch.chdir(tmp_path)
    write(f"{memory}/toy.zarr", toy, chunks=(50, 60))
    write(f"{memory}/cube.zarr", np.ones((8, 9, 3), dtype=np.float32))
    run = partial(application.main, standalone_mode=False)
    for name, shown in (("toy", '"samples": 300'), ("cube", "an image")):
        run(["info", f"{memory}/{name}.zarr", "--json"])
        assert shown in capsys.readouterr().out
    run(["fit", f"{memory}/toy.zarr", "--components", "3", "--epochs", "1", "-o", "a.somf"])
    assert "3" in capsys.readouterr().out


def test_an_unknown_protocol_is_named():
    with pytest.raises(UnknownKindError, match="'gopher' is not a protocol of fsspec"):
        open_source("gopher://x.zarr")


def test_what_is_no_zarr_is_refused(memory):
    fsspec.filesystem("memory").pipe("/somf-tests/x.zarr/zarr.json", b"{no")
    with pytest.raises(DamagedFileError, match="is not a Zarr array or group"):
        open_source(f"{memory}/x.zarr")


def test_metadata_that_promise_more_than_is_stored_are_refused(memory):
    write(f"{memory}/x.zarr", matrix(), chunks=(5, 7))
    system = fsspec.filesystem("memory")
    path = "/somf-tests/x.zarr/zarr.json"
    system.pipe(path, system.cat(path).replace(b"23,", b"2300000000000,"))
    with pytest.raises(DamagedFileError, match="it has no chunk"):
        open_source(f"{memory}/x.zarr")


def test_an_array_that_was_removed_does_not_read_as_zeros(memory):
    source = open_source(write(f"{memory}/x.zarr", matrix(), chunks=(5, 7)))
    fsspec.filesystem("memory").mv("/somf-tests/x.zarr", "/somf-tests/y.zarr", recursive=True)
    with pytest.raises(MissingFileError, match="is no longer there"):
        source.rows(np.arange(5))
