"""The tests that every source inherits."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import Loader, Source, as_source


def matrix():
    rng = np.random.default_rng(0)
    return rng.standard_normal((23, 7)) * (rng.random((23, 7)) < 0.5)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


class Same(Source):
    """Rows of another source in memory, with the chunks, and so the order, of that source."""

    is_in_memory = True

    def __init__(self, other: Source) -> None:
        self.shape, self.dtype, self.chunk_starts = other.shape, other.dtype, other.chunk_starts
        self.is_sparse = other.is_sparse
        self.X = other.rows(np.arange(other.shape[0]))

    def rows(self, ids):
        return self.X[ids]


class SourceContract:
    """Tests of any source; a subclass makes one, and the matrix that it must hold."""

    def make(self, folder: Path) -> tuple[Source, np.ndarray]:
        raise NotImplementedError

    @pytest.fixture
    def made(self, tmp_path):
        return self.make(tmp_path)

    def test_shape_and_type_are_those_of_the_rows(self, made):
        source, expected = made
        assert source.shape == expected.shape
        assert isinstance(source.dtype, np.dtype)
        assert source.rows(np.arange(2)).dtype == source.dtype

    def test_the_share_of_entries_that_are_stored_is_known(self, made):
        source, expected = made
        share = np.count_nonzero(expected) / expected.size if source.is_sparse else 1.0
        # Some sources look at a part of their rows only.
        assert source.stored_share == pytest.approx(share, rel=0.2)

    @pytest.mark.parametrize(
        "ids",
        [[0], [5, 2, 9], [3, 3], [9, 0, 9, 1], range(23), range(22, -1, -1), []],
        ids=["one", "any", "twice", "again", "all", "backwards", "none"],
    )
    def test_rows_come_in_the_order_of_the_ids(self, made, ids):
        source, expected = made
        ids = np.array(ids, dtype=np.int64)
        rows = source.rows(ids)
        assert rows.shape == (len(ids), expected.shape[1])
        np.testing.assert_allclose(dense(rows), expected[ids], rtol=1e-6, atol=1e-12)

    def test_rows_may_be_written_to(self, made):
        source, expected = made
        for ids in (np.array([4]), np.arange(3)):
            rows = source.rows(ids)
            data = rows.data if sp.issparse(rows) else rows
            data[...] = 0
            again = dense(source.rows(ids))
            np.testing.assert_allclose(again, expected[ids], rtol=1e-6, atol=1e-12)

    @pytest.mark.parametrize("ids", [[0], [9, 0, 9, 1, 22], []], ids=["one", "any", "none"])
    def test_a_view_holds_the_rows_at_its_positions(self, made, ids):
        source, _ = made
        ids = np.array(ids, dtype=np.int64)
        source.prefetch(ids)
        X, positions = source.view(ids)
        assert sp.issparse(X) == source.is_sparse
        assert positions.shape == ids.shape
        np.testing.assert_array_equal(dense(X[positions]), dense(source.rows(ids)))

    def test_consecutive_rows_are_written_into_an_array(self, made):
        source, _ = made
        for start, stop in ((3, 15), (10, 14), (5, 10), (10, 15), (20, 23)):
            if not source.is_sparse:  # which has no chunks to read
                out = np.empty((stop - start, source.shape[1]), dtype=source.dtype)
                source.read(start, stop, out)
                np.testing.assert_array_equal(out, source.rows(np.arange(start, stop)))

    def test_minibatches_are_the_rows_on_any_number_of_threads(self, made, shared_threads):
        source, _ = made
        order = np.random.default_rng(0).permutation(source.shape[0])
        batches = np.split(order, range(5, len(order), 5))
        with Loader(source, np.dtype(np.float64)).stream(batches) as minibatches:
            for batch, found in zip(batches, minibatches, strict=True):
                np.testing.assert_array_equal(dense(found), dense(source.rows(batch)))

    def test_a_source_is_its_own_source(self, made):
        assert as_source(made[0]) is made[0]

    def test_chunks_start_inside_the_source(self, made):
        starts = made[0].chunk_starts
        if starts is not None:
            assert starts[0] == 0
            assert (np.diff(starts) > 0).all()
            assert starts[-1] < made[0].shape[0]

    def test_names_of_features_are_one_for_each_of_them(self, made):
        source, _ = made
        if source.feature_names is not None:
            assert len(source.feature_names) == source.shape[1]
            assert all(type(name) is str for name in source.feature_names)

    def test_rows_can_be_read_in_another_thread(self, made):
        source, expected = made
        ids = np.array([7, 1, 2])
        with ThreadPoolExecutor(3) as pool:
            for rows in [pool.submit(source.rows, ids) for _ in range(6)]:
                np.testing.assert_allclose(dense(rows.result()), expected[ids], rtol=1e-6)

    def test_a_fit_equals_that_of_the_same_rows_in_memory(self, made):
        source, _ = made
        params = {"n_epochs": 2, "batch_size": 4, "reduction": 2, "random_state": 0}
        model = DictionaryLearning(3, **params).fit(source, validation=0.2)
        expected = DictionaryLearning(3, **params).fit(Same(source), validation=0.2)
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.history_["objective"] == expected.history_["objective"]
        np.testing.assert_array_equal(model.transform(source), expected.transform(Same(source)))

    def test_rows_can_be_read_after_a_change_of_the_working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        source, expected = self.make(Path())
        (tmp_path / "other folder").mkdir()
        monkeypatch.chdir("other folder")
        rows = dense(source.rows(np.arange(5)))
        np.testing.assert_allclose(rows, expected[:5], rtol=1e-6, atol=1e-12)
        if source.chunk_starts is not None and not source.is_sparse:
            source.read(0, 4, rows[:4])
            np.testing.assert_allclose(rows, expected[:5], rtol=1e-6, atol=1e-12)
