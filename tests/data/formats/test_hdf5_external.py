"""HDF5 datasets whose numbers are in other files."""

import os
import sys

import numpy as np
import pytest

from somf import DictionaryLearning, ImagePatches
from somf.data import open_source
from somf.errors import DamagedFileError, FileRequestError, MissingFileError, UnknownKindError

h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")

X = np.random.default_rng(0).standard_normal((40, 6))


@pytest.fixture
def folder(tmp_path):
    """Return a folder of a file that links to another one, in all ways that HDF5 has."""
    for number in range(4):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["piece"] = X[10 * number : 10 * number + 10]
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["group/X"] = X
    X.tofile(tmp_path / "X.raw")
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    for number in range(4):
        source = h5py.VirtualSource(f"{number}.h5", "piece", (10, 6))
        layout[10 * number : 10 * number + 10] = source
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["decoy"] = np.zeros(5000)
        file["link"] = h5py.ExternalLink("other.h5", "group/X")
        file["group"] = h5py.ExternalLink("other.h5", "group")
        file["soft"] = h5py.SoftLink("/link")
        raw = [(os.fspath(tmp_path / "X.raw"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("raw", X.shape, X.dtype, external=raw)
        file.create_virtual_dataset("virtual", layout, fillvalue=0)
    return tmp_path


NAMES = ["link", "group/X", "soft", "raw", "virtual"]


@pytest.mark.parametrize("name", NAMES)
def test_data_in_another_file_is_refused_unless_it_is_allowed(folder, name):
    path = folder / "X.h5"
    with pytest.raises(FileRequestError, match=r"allow_external=True") as caught:
        open_source(path, dataset=name)
    assert caught.value.name == "allow_external"
    assert caught.value.path == os.fspath(path)
    source = open_source(path, dataset=name, allow_external=True)
    np.testing.assert_array_equal(source.rows(np.arange(40)), X)
    assert not isinstance(getattr(source, "X", None), np.memmap)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_in_another_file_is_refused_unless_it_is_allowed(folder, name):
    with pytest.raises(FileRequestError, match=r"allow_external=True"):
        ImagePatches(folder / "X.h5", 3, dataset=name)
    patches = ImagePatches(
        folder / "X.h5", (1, 6), dataset=name, center=False, scale=False, allow_external=True
    )
    np.testing.assert_array_equal(patches.rows(np.arange(40)), X)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
@pytest.mark.parametrize("name", ["link", "raw", "virtual"])
def test_the_other_file_is_not_opened_before_it_is_allowed(folder, name):
    for other in ("other.h5", "X.raw", "0.h5"):
        (folder / other).unlink()
        os.mkfifo(folder / other)  # to open it would wait for a writer
    with pytest.raises(FileRequestError, match=r"allow_external=True"):
        open_source(folder / "X.h5", dataset=name)


def test_a_file_whose_only_matrix_is_in_other_files_says_how_to_read_it(folder):
    with h5py.File(folder / "X.h5", "a") as file:
        del file["raw"]
    with pytest.raises(FileRequestError, match=r"'virtual' in .*X\.h5', which is in another file"):
        DictionaryLearning(3).fit(folder / "X.h5")


def test_a_virtual_dataset_of_its_own_file_needs_no_permission(tmp_path):
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(".", "stored/X", X.shape)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["stored/X"] = X
        file.create_virtual_dataset("virtual", layout)
    source = open_source(tmp_path / "X.h5", dataset="virtual")
    np.testing.assert_array_equal(source.rows(np.arange(40)), X)


@pytest.mark.parametrize("allow_external", [False, True])
@pytest.mark.parametrize("through", ["direct", "group/X", "soft"])
def test_a_virtual_dataset_does_not_lead_through_links_to_other_files(
    tmp_path, through, allow_external
):
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(".", through, X.shape)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["stored/X"] = X
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["direct"] = h5py.ExternalLink("other.h5", "stored/X")
        file["group"] = h5py.ExternalLink("other.h5", "stored")
        file["soft"] = h5py.SoftLink("/direct")
        file.create_virtual_dataset("virtual", layout)
    with pytest.raises(UnknownKindError, match="is a link, and not stored in one file"):
        open_source(tmp_path / "X.h5", dataset="virtual", allow_external=allow_external)


@pytest.mark.parametrize(
    ("name", "other"), [("link", "other.h5"), ("raw", "X.raw"), ("virtual", "2.h5")]
)
def test_another_file_that_is_gone_is_an_error_when_a_dataset_is_opened(folder, name, other):
    (folder / other).unlink()
    with pytest.raises(MissingFileError, match=other):
        open_source(folder / "X.h5", dataset=name, allow_external=True)


@pytest.mark.parametrize(("name", "other"), [("raw", "X.raw"), ("virtual", "2.h5")])
@pytest.mark.parametrize("transposed", [False, True])
def test_another_file_that_goes_away_during_a_fit_is_an_error(folder, name, other, transposed):
    options = {"dataset": name, "allow_external": True, "transposed": transposed}
    source = open_source(folder / "X.h5", **options)
    (folder / other).unlink()
    every = np.arange(source.shape[0])
    with pytest.raises(MissingFileError, match=other):
        source.rows(every)
    with pytest.raises(MissingFileError, match=other):
        source.read(0, len(every), np.empty(source.shape))
    with pytest.raises(MissingFileError, match=other):
        DictionaryLearning(3, batch_size=4).fit(source)


def test_another_file_that_is_too_short_is_not_read_as_zeros(folder):
    path, options = folder / "X.h5", {"allow_external": True}
    source = open_source(path, dataset="raw", **options)
    os.truncate(folder / "X.raw", X.nbytes - 8)
    with pytest.raises(DamagedFileError, match=r"X\.raw' is damaged: it has 1,912 of 1,920 bytes"):
        source.rows(np.arange(40))
    with pytest.raises(DamagedFileError, match=r"X\.raw' is damaged"):
        open_source(path, dataset="raw", **options)
    with h5py.File(folder / "1.h5", "w") as file:
        file["piece"] = X[:9]
    with pytest.raises(DamagedFileError, match=r"1\.h5' does not hold .* shape \(9, 6\)"):
        open_source(path, dataset="virtual", **options)


def test_a_source_without_the_dataset_or_of_another_kind_is_an_error(folder):
    for content, error in ((None, MissingFileError), (b"no file of HDF5", DamagedFileError)):
        if content is None:
            h5py.File(folder / "3.h5", "w").close()
        else:
            (folder / "3.h5").write_bytes(content)
        with pytest.raises(error, match=r"3\.h5"):
            open_source(folder / "X.h5", dataset="virtual", allow_external=True)


def test_virtual_datasets_of_which_hdf5_does_not_tell_what_is_there_are_refused(folder):
    with h5py.File(folder / "X.h5", "w") as file:
        space = h5py.h5s.create_simple((40, 6), (h5py.h5s.UNLIMITED, 6))
        space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (10, 6), (10, 6))
        piece = h5py.h5s.create_simple((10, 6))
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_virtual(space, b"%b.h5", b"piece", piece)
        kind = h5py.h5t.py_create(np.dtype(float))
        h5py.h5d.create(file.id, b"pattern", kind, space, layout)
        inner = h5py.VirtualLayout((10, 6), float)
        inner[:] = h5py.VirtualSource("0.h5", "piece", (10, 6))
        file.create_virtual_dataset("inner", inner)
        outer = h5py.VirtualLayout((10, 6), float)
        outer[:] = h5py.VirtualSource(".", "inner", (10, 6))
        file.create_virtual_dataset("outer", outer)
    for name in ("pattern", "outer"):
        with pytest.raises(UnknownKindError, match="Open the files with its parts instead"):
            open_source(folder / "X.h5", dataset=name, allow_external=True)


def test_a_virtual_dataset_cannot_promise_more_than_its_sources_hold(folder):
    layout = h5py.VirtualLayout((10**9, 10**3), float)
    layout[:10, :6] = h5py.VirtualSource("0.h5", "piece", (10, 6))
    with h5py.File(folder / "X.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
    with pytest.raises(DamagedFileError, match=r"promises 8,000,000,000,000 bytes .* 480 are"):
        open_source(folder / "X.h5", dataset="X", allow_external=True)


def test_links_that_lead_to_one_another_are_refused(tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = X
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")
        file["dangling"] = h5py.SoftLink("/nothing/at/all")
    with pytest.raises(DamagedFileError, match="its links lead nowhere"):
        open_source(tmp_path / "X.h5", dataset="a")
    for name in ("dangling", "X/inside"):
        with pytest.raises(FileRequestError, match="dataset must be one of"):
            open_source(tmp_path / "X.h5", dataset=name)


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_a_virtual_dataset_of_many_files_keeps_few_of_them_open(tmp_path, monkeypatch):
    monkeypatch.setattr("somf.data.formats.hdf5_external.MOST_SOURCES_OPEN", 5)
    layout = h5py.VirtualLayout((30, 6), float)
    for number in range(30):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["piece"] = X[number]
        layout[number] = h5py.VirtualSource(f"{number}.h5", "piece", (6,))
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
    source = open_source(tmp_path / "X.h5", allow_external=True)
    n_open = len(os.listdir("/proc/self/fd"))
    for row in range(30):
        np.testing.assert_array_equal(source.rows(np.array([row]))[0], X[row])
        assert len(os.listdir("/proc/self/fd")) <= n_open + 6


def test_a_link_to_the_only_matrix_needs_a_permission_but_no_name(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = X
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "X")
        file["group"] = h5py.ExternalLink("other.h5", "/")
        file["wavelengths"] = np.arange(6.0)
    source = open_source(tmp_path / "X.h5", allow_external=True)
    np.testing.assert_array_equal(source.rows(np.arange(40)), X)
    with h5py.File(tmp_path / "X.h5", "a") as file:
        del file["group"]
    with pytest.raises(FileRequestError, match="allow_external must be True to read 'link'"):
        open_source(tmp_path / "X.h5")


def test_a_link_is_not_opened_if_the_file_itself_has_a_matrix(tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = X
        file["link"] = h5py.ExternalLink("nowhere.h5", "X")
    np.testing.assert_array_equal(open_source(tmp_path / "X.h5").rows(np.arange(40)), X)


def test_packed_numbers_in_other_files_are_refused_and_not_read_as_they_are(folder):
    layout = h5py.VirtualLayout((10, 6), float)
    layout[:] = h5py.VirtualSource("0.h5", "piece", (10, 6))
    with h5py.File(folder / "packed.nc", "w") as file:
        file.create_virtual_dataset("X", layout).attrs["scale_factor"] = 0.5
    with pytest.raises(UnknownKindError, match=r"packed numbers .* must be in the file itself"):
        open_source(folder / "packed.nc", allow_external=True)
