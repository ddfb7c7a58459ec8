"""Files of arrays: what is written comes back, what is broken is refused."""

import contextlib
import json
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from somf.persistence import tensorfile


def example():
    rng = np.random.default_rng(0)
    return {
        "a": rng.standard_normal((3, 4)).astype(np.float32),
        "b": rng.standard_normal((2, 0, 5)),
        "c": np.arange(7),
        "transposed": rng.standard_normal((5, 2)).T,
    }


def test_arrays_and_text_come_back(tmp_path):
    tensorfile.write(tmp_path / "file", example(), "some text: é")
    tensors, text = tensorfile.read(tmp_path / "file")
    assert text == "some text: é"
    assert list(tensors) == list(example())
    for name, expected in example().items():
        np.testing.assert_array_equal(tensors[name], expected)
        assert tensors[name].dtype == expected.dtype


def test_the_safetensors_library_reads_the_same(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    tensorfile.write(tmp_path / "file", example(), "text")
    for name, tensor in safetensors.load_file(tmp_path / "file").items():
        np.testing.assert_array_equal(tensor, example()[name])


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    tensorfile.write(path, {"a": np.ones(3)}, "old")

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        tensorfile.write(path, {"a": np.zeros(3)}, "new")
    assert os.listdir(tmp_path) == ["file"]
    assert tensorfile.read(path)[1] == "old"


def test_arrays_are_written_and_read_without_a_second_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorfile, "PIECE", 2**16)
    array = np.random.default_rng(0).standard_normal((4000, 250))
    some = np.arange(0, 4000, 2)
    tensors = {
        "plain": array,
        "transposed": array.T,
        "big-endian": array.astype(">f8"),
        "rows": tensorfile.Rows(array, some),
    }
    tracemalloc.start()
    try:
        tensorfile.write(tmp_path / "file", tensors, "")
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 8
        read = tensorfile.read(tmp_path / "file", lambda name, shape, dtype: np.empty(shape, dtype))
        assert tracemalloc.get_traced_memory()[1] < 3.7 * array.nbytes
    finally:
        tracemalloc.stop()
    for name in tensors:
        expected = {"transposed": array.T, "rows": array[some]}.get(name, array)
        np.testing.assert_array_equal(read[0][name], expected)


def test_the_file_that_is_replaced_may_be_kept(tmp_path):
    for text in ("one", "two", "three"):
        tensorfile.write(tmp_path / "file", {}, text, tmp_path / "before")
    assert sorted(os.listdir(tmp_path)) == ["before", "file"]
    assert tensorfile.read(tmp_path / "file")[1] == "three"
    assert tensorfile.read_text(tmp_path / "before") == "two"


def test_a_file_without_a_checksum_is_read_only_if_its_text_allows_it(tmp_path):
    header = META | {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}
    path = raw(tmp_path, header, np.float64(2.5).tobytes())
    tensors, _ = tensorfile.read(path, may_lack_checksum=lambda text: text == "")
    assert tensors["a"] == [2.5]
    for may_lack in (None, lambda text: text == "first format"):
        with pytest.raises(tensorfile.DamagedFileError, match="it has no checksum"):
            tensorfile.read(path, may_lack_checksum=may_lack)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_fifo_is_refused_by_name_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (tensorfile.read, tensorfile.read_text):
        with pytest.raises(tensorfile.DamagedFileError, match=r"pipe' is not .* regular file"):
            read(tmp_path / "pipe")


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    tensorfile.write(tmp_path / "file", {}, "")
    (tmp_path / "plain").touch()
    assert os.stat(tmp_path / "file").st_mode == os.stat(tmp_path / "plain").st_mode


def raw(tmp_path, header, data=b""):
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "raw"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
    return path


META = {"__metadata__": {"somf": ""}}


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"", b""),
        (b"not json", b""),
        (b"[" * 100_000, b""),
        ([], b""),
        ({}, b""),
        ({"__metadata__": {"somf": 3}}, b""),
        (META, b"left over"),
        (META | {"a": {"dtype": "F64", "shape": [2**60], "data_offsets": [0, 8]}}, b"12345678"),
        (META | {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, b"1234"),
        (META | {"a": {"dtype": "F64", "shape": [-1], "data_offsets": [8, 0]}}, b"12345678"),
        (META | {"a": {"dtype": "F64", "shape": [True], "data_offsets": [0, 8]}}, b"12345678"),
        (META | {"a": {"dtype": "object", "shape": [1], "data_offsets": [0, 8]}}, b"12345678"),
        (META | {"a": {"dtype": ["F64"], "shape": [1], "data_offsets": [0, 8]}}, b"12345678"),
        (META | {"a": {"dtype": "F64", "shape": 1, "data_offsets": [0, 8]}}, b"12345678"),
        (META | {"a": {"dtype": "F64", "shape": [1]}}, b"12345678"),
        (META | {"a": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}}, b"x" * 16),
        (META | {"a": 3}, b""),
    ],
    ids=range(17),
)
def test_a_file_that_makes_no_sense_is_refused_by_name(tmp_path, header, data):
    with pytest.raises(ValueError, match="raw' is not a somf file, or is damaged"):
        tensorfile.read(raw(tmp_path, header, data))


def test_a_header_that_claims_to_be_larger_than_the_file_is_refused(tmp_path):
    (tmp_path / "raw").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="the header does not fit into the file"):
        tensorfile.read(tmp_path / "raw")


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_file_is_read_or_refused_but_never_crashes(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    tensorfile.write(path, example(), "text")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(tensorfile.DamagedFileError):
        tensorfile.read(path)
