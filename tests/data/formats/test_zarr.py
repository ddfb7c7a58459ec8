"""Zarr arrays, good and damaged ones."""

import os
import sys

import numpy as np
import pytest

from somf import DictionaryLearning, ImagePatches
from somf.data import as_source, open_source
from somf.data.formats.zarr import _is_raw
from somf.data.images import files
from somf.errors import DamagedFileError, MissingFileError, NotAMatrixError
from tests.helpers.files import fails, is_refused, write_zarr
from tests.helpers.source_contract import SourceContract, matrix

X = np.random.default_rng(0).standard_normal((60, 8))


class TestZarrArray(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(5, 7))
        return as_source(folder / "X.zarr"), matrix()


class TestPlainZarrArray(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(5, 7), compressors=None)
        return as_source(folder / "X.zarr"), matrix()


class TestPlainZarrArrayOfFormat2(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(4, 7), compressors=None, zarr_format=2)
        return as_source(folder / "X.zarr"), matrix()


class TestPlainZarrReadInPieces(SourceContract):
    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch):
        monkeypatch.setattr("somf.data.sources.sliced.LARGEST_CHUNK", 4 * 7 * 8)

    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix(), chunks=(10, 7), compressors=None)
        return as_source(folder / "X.zarr"), matrix()


class TestZarrArrayObject(SourceContract):
    def make(self, folder):
        path = write_zarr(folder / "X.zarr", matrix(), chunks=(4, 2))
        return as_source(pytest.importorskip("zarr").open_array(path.absolute())), matrix()


class TestShardedZarrArray(SourceContract):
    def make(self, folder):
        X = matrix().astype(np.float32)
        write_zarr(folder / "X.zarr", X, chunks=(2, 7), shards=(6, 7))
        return as_source(folder / "X.zarr"), X


class TestTransposedZarrArray(SourceContract):
    def make(self, folder):
        write_zarr(folder / "X.zarr", matrix().T, chunks=(7, 5))
        return open_source(folder / "X.zarr", transposed=True), matrix()


class TestZarrGroup(SourceContract):
    def make(self, folder):
        zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
        group = zarr.create_group(folder / "scans.zarr")
        for name in ("day", "night"):
            X = matrix() + (name == "night")
            group.create_array(f"scans/{name}", shape=X.shape, dtype=X.dtype, chunks=(9, 7))[:] = X
        return open_source(folder / "scans.zarr", dataset="scans/day"), matrix()


@pytest.fixture
def zarr(tmp_path):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    array = module.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(10, 8), dtype=float)
    array[:] = X
    return tmp_path / "X.zarr"


def test_a_damaged_or_foreign_zarr_is_named(zarr):
    metadata = (zarr / "zarr.json").read_text()
    for text in ("", metadata[:50], "{}", metadata.replace('"float64"', '"complex128"')):
        (zarr / "zarr.json").write_text(text)
        fails(zarr, "is not a Zarr array or group|Complex data")
    (zarr / "zarr.json").unlink()
    fails(zarr, "is not a Zarr array or group")


def test_a_damaged_chunk_of_a_zarr_is_named_when_it_is_read(zarr):
    (zarr / "c" / "3" / "0").write_bytes(b"no chunk")
    fails(zarr, r"is damaged: rows \d+ to \d+ cannot be read")


@pytest.mark.parametrize("damage", [b"", b"no chunk", bytes(1000)])
def test_a_damaged_chunk_of_a_plain_zarr_is_named_when_it_is_read(tmp_path, damage):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    options = {"chunks": (10, 8), "dtype": float, "compressors": None}
    array = module.create_array(tmp_path / "X.zarr", shape=X.shape, **options)
    array[:] = X
    (tmp_path / "X.zarr" / "c" / "3" / "0").write_bytes(damage)
    source = as_source(tmp_path / "X.zarr")
    with pytest.raises(DamagedFileError, match=r"X.zarr' is damaged: rows 30 to 39 cannot be read"):
        source.read(30, 40, np.empty((10, 8)))
    source.prefetch(np.array([5, 34]))  # a hint raises no error
    with pytest.raises(DamagedFileError, match=r"X.zarr' is damaged: rows 34 to 34 cannot be read"):
        source.view(np.array([5, 34]))


def test_a_chunk_of_a_plain_zarr_that_was_never_written_has_the_fill_value(tmp_path):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    options = {"chunks": (10, 8), "dtype": float, "compressors": None, "fill_value": 7}
    array = module.create_array(tmp_path / "X.zarr", shape=X.shape, **options)
    array[:10] = X[:10]
    source = as_source(tmp_path / "X.zarr")
    out = np.empty((10, 8))
    source.read(10, 20, out)
    np.testing.assert_array_equal(out, np.full((10, 8), 7.0))


