"""Where codes go."""

import errno
import os
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import as_source


@pytest.fixture(scope="module")
def model(toy):
    return DictionaryLearning(5, alpha=0.2, random_state=0).fit(toy)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 60 * 70)


def test_codes_go_into_a_given_array(model, toy, tmp_path):
    expected = model.transform(toy)
    mapped = np.lib.format.open_memmap(tmp_path / "codes.npy", "w+", float, (300, 5))
    for out in (np.empty((300, 5)), mapped, np.empty((300, 5), order="F")):
        assert model.transform(toy, out) is out
        np.testing.assert_array_equal(out, expected)
    single = model.transform(toy, out=np.empty((300, 5), dtype=np.float32))
    np.testing.assert_array_equal(single, expected.astype(np.float32))


def test_codes_go_into_a_file(model, toy, tmp_path):
    expected = model.transform(toy)
    for path in (tmp_path / "codes.npy", str(tmp_path / "again.npy")):
        codes = model.transform(toy, path)
        assert isinstance(codes, np.memmap)
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(np.load(path), expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.npy", "codes.npy"]


@pytest.mark.parametrize("name", ["codes.npy", "codes.zarr", "codes.npz"])
def test_what_exists_is_never_replaced(model, toy, tmp_path, name):
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(FileExistsError, match=rf"out must not exist yet, got .*{name}"):
        model.transform(toy, tmp_path / name, sparse=name.endswith("npz"))
    assert (tmp_path / name).read_bytes() == b"old"


def test_the_samples_are_not_overwritten_by_their_codes(model, toy, tmp_path):
    np.save(tmp_path / "X.npy", toy)
    with pytest.raises(FileExistsError, match="out must not exist yet"):
        model.transform(tmp_path / "X.npy", tmp_path / "X.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), toy)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room cannot be taken in advance")
def test_a_full_disk_is_an_error_that_names_the_file_and_its_size(
    model, toy, tmp_path, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"needs 12,000 bytes.*No space left.*codes\.npy") as caught:
        model.transform(toy, tmp_path / "codes.npy")
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_codes_go_into_a_zarr_array(model, toy, tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    expected = model.transform(toy)
    codes = model.transform(toy, tmp_path / "codes.zarr")
    assert isinstance(codes, zarr.Array)
    np.testing.assert_array_equal(codes[:], expected)
    np.testing.assert_array_equal(as_source(tmp_path / "codes.zarr").rows(np.arange(300)), expected)
    assert [p.name for p in tmp_path.iterdir()] == ["codes.zarr"]
    array = zarr.create_array(tmp_path / "more.zarr", shape=(300, 5), dtype=float)
    assert model.transform(toy, array) is array
    np.testing.assert_array_equal(array[:], expected)


def test_sparse_codes_are_the_dense_ones(model, toy, tmp_path):
    expected = model.transform(toy)
    codes = model.transform(toy, sparse=True)
    assert isinstance(codes, sp.csr_array)
    assert codes.nnz == np.count_nonzero(expected) < expected.size
    np.testing.assert_array_equal(codes.toarray(), expected)
    again = model.transform(toy, tmp_path / "codes.npz", sparse=True)
    np.testing.assert_array_equal(again.toarray(), expected)
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "codes.npz").toarray(), expected)
    np.testing.assert_allclose(model.inverse_transform(codes), model.inverse_transform(expected))


@pytest.mark.parametrize(
    ("out", "sparse", "message"),
    [
        (np.empty((299, 5)), False, r"out must be a floating array of shape \(300, 5\)"),
        (np.empty((300, 5), dtype=int), False, "out must be a floating array"),
        (np.empty((300, 5), dtype=np.float16), False, "float32 or float64, got float16"),
        (np.broadcast_to(0.0, (300, 5)), False, "out must be writeable"),
        ([[1.0]], False, "out must be a floating array"),
        ("codes.csv", False, r"out must be a file of kind .npy or .zarr for dense codes"),
        ("codes.npz", False, r"out must be a file of kind .npy or .zarr for dense codes"),
        ("codes.npy", True, r"out must be a file of kind .npz for sparse codes"),
        (np.empty((300, 5)), True, "out must be None or a .npz file for sparse codes"),
    ],
)
def test_what_codes_do_not_fit_into_is_refused(model, toy, out, sparse, message):
    with pytest.raises(ValueError, match=message):
        model.transform(toy, out, sparse=sparse)


@pytest.mark.parametrize("name", ["codes.npy", "codes.zarr", "codes.npz"])
def test_a_transform_that_fails_leaves_no_file(model, toy, tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    X = toy.copy()
    X[250, 3] = np.nan
    with pytest.raises(ValueError, match="got NaN in row 250"):
        model.transform(X, tmp_path / name, sparse=name.endswith("npz"))
    assert not list(tmp_path.iterdir())


def test_verbose_shows_a_progress_bar(model, toy, capsys):
    pytest.importorskip("rich", reason="the progress bar needs somf[progress]")
    noisy = DictionaryLearning(5, verbose=1, random_state=0).fit(toy)
    capsys.readouterr()
    noisy.transform(toy)
    assert "300/300 samples" in capsys.readouterr().err


def test_set_output_works_with_a_path(model, toy, tmp_path):
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "X.npy", toy)
    framed = DictionaryLearning(5, alpha=0.2, random_state=0).set_output(transform="pandas")
    codes = framed.fit_transform(tmp_path / "X.npy")
    assert isinstance(codes, pandas.DataFrame)
    np.testing.assert_array_equal(codes.to_numpy(), model.transform(toy))


def test_codes_are_computed_in_chunks_that_count_atoms_too(toy):
    model = DictionaryLearning(100, random_state=0).fit(toy[:, :5])
    with model._coding(as_source(toy[:, :5]), 1e-6) as (_, chunks):
        sizes = [len(chunk.code) for chunk in chunks]
    assert max(sizes) * 100 <= 60 * 70


@pytest.mark.parametrize("options", [{"out": "codes.npy"}, {"sparse": True}], ids=["file", "CSR"])
def test_codes_are_never_all_held_in_memory(toy, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    X = np.broadcast_to(toy[:, None], (300, 60, 60)).reshape(-1, 60)
    model = DictionaryLearning(100, alpha=0.8, random_state=0).fit(toy)
    model.transform(toy)  # compile
    tracemalloc.start()
    codes = model.transform(X, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert codes.shape == (18_000, 100)
    assert peak < 18_000 * 100 * 8 / 4
