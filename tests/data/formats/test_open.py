"""Paths, and files that are damaged or of another kind than their name says."""

import io
import os
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning, ImagePatches
from somf.data import as_source, open_source
from somf.data.formats.zarr import _is_raw
from somf.data.images import files
from somf.errors import (
    DamagedFileError,
    FileRequestError,
    MissingFileError,
    NotAMatrixError,
    UnknownKindError,
)

X = np.random.default_rng(0).standard_normal((60, 8))


def read(path, **options):
    source = open_source(path, **options)
    for row in range(source.shape[0]):
        source.rows(np.array([row]))


def fails(path, message, error=DamagedFileError, **options):
    """Check that opening, or reading, a file gives an error that names it, and takes no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=message) as caught:
            read(path, **options)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert peak < 50e6
    return True


def is_refused(path, message, **options):
    """Check that an argument that does not fit a file is refused, and the file named."""
    return fails(path, message, FileRequestError, **options)


# Paths instead of data


def test_every_method_takes_a_path(tmp_path):
    np.save(tmp_path / "X.npy", X)
    expected = DictionaryLearning(4, random_state=0).fit(X, validation=X[:9])
    np.save(tmp_path / "test.npy", X[:9])
    path = tmp_path / "X.npy"
    for given in (path, str(path), [path]):
        model = DictionaryLearning(4, random_state=0)
        codes = model.fit_transform(given, validation=tmp_path / "test.npy")
        np.testing.assert_array_equal(codes, expected.transform(X))
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.history_["objective"] == expected.history_["objective"]
        assert model.objective(given) == expected.objective(X) == -model.score(given)
        assert model.stationarity_gap(given) == expected.stationarity_gap(X)
        assert model.n_features_in_ == 8
        model.partial_fit(given)
        assert model.n_samples_seen_ == 120


def test_a_path_with_another_number_of_features_is_refused(tmp_path):
    np.save(tmp_path / "X.npy", X[:, 1:])
    model = DictionaryLearning(4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="7 features, but DictionaryLearning is expecting 8"):
        model.transform(tmp_path / "X.npy")


@pytest.mark.parametrize("path", ["nowhere.npy", "nowhere.h5", "nowhere.zarr", "nowhere/*.npy"])
def test_a_missing_file_is_named(path):
    with pytest.raises(MissingFileError, match=path.replace("*", r"\*")):
        DictionaryLearning(4).fit(path)


def test_no_file_at_all_is_refused():
    with pytest.raises(ValueError, match="path must name at least one file"):
        open_source([])


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match=r"X must have samples, .* got an empty list"):
        DictionaryLearning(4).fit([])


def test_a_name_with_brackets_is_a_name_if_there_is_such_a_file(tmp_path):
    np.save(tmp_path / "X[0].npy", X)
    np.testing.assert_array_equal(as_source(tmp_path / "X[0].npy").rows(np.arange(60)), X)


def test_files_of_different_widths_are_not_stacked(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :5])
    with pytest.raises(ValueError, match=r"b\.npy' must have 8 features like .*a\.npy', got 5"):
        as_source([tmp_path / "a.npy", tmp_path / "b.npy"])


def test_dense_and_sparse_files_are_not_stacked(tmp_path):
    np.save(tmp_path / "a.npy", X)
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(X))
    with pytest.raises(ValueError, match=r"b\.npz' must be dense or sparse like .*a\.npy'"):
        as_source([tmp_path / "a.npy", tmp_path / "b.npz"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("X.bin", "the kind of .bin is not known. Give shape and dtype"),
        ("X", "the kind of a file without an ending is not known"),
        ("X.png", "it is an image. Wrap it: ImagePatches"),
    ],
)
def test_an_unknown_kind_is_refused_with_what_to_do(tmp_path, name, message):
    (tmp_path / name).write_bytes(b"something")
    fails(tmp_path / name, message, UnknownKindError)


def test_the_data_of_an_envi_image_are_refused_with_the_name_of_their_header(tmp_path):
    for name in ("scene.img", "scene.hdr"):
        (tmp_path / name).write_bytes(b"something")
    message = r"Wrap its header: ImagePatches\('.*scene\.hdr'"
    fails(tmp_path / "scene.img", message, UnknownKindError)


def test_arguments_that_do_not_apply_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    X.tofile(tmp_path / "X.raw")
    assert is_refused(tmp_path / "X.npy", "shape must not be given", shape=(60, 8))
    assert is_refused(tmp_path / "X.npy", "dataset must not be given", dataset="X")
    assert is_refused(tmp_path / "X.raw", "shape and dtype must both be given", shape=(60, 8))
    assert is_refused(tmp_path / "X.raw", "shape and dtype must both be given", dtype=float)
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=(60, -8))
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=480)
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=(480,))
    assert is_refused(tmp_path / "X.raw", "two positive integers", dtype=float, shape=(60, 4, 2))
    assert is_refused(tmp_path / "X.raw", "dtype must be .* real", dtype=complex, shape=(60, 4))


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    (tmp_path / "X.h5").write_bytes(b"")
    (tmp_path / "X.zarr").mkdir()
    for module, name, extra in (("h5py", "X.h5", "hdf5"), ("zarr", "X.zarr", "zarr")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"somf\[{extra}\]"):
            open_source(tmp_path / name)


# Damaged and foreign files


def npy(array, header=None):
    """Return the bytes of a .npy file, with another header if one is given."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    if header is None:
        return buffer.getvalue()
    text = (repr(header) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def header(shape, descr="<f8"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a .npy file"),
        (b"no matrix at all", "is not a .npy file"),
        (npy(X)[:100], "is not a .npy file"),
        (npy(X)[:-1], "is not a .npy file"),
        (npy(X, header((10**12, 8))), "is not a .npy file"),
        (npy(X, header((10**30, 8))), "is not a .npy file"),
        (npy(X, header((-1, 8))), "is not a .npy file|cannot be used"),
        (npy(X, header((60, 8), "|O")), "is not a .npy file"),
        (npy(X, header((60,), "<c16")), "must hold a matrix"),
        (npy(X.astype(complex)), "Complex data not supported"),
        (npy(X.astype(str)), "must be numeric"),
        (npy(X[0]), "must hold a matrix of samples × features, got 1D array"),
        (npy(X.reshape(3, 20, 8)), "got 3D array of shape .* If it is an image: ImagePatches"),
        (npy(X[:0]), "is not a .npy file|0 sample"),
        (b"PK\x03\x04" + b"\0" * 50, "is not a .npy file"),
    ],
)
def test_a_damaged_npy_file_is_named(tmp_path, content, message):
    (tmp_path / "X.npy").write_bytes(content)
    fails(tmp_path / "X.npy", message)


