"""What Linux reads by itself."""

import mmap
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


BLOCK = 4096
SIZE = 2**20 + 1000


@pytest.fixture
def path(tmp_path):
    """Return a file that is not in the page cache, so that the disk has to be waited for."""
    path = tmp_path / "file"
    np.random.default_rng(0).integers(0, 256, SIZE, dtype=np.uint8).tofile(path)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError as refusal:
        pytest.skip(f"the file system refuses to read past the page cache: {refusal}")
    return path


@pytest.fixture
def file(path):
    """Return it open."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    yield descriptor
    os.close(descriptor)


def memory_for(n_blocks):
    """Return zeros that begin on the border of a page."""
    return np.frombuffer(mmap.mmap(-1, n_blocks * BLOCK), dtype=np.uint8).reshape(n_blocks, BLOCK)


def read_all(reads, n):
    """Return what has become of so many reads."""
    found = {}
    while len(found) < n:
        tags, results = reads.finished(1.0)
        found.update(zip(tags.tolist(), results.tolist(), strict=True))
    return found


def test_every_read_writes_its_bytes_and_is_reported_under_its_name(file, path):
    content, memory, reads = np.fromfile(path, dtype=np.uint8), memory_for(6), aio.Reads(3)
    tags, blocks = np.array([7, 5, 6]), np.array([0, 100, 200])
    lengths, addresses = np.array([2, 1, 2]), memory.ctypes.data + 2 * BLOCK * np.arange(3)
    files = np.full(3, file)
    assert reads.begin(tags, files, blocks * BLOCK, addresses, lengths * BLOCK) == 3
    assert read_all(reads, 3) == {7: 2 * BLOCK, 5: BLOCK, 6: 2 * BLOCK}
    for row, block, n in zip(memory.reshape(3, 2 * BLOCK), blocks, lengths, strict=True):
        np.testing.assert_array_equal(row[: n * BLOCK], content[block * BLOCK :][: n * BLOCK])
        assert not row[n * BLOCK :].any()


def test_a_file_may_be_closed_and_removed_once_the_read_has_begun(path):
    content, memory, reads = np.fromfile(path, dtype=np.uint8), memory_for(256), aio.Reads(1)
    other = np.array([os.open(path, os.O_RDONLY | os.O_DIRECT)])
    one, at = np.array([0]), np.array([memory.ctypes.data])
    assert reads.begin(one, other, one, at, np.array([256 * BLOCK])) == 1
    os.close(int(other[0]))
    os.remove(path)
    assert read_all(reads, 1) == {0: 256 * BLOCK}
    np.testing.assert_array_equal(memory.ravel(), content[: 256 * BLOCK])


def test_a_read_that_reaches_beyond_the_end_says_how_much_there_was(file):
    memory, reads = memory_for(1), aio.Reads(1)
    at, end = np.array([memory.ctypes.data]), np.array([2**20])
    reads.begin(np.array([3]), np.array([file]), end, at, np.array([BLOCK]))
    assert read_all(reads, 1) == {3: 1000}


def test_reads_after_one_that_is_impossible_do_not_begin(file):
    memory, reads = memory_for(3), aio.Reads(3)
    files = np.array([file, 10**6, file])  # the second is not open
    addresses = memory.ctypes.data + BLOCK * np.arange(3)
    n_begun = reads.begin(np.arange(3), files, np.zeros(3, int), addresses, np.full(3, BLOCK))
    assert n_begun == 1
    assert read_all(reads, 1) == {0: BLOCK}


def test_the_end_waits_for_what_is_on_its_way(file, path):
    content, memory, reads = np.fromfile(path, dtype=np.uint8), memory_for(256), aio.Reads(1)
    one, at = np.array([0]), np.array([memory.ctypes.data])
    reads.begin(one, np.array([file]), one, at, np.array([256 * BLOCK]))
    reads.end()
    np.testing.assert_array_equal(memory.ravel(), content[: 256 * BLOCK])
    assert reads.begin(one, np.array([file]), one, at, np.array([BLOCK])) == 0


def test_waiting_for_nothing_ends():
    begin = time.perf_counter()
    tags, results = aio.Reads(1).finished(0.01)
    assert len(tags) == len(results) == 0
    assert time.perf_counter() - begin >= 0.009