@pytest.mark.parametrize("options", [{}, {"compressors": None}], ids=["compressed", "plain"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_zarr_that_was_moved_away_does_not_read_as_zeros(tmp_path, options, zarr_format):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    options = {"shape": X.shape, "chunks": (10, 8), "dtype": float, **options}
    module.create_array(tmp_path / "X.zarr", zarr_format=zarr_format, **options)[:] = X
    source = as_source(tmp_path / "X.zarr")
    (tmp_path / "X.zarr").rename(tmp_path / "Y.zarr")
    with pytest.raises(MissingFileError, match=r"X\.zarr.* is no longer there"):
        source.rows(np.arange(5))
    with pytest.raises(MissingFileError, match=r"X\.zarr.* is no longer there"):
        source.read(0, 10, np.empty((10, 8)))


@pytest.mark.parametrize("options", [{}, {"compressors": None}], ids=["compressed", "plain"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_zarr_chunks_that_vanish_are_an_error_and_not_zeros(
    tmp_path, options, zarr_format, transposed
):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    options = {"shape": (70, 8), "chunks": (10, 8), "dtype": float, **options}
    module.create_array(tmp_path / "X.zarr", zarr_format=zarr_format, **options)[:60] = X
    source = open_source(tmp_path / "X.zarr", transposed=transposed)
    everything = np.arange(source.shape[0])
    assert not source.rows(everything)[-1][-1]  # never written: the fill value
    (tmp_path / "X.zarr" / ("c/3/0" if zarr_format == 3 else "3.0")).unlink()
    with pytest.raises(MissingFileError, match=r"X\.zarr.*3.0' is no longer there"):
        source.rows(everything)
    with pytest.raises(MissingFileError, match=r"X\.zarr.*3.0' is no longer there"):
        source.read(0, len(everything), np.empty(source.shape))
    with pytest.raises(MissingFileError, match=r"X\.zarr.*3.0' is no longer there"):
        DictionaryLearning(3, batch_size=4, init="random").fit(source)


def test_zarr_chunks_that_vanish_while_an_image_is_read_are_an_error(tmp_path, monkeypatch):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    module.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(10, 8), dtype=float)[:] = X
    unpacked = files._unpacked

    def unpack_after_a_loss(*args):
        (tmp_path / "X.zarr" / "c/3/0").unlink()
        return unpacked(*args)

    monkeypatch.setattr(files, "_unpacked", unpack_after_a_loss)
    with pytest.raises(MissingFileError, match=r"X\.zarr.*3.0' is no longer there"):
        ImagePatches(tmp_path / "X.zarr", 3)


def test_the_order_of_bytes_of_a_zarr_codec_may_be_a_word(tmp_path, monkeypatch):
    """It is an enumeration up to version 3.3 of the library, and a str from 3.4 on."""
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    options = {"shape": X.shape, "chunks": (10, 8), "dtype": float, "compressors": None}
    array = module.create_array(tmp_path / "X.zarr", **options)
    for endian, is_plain in (("little", True), ("big", False), (None, True)):
        object.__setattr__(array.metadata.codecs[0], "endian", endian)
        assert _is_raw(array) == (is_plain if sys.byteorder == "little" else not is_plain)


def test_a_chunk_that_is_larger_than_what_is_stored_is_refused(zarr):
    metadata = (zarr / "zarr.json").read_text()
    (zarr / "zarr.json").write_text(metadata.replace("10,", "100000000000,", 1))
    assert (zarr / "zarr.json").read_text() != metadata
    fails(zarr, "promises 6,400,000,000,000 bytes")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_fifo_in_the_place_of_a_zarr_chunk_is_not_waited_for(zarr):
    (zarr / "c/3/0").unlink()
    os.mkfifo(zarr / "c/3/0")
    fails(zarr, "c/3/0' is not a regular file")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_links_in_a_zarr_that_lead_in_circles_are_refused(zarr):
    for name in ("a", "b"):  # 2**40 folders, as far as the system follows links
        (zarr / name).symlink_to(zarr, target_is_directory=True)
    fails(zarr, "links in it lead twice to")


def test_a_zarr_that_promises_more_than_it_holds_is_refused(zarr):
    metadata = (zarr / "zarr.json").read_text()
    (zarr / "zarr.json").write_text(metadata.replace("60,", "6000000000000,"))
    fails(zarr, "promises 384,000,000,000,000 bytes")


def test_a_zarr_group_must_hold_one_matrix_unless_a_dataset_is_named(tmp_path):
    module = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    group = module.create_group(tmp_path / "scans.zarr")
    fails(tmp_path / "scans.zarr", "holds no matrix of samples × features", NotAMatrixError)
    for name in ("a", "b"):
        group.create_array(name, shape=(4, 5), dtype=float)[:] = 1
    is_refused(tmp_path / "scans.zarr", "dataset must name one of the datasets .* a, b")
    is_refused(tmp_path / "scans.zarr", "dataset must be one of", dataset="c")
    is_refused(tmp_path / "scans.zarr" / "a", "dataset must not be given", dataset="c")
    assert open_source(tmp_path / "scans.zarr", dataset="b").shape == (4, 5)
