"""Arrays and memory maps as sources."""

import numpy as np
import scipy.sparse as sp

from somf.data import ArraySource, CsrSource, StackedSource, as_source, open_source
from tests.helpers.source_contract import SourceContract, matrix


class TestArraySource(SourceContract):
    def make(self, folder):
        return ArraySource(matrix()), matrix()


class TestIntegerArraySource(SourceContract):
    def make(self, folder):
        X = (matrix() * 100).astype(np.int16)
        return ArraySource(X), X


class TestViewsOfAMemoryMap(SourceContract):
    def make(self, folder):
        np.save(folder / "X.npy", np.repeat(matrix()[::-1, ::-1], 2, axis=1))
        return as_source(np.load(folder / "X.npy", mmap_mode="r")[::-1, ::-2]), matrix()


def test_arrays_and_csr_matrices_are_not_copied():
    X = matrix()
    assert as_source(X).X is X
    sparse = sp.csr_matrix(X)
    assert np.shares_memory(as_source(sparse).X.data, sparse.data)


def test_a_view_of_an_array_or_a_csr_matrix_is_not_a_copy(tmp_path):
    np.save(tmp_path / "X.npy", matrix())
    ids = np.array([3, 1])
    for X in (matrix(), np.load(tmp_path / "X.npy", mmap_mode="r")):
        source = as_source(X)
        assert np.shares_memory(source.view(ids)[0], X)
        assert np.shares_memory(StackedSource([source, source], ["a", "b"]).view(ids)[0], X)
    sparse = CsrSource(sp.csr_array(matrix()))
    assert sparse.view(ids)[0] is sparse.X


def test_memory_maps_are_not_in_memory_and_arrays_are(tmp_path):
    np.save(tmp_path / "X.npy", matrix())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for X in (mapped, mapped[3:], np.asarray(mapped), mapped.T):
        assert not as_source(X).is_in_memory
    assert as_source(matrix()).is_in_memory
    assert as_source(matrix().T).is_in_memory


def test_rows_of_a_memory_map_are_in_plain_random_order_unless_a_row_is_scattered(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((2000, 3)))
    assert open_source(tmp_path / "X.npy").chunk_starts is None
    np.save(tmp_path / "X.npy", np.zeros((3, 2000)))
    starts = open_source(tmp_path / "X.npy", transposed=True).chunk_starts
    assert len(starts) > 1
