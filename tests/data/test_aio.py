"""What Linux reads by itself."""

import os
import time

import numpy as np
import pytest

from somf.data import aio

if not aio.IS_AVAILABLE:
    pytest.skip("asynchronous reads need Linux on x86-64 or 64-bit ARM", allow_module_level=True)
try:
    aio.Reads(1)
except OSError as refusal:
    pytest.skip(f"the system refuses: {refusal}", allow_module_level=True)


@pytest.fixture
def file(tmp_path):
    """Return a file of 10,000 bytes, and these."""
    content = np.random.default_rng(0).integers(0, 256, 10_000, dtype=np.uint8)
    content.tofile(tmp_path / "file")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    yield descriptor, content
    os.close(descriptor)


def read_all(reads, n):
    """Return what has become of so many reads."""
    found = {}
    while len(found) < n:
        tags, results = reads.finished(1.0)
        found.update(zip(tags.tolist(), results.tolist(), strict=True))
    return found


def test_every_read_writes_its_bytes_and_is_reported_under_its_name(file):
    descriptor, content = file
    memory = np.zeros((3, 100), dtype=np.uint8)
    reads = aio.Reads(3)
    tags, offsets = np.array([7, 5, 6]), np.array([0, 5_000, 9_000])
    lengths = np.array([100, 60, 100])
    addresses = memory.ctypes.data + 100 * np.arange(3)
    assert reads.begin(tags, np.full(3, descriptor), offsets, addresses, lengths) == 3
    assert read_all(reads, 3) == {7: 100, 5: 60, 6: 100}
    for row, offset, length in zip(memory, offsets, lengths, strict=True):
        np.testing.assert_array_equal(row[:length], content[offset : offset + length])
        assert not row[length:].any()


def test_a_file_may_be_closed_and_removed_once_the_read_has_begun(file, tmp_path):
    content, memory, reads = file[1], np.zeros(10_000, dtype=np.uint8), aio.Reads(1)
    other = os.open(tmp_path / "file", os.O_RDONLY)
    whole = np.array([10_000])
    begun = reads.begin(
        np.array([0]), np.array([other]), np.array([0]), np.array([memory.ctypes.data]), whole
    )
    os.close(other)
    os.remove(tmp_path / "file")
    assert begun == 1
    assert read_all(reads, 1) == {0: 10_000}
    np.testing.assert_array_equal(memory, content)


def test_a_read_that_reaches_beyond_the_end_says_how_much_there_was(file):
    memory, reads = np.zeros(100, dtype=np.uint8), aio.Reads(1)
    at = np.array([memory.ctypes.data])
    reads.begin(np.array([3]), np.array([file[0]]), np.array([9_990]), at, np.array([100]))
    assert read_all(reads, 1) == {3: 10}


def test_reads_after_one_that_is_impossible_do_not_begin(file):
    memory, reads = np.zeros(300, dtype=np.uint8), aio.Reads(3)
    files = np.array([file[0], 10**6, file[0]])  # the second is not open
    addresses = memory.ctypes.data + 100 * np.arange(3)
    n_begun = reads.begin(np.arange(3), files, np.zeros(3, int), addresses, np.full(3, 100))
    assert n_begun == 1
    assert read_all(reads, 1) == {0: 100}


def test_waiting_for_nothing_ends():
    begin = time.perf_counter()
    tags, results = aio.Reads(1).finished(0.01)
    assert len(tags) == len(results) == 0
    assert time.perf_counter() - begin >= 0.009
