"""Kinds of files are told by their content, and by the ending only where content cannot tell."""

import gzip
import os

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from somf.data import open_source
from somf.data.formats.kinds import Kind, readable_kinds, recognise
from somf.data.formats.readers import READERS
from somf.errors import UnknownKindError
from tests.helpers.files import fails

NIFTI = (348).to_bytes(4, "little") + bytes(340) + b"n+1\0"


CONTENTS = [
    (b"\x93NUMPY\x01\x00", Kind.NPY),
    (b"PK\x03\x04", Kind.NPZ),
    (b"PAR1", Kind.PARQUET),
    (b"ARROW1\0\0", Kind.ARROW),
    (b"\x89HDF\r\n\x1a\n", Kind.HDF5),
    (bytes(2048) + b"\x89HDF\r\n\x1a\n", Kind.HDF5),
    (b"MATLAB 7.3".ljust(512) + b"\x89HDF\r\n\x1a\n", Kind.MATLAB_73),
    (b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM", Kind.MATLAB),
    (b"CDF\x02", Kind.NETCDF),
    (b"%%MatrixMarket matrix", Kind.MATRIX_MARKET),
    (gzip.compress(b"%%MatrixMarket matrix"), Kind.MATRIX_MARKET),
    (NIFTI, Kind.NIFTI),
    (gzip.compress(NIFTI), Kind.NIFTI),
    (b"\x89PNG\r\n\x1a\n", Kind.IMAGE),
    (b"ENVI\nsamples = 3", Kind.IMAGE),
    ((100).to_bytes(8, "little") + b'{"__metadata__"', Kind.MODEL),
    (b"1,2\n3,4\n", None),
    (gzip.compress(b"1,2\n"), None),
    (b"\x1f\x8b", None),
    (b"", None),
]


@pytest.mark.parametrize(("content", "kind"), CONTENTS, ids=range(len(CONTENTS)))
def test_the_content_of_a_file_tells_its_kind(tmp_path, content, kind):
    for name in ("X", "X.csv"):
        (tmp_path / name).write_bytes(content)
    assert recognise(str(tmp_path / "X")) is kind
    assert recognise(str(tmp_path / "X.csv")) is (kind or Kind.TEXT)


def test_a_file_is_opened_whatever_its_name_says(tmp_path):
    X = np.random.default_rng(0).random((6, 4))
    np.save(tmp_path / "a.npy", X)
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(X))
    scipy.io.savemat(tmp_path / "c.mat", {"X": X})
    for name in ("a.npy", "b.npz", "c.mat"):
        os.rename(tmp_path / name, tmp_path / "X.parquet")
        rows = open_source(tmp_path / "X.parquet").rows(np.arange(6))
        np.testing.assert_array_equal(rows.toarray() if sp.issparse(rows) else rows, X)


def test_every_kind_that_may_hold_a_matrix_has_a_reader_and_is_listed():
    assert set(READERS) == {kind for kind in Kind if kind.holds_matrix}
    for kind in READERS:
        assert not kind.endings or f"{kind.label} (" in readable_kinds()


def test_a_model_is_not_data(tmp_path):
    (tmp_path / "X.npy").write_bytes((100).to_bytes(8, "little") + b'{"__metadata__"')
    fails(tmp_path / "X.npy", "it is a model or checkpoint of somf, not data", UnknownKindError)


def test_raw_numbers_may_begin_like_another_kind(tmp_path):
    (tmp_path / "X.raw").write_bytes(b"PAR1" + bytes(12))
    source = open_source(tmp_path / "X.raw", shape=(4, 4), dtype="uint8")
    assert source.rows(np.array([0]))[0].tolist() == list(b"PAR1")


@pytest.mark.parametrize("name", ["X.npy.gz", "X.npy", "X.gz"])
def test_a_file_that_gzip_may_not_compress_is_to_be_decompressed(tmp_path, name):
    np.save(tmp_path / "plain.npy", np.ones((3, 2)))
    (tmp_path / name).write_bytes(gzip.compress((tmp_path / "plain.npy").read_bytes()))
    with pytest.raises(UnknownKindError, match=r"compressed by gzip: only tables .* gunzip -k"):
        open_source(tmp_path / name)


def test_raw_numbers_may_begin_as_what_gzip_writes(tmp_path):
    (tmp_path / "X.raw").write_bytes(b"\x1f\x8b" + bytes(14))
    source = open_source(tmp_path / "X.raw", shape=(2, 4), dtype="uint16")
    assert source.rows(np.arange(2))[0, 0] == 0x8B1F