def test_an_npy_file_of_objects_is_never_unpickled(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    fails(tmp_path / "X.npy", "is not a .npy file")


@pytest.mark.parametrize("shape", [(61, 8), (59, 8), (10**12, 8)])
def test_a_raw_file_must_have_the_size_that_its_shape_says(tmp_path, shape):
    X.tofile(tmp_path / "X.raw")
    is_refused(tmp_path / "X.raw", "of 3,840 bytes", shape=shape, dtype=float)


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def csr_members(**changes):
    csr = sp.csr_array(X)
    members = {
        "indices": npy(csr.indices),
        "indptr": npy(csr.indptr),
        "data": npy(csr.data),
        "shape": npy(np.array(csr.shape)),
        "format": npy(np.array(b"csr")),
    }
    return members | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": npy(sp.csr_array(X).indices + 3)}, "indices must be < 8|column index"),
        ({"indptr": npy(sp.csr_array(X).indptr[::-1].copy())}, "is not a sparse matrix"),
        ({"indptr": npy(sp.csr_array(X).indptr[:-3])}, "is not a sparse matrix"),
        ({"data": npy(X.ravel(), header((10**11,)))}, "promises more data than there is"),
        ({"data": npy(np.array([{}], dtype=object), None)[:90]}, "is not a sparse matrix"),
        ({"format": npy(np.array(b"csc"))}, "must hold a CSR matrix, got CSC|is not a sparse"),
        ({"format": npy(np.array(b"xyz"))}, "is not a sparse matrix"),
        ({"shape": npy(np.array([60]))}, "is not a sparse matrix"),
        ({"data": npy(sp.csr_array(X).data.astype(complex))}, "Complex data"),
        ({"data": npy(np.zeros(10**7))}, "promises .* bytes of data|is not a sparse matrix"),
    ],
)
def test_a_damaged_npz_file_is_named(tmp_path, changes, message):
    npz(tmp_path / "X.npz", **csr_members(**changes))
    with pytest.raises(DamagedFileError, match=message) as caught:
        open_source(tmp_path / "X.npz")
    assert "X.npz" in str(caught.value)


def test_more_columns_than_the_file_could_hold_are_refused(tmp_path):
    npz(tmp_path / "X.npz", **csr_members(shape=npy(np.array([60, 22_000_000]))))
    fails(tmp_path / "X.npz", "promises 176,000,000 bytes")
    fails(tmp_path / "X.npz", "promises 176,000,000 bytes", transposed=True)


