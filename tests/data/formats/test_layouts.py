"""Whatever the layout, rows are those that h5py, Zarr or NumPy itself would return."""

import tempfile
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from somf.data import open_source

TYPES = ["<f4", ">f4", "<f8", ">f8", "<f2", "<i2", ">i2", "<u4", "|u1", "|i1", ">i8", "|b1"]

some = settings(max_examples=20, deadline=None)


@st.composite
def matrices(draw):
    """Return a matrix of any type, with entries that differ wherever the type allows it."""
    n, p = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    numbers = np.arange(1, n * p + 1).reshape(n, p)
    return (numbers if draw(st.booleans()) else numbers[::-1] % 7).astype(
        draw(st.sampled_from(TYPES))
    )


def check_rows(draw, expected, path, **options):
    """Compare all methods that read with a matrix, in either orientation."""
    for transposed in (False, True):
        X = expected.T if transposed else expected
        source = open_source(path, transposed=transposed, **options)
        assert source.shape == X.shape
        assert source.dtype == X.dtype
        ids = np.array(draw(st.lists(st.integers(0, len(X) - 1), max_size=9)), dtype=np.int64)
        np.testing.assert_array_equal(source.rows(ids), X[ids], strict=True)
        found, positions = source.view(ids)
        np.testing.assert_array_equal(found[positions], X[ids])
        start = draw(st.integers(0, len(X) - 1))
        stop = draw(st.integers(start + 1, len(X)))
        out = np.empty((stop - start, X.shape[1]), X.dtype)
        source.read(start, stop, out)
        np.testing.assert_array_equal(out, X[start:stop])


# HDF5


def chunk_shapes(draw, shape):
    widths = st.one_of(st.just(shape[1]), st.integers(1, shape[1]))  # whole rows are read directly
    return draw(st.integers(1, shape[0])), draw(widths)


LAYOUTS = ["one piece", "chunks", "compressed", "compact", "external"]


def write_dataset(draw, layout, folder, file, name, X):
    """Write a dataset, or only a part of it."""
    import h5py

    options = {"fillvalue": X.dtype.type(draw(st.integers(0, 1)))}
    if layout in ("chunks", "compressed"):
        options["chunks"] = chunk_shapes(draw, X.shape)
    if layout == "compressed":
        options |= {"compression": "gzip", "shuffle": draw(st.booleans())}
    if layout == "external":
        cut = draw(st.integers(0, X.nbytes))
        raw = [(str(folder / "1.raw"), 5, cut), (str(folder / "2.raw"), 0, h5py.h5f.UNLIMITED)]
        options["external"] = raw[cut == 0 :]
    if layout == "compact":
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        kind = h5py.h5t.py_create(X.dtype, logical=True)
        space = h5py.h5s.create_simple(X.shape)
        dataset = h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, plist))
    else:
        dataset = file.create_dataset(name, X.shape, X.dtype, **options)
    written = len(X) if layout == "external" else draw(st.integers(1, len(X)))
    dataset[:written] = X[:written]


def write_virtual(draw, folder, file, X):
    """Write the pieces of a virtual dataset, and leave out some."""
    import h5py

    layout = h5py.VirtualLayout(X.shape, X.dtype)
    cuts = sorted({0, len(X), *draw(st.lists(st.integers(0, len(X)), max_size=3))})
    pieces = list(pairwise(cuts))
    left_out = draw(st.integers(1, len(pieces)))  # the last one is never left out
    for number, (start, stop) in enumerate(pieces, 1):
        if number == left_out and number < len(pieces):
            continue
        rows = slice(start, stop)
        if draw(st.booleans()):  # a part of a larger dataset
            larger = np.concatenate([X[rows], X[rows]])
            source = h5py.VirtualSource(f"{number}.h5", "piece", larger.shape, X.dtype)
            layout[rows] = source[stop - start :]
        else:
            larger = X[rows]
            layout[rows] = h5py.VirtualSource(f"{number}.h5", "piece", larger.shape, X.dtype)
        with h5py.File(folder / f"{number}.h5", "w") as other:
            other["piece"] = larger
    file.create_virtual_dataset("X", layout, fillvalue=X.dtype.type(1))


@pytest.mark.parametrize(
    ("place", "layout"),
    [
        ("virtual", "several files"),
        *product(["file", "soft link", "external link"], LAYOUTS),
    ],
)
@some
@given(data=st.data())
def test_rows_of_an_hdf5_file_are_those_of_h5py(place, layout, data):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    X = data.draw(matrices())
    version = data.draw(st.sampled_from(["earliest", "latest"]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with h5py.File(folder / "X.h5", "w", libver=version) as file:
            file["decoy"] = np.full(10_000, 77.0)
            if place == "virtual":
                write_virtual(data.draw, folder, file, X)
            elif place == "external link":
                with h5py.File(folder / "other.h5", "w", libver=version) as other:
                    write_dataset(data.draw, layout, folder, other, "Y", X)
                file["X"] = h5py.ExternalLink("other.h5", "Y")
            elif place == "soft link":
                write_dataset(data.draw, layout, folder, file.create_group("group"), "Y", X)
                file["X"] = h5py.SoftLink("/group/Y")
            else:
                write_dataset(data.draw, layout, folder, file, "X", X)
        with h5py.File(folder / "X.h5", "r") as file:
            expected = file["X"][()]
        check_rows(data.draw, expected, folder / "X.h5", dataset="X", allow_external=True)


# Zarr


@pytest.mark.parametrize("layout", ["C", "F", "shards", "big-endian"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@some
@given(data=st.data())
def test_rows_of_a_zarr_array_are_those_of_zarr(zarr_format, layout, data):
    zarr = pytest.importorskip("zarr", minversion="3.0.8", reason="Zarr needs somf[zarr]")
    X, draw = data.draw(matrices()), data.draw
    chunks, separator = chunk_shapes(draw, X.shape), draw(st.sampled_from("./"))
    options = {"fill_value": X.dtype.type(draw(st.integers(0, 1))), "chunks": chunks}
    if draw(st.booleans()):
        options["compressors"] = None
    if zarr_format == 2:
        options["chunk_key_encoding"] = {"name": "v2", "separator": separator}
        options["order"] = "F" if layout == "F" else "C"
        X = X.astype(X.dtype.newbyteorder(">")) if layout == "big-endian" else X
    else:
        options["chunk_key_encoding"] = {"name": "default", "separator": separator}
        X = X.astype(X.dtype.newbyteorder("="))  # the order of bytes belongs to the codec
        if layout == "F":
            options["filters"] = [zarr.codecs.TransposeCodec(order=(1, 0))]
        elif layout == "shards":
            options["shards"] = (2 * chunks[0], chunks[1])
        elif layout == "big-endian":
            options["serializer"] = zarr.codecs.BytesCodec(endian="big")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "X.zarr"
        array = zarr.create_array(
            path, shape=X.shape, dtype=X.dtype, zarr_format=zarr_format, **options
        )
        written = draw(st.integers(1, len(X)))
        array[:written] = X[:written]
        check_rows(draw, zarr.open_array(path, mode="r")[:], path)


# NumPy


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_rows_of_an_npy_or_raw_file_are_those_of_numpy(data):
    X = data.draw(matrices())
    order = data.draw(st.sampled_from("CF"))
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "X.npy", np.asarray(X, order=order))
        check_rows(data.draw, np.load(Path(name) / "X.npy"), Path(name) / "X.npy")
        X.tofile(Path(name) / "X.raw")
        check_rows(data.draw, X, Path(name) / "X.raw", shape=X.shape, dtype=X.dtype)