def test_a_small_npz_file_that_fills_the_memory_is_refused(tmp_path):
    zeros = npy(np.zeros(0), header((2**26,))) + bytes(2**29)  # 500 kB as Deflate stores them
    npz(tmp_path / "X.npz", **csr_members(data=zeros))
    del zeros
    fails(tmp_path / "X.npz", "would be read into memory, .* save it with compressed=False")


def test_an_archive_whose_members_overlap_is_refused(tmp_path):
    """Each of its members claims the same compressed bytes, so that their sizes add up."""
    zeros = npy(np.zeros(0), header((2**22,))) + bytes(2**25)
    npz(tmp_path / "X.npz", **csr_members(data=zeros))
    with zipfile.ZipFile(tmp_path / "X.npz", "a") as archive:
        (member,) = (m for m in archive.infolist() if m.filename == "data.npy")
        archive.filelist += [member] * 20
        archive._didModify = True
    fails(tmp_path / "X.npz", "would be read into memory")


def test_a_truncated_or_foreign_npz_file_is_named(tmp_path):
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    content = (tmp_path / "X.npz").read_bytes()
    for part in (b"", content[:-10], content[:200], b"no matrix"):
        (tmp_path / "X.npz").write_bytes(part)
        fails(tmp_path / "X.npz", "is not a sparse matrix")
    np.savez(tmp_path / "X.npz", X=X)
    fails(tmp_path / "X.npz", "is not a sparse matrix")


@pytest.fixture
def hdf5(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")

    def write(**datasets):
        with h5py.File(tmp_path / "X.h5", "w") as file:
            for name, (data, options) in datasets.items():
                file.create_dataset(name, data=data, **options)
        return tmp_path / "X.h5"

    return write


@pytest.mark.parametrize("options", [{}, {"chunks": (10, 8)}], ids=["one piece", "chunks"])
def test_a_truncated_or_foreign_hdf5_file_is_named(hdf5, options):
    path = hdf5(X=(X, options))
    content = path.read_bytes()
    for part in (b"", content[:-100], content[:200], b"no matrix"):
        path.write_bytes(part)
        fails(path, "is not an HDF5 file")


def test_a_damaged_chunk_of_an_hdf5_file_is_named_when_it_is_read(hdf5):
    path = hdf5(X=(X, {"chunks": (10, 8), "fletcher32": True}))
    content = bytearray(path.read_bytes())
    content[-100] ^= 255
    path.write_bytes(content)
    fails(path, r"is damaged: rows \d+ to \d+ cannot be read")


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["plain", "compressed"])
def test_an_hdf5_file_that_has_become_shorter_does_not_read_as_zeros(hdf5, options):
    path = hdf5(X=(np.random.default_rng(0).random((60, 800)), {"chunks": (10, 800)} | options))
    source = open_source(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedFileError, match=r"X.h5' is damaged: rows \d+ to \d+ cannot be read"):
        source.rows(np.arange(60))
    with pytest.raises(DamagedFileError, match=r"X.h5' is damaged: rows \d+ to \d+ cannot be read"):
        source.view(np.arange(60))


def test_an_hdf5_dataset_must_be_a_matrix_and_be_named_if_there_are_several(hdf5):
    path = hdf5(cube=(np.ones((3, 4, 5)), {}), line=(np.ones(5), {}))
    fails(path, "holds no matrix of samples × features.* ImagePatches", NotAMatrixError)
    message = "'cube' in .* must hold a matrix .* got 3D array .* ImagePatches"
    fails(path, message, NotAMatrixError, dataset="cube")
    fails(path, "'line' in .* got 1D array", NotAMatrixError, dataset="line")
    is_refused(path, "dataset must be one of", dataset="nothing")
    path = hdf5(a=(X, {}), b=(X, {}))
    is_refused(path, "dataset must name one of the datasets .* a, b")
    fails(hdf5(X=(X.astype(complex), {})), "Complex data", dataset="X")


def test_an_hdf5_file_that_promises_more_than_it_holds_is_refused(hdf5):
    empty = {"shape": (10**9, 10**6), "chunks": (1000, 1000), "dtype": "f4"}
    fails(hdf5(X=(None, empty)), "promises 4,000,000,000,000,000 bytes")


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


def test_an_error_of_a_users_object_is_left_as_it_is():
    class Broken:
        shape, dtype = (300, 60), np.dtype(float)

        def __getitem__(self, rows):
            raise KeyError("no such rows")

    with pytest.raises(KeyError, match="no such rows"):
        DictionaryLearning(4).fit(Broken())
