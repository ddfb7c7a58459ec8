"""Type, columns and checks of minibatches."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import Loader, Source, as_source, open_source
from somf.errors import NotFiniteError
from tests.helpers.source_contract import matrix

X = np.random.default_rng(0).standard_normal((20, 6)) * np.array([1, 0, 1, 1, 0, 1])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_columns_are_permuted_and_types_converted(storage):
    permutation = np.random.default_rng(1).permutation(6)
    loader = Loader(as_source(storage(X)), np.dtype(np.float32), permutation)
    batch = loader.load(np.array([4, 2]))
    dense = batch if isinstance(batch, np.ndarray) else batch.toarray()
    np.testing.assert_array_equal(dense, X[[4, 2]][:, permutation].astype(np.float32))
    assert batch.dtype == np.float32
    assert sp.issparse(batch) == (storage is sp.csr_array)


def test_chunks_cover_the_samples_in_order(monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 6 * 3)
    ids = np.array([5, 1, 9, 0, 7, 3, 2])
    chunks = list(Loader(as_source(X), X.dtype).chunks(ids))
    assert [len(rows) for rows in chunks] == [3, 3, 1]
    np.testing.assert_array_equal(np.vstack(chunks), X[ids])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize(("bad", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "inf")])
def test_an_entry_that_is_not_finite_is_reported_with_its_row(storage, bad, name):
    broken = X.copy()
    broken[13, 2] = bad
    loader = Loader(as_source(storage(broken)), X.dtype, np.arange(6)[::-1].copy())
    loader.load(np.arange(13))
    with pytest.raises(NotFiniteError, match=f"got {name}.* in row 13") as caught:
        loader.load(np.array([2, 13, 5]))
    assert (caught.value.name, caught.value.row) == ("X", 13)


def test_a_sum_that_overflows_is_not_mistaken_for_infinity():
    huge = np.full((4, 3), 1e308)
    np.testing.assert_array_equal(Loader(as_source(huge), huge.dtype).load(np.arange(4)), huge)


def write_in_chunks(folder, kind, rows, **options):
    if kind == "HDF5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(folder / "X.h5", "w") as file:
            file.create_dataset("X", data=rows, chunks=(10, rows.shape[1]), **options)
        return folder / "X.h5"
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    chunks = (10, rows.shape[1])
    zarr.create_array(folder / "X.zarr", data=rows, chunks=chunks, compressors=None)
    return folder / "X.zarr"


@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
def test_a_fit_does_not_depend_on_how_chunks_are_read(tmp_path, monkeypatch, kind):
    rows = np.random.default_rng(0).standard_normal((64, 30)).astype(np.float32)
    path = write_in_chunks(tmp_path, kind, rows)
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 4 * 10 * 30 * 4)
    fits = []
    for smallest in (1, 2**40):  # rows are read one by one, or chunks are buffered
        monkeypatch.setattr("somf.data.loader.LARGE_ROW", smallest)
        model = DictionaryLearning(4, n_epochs=3, batch_size=7, random_state=0)
        fits.append(model.fit(open_source(path)))
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


class Odd(Source):
    """Returns rows that break the contract."""

    def __init__(self, given):
        self.shape, self.dtype, self.given = (20, 6), np.dtype(float), given

    def rows(self, ids):
        return self.given(X[ids])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (lambda rows: rows[:, :-1], "must be of shape"),
        (lambda rows: np.hstack([rows, rows]), "must be of shape"),
        (lambda rows: rows[:-1], "must be of shape"),
        (lambda rows: rows.ravel(), "must be of shape"),
        (sp.csr_array, "is_sparse"),
    ],
    ids=["narrow", "wide", "few", "flat", "sparse"],
)
@pytest.mark.parametrize("permutation", [None, np.arange(6)], ids=["in order", "permuted"])
def test_rows_of_the_wrong_shape_or_kind_are_refused(given, error, permutation):
    with pytest.raises((ValueError, TypeError), match=error):
        Loader(Odd(given), X.dtype, permutation).load(np.array([3, 7, 1]))


def test_epochs_share_the_memory_of_the_buffer_and_simultaneous_streams_do_not(tmp_path):
    rows = np.random.default_rng(0).standard_normal((60, 30))
    path = write_in_chunks(tmp_path, "HDF5", rows, compression="gzip")
    loader = Loader(open_source(path), rows.dtype)
    batches = np.split(np.random.default_rng(1).permutation(60), 6)
    with loader.stream(batches) as first:
        halves = [next(first) for _ in range(3)]
        with loader.stream(batches[::-1]) as second:
            np.testing.assert_array_equal(
                np.vstack(list(second)), rows[np.concatenate(batches[::-1])]
            )
        halves += list(first)
    np.testing.assert_array_equal(np.vstack(halves), rows[np.concatenate(batches)])
    memory = loader._buffer_memory
    with loader.stream(batches) as again:
        list(again)
    assert loader._buffer_memory is memory


@pytest.mark.parametrize(
    ("chunk_starts", "flags"),
    [
        (None, {}),
        (np.array([0, 10]), {}),
        (None, {"is_in_memory": True}),
        (None, {"reads_in_parallel": True}),
        (None, {"is_sparse": True}),
    ],
    ids=["background thread", "buffer", "memory", "page cache", "sparse"],
)
def test_a_source_that_raises_stop_iteration_is_named_in_an_error(chunk_starts, flags):
    class Ending(Source):
        shape, dtype = (23, 7), np.dtype(float)

        def rows(self, ids):
            if 20 in ids:
                raise StopIteration
            return sp.csr_array(matrix()[ids]) if self.is_sparse else matrix()[ids]

    source = Ending()
    source.chunk_starts = chunk_starts
    for flag, value in flags.items():
        setattr(source, flag, value)
    with pytest.raises(RuntimeError, match="Ending raised StopIteration"):
        DictionaryLearning(3, init="random", batch_size=4).fit(source)


def test_small_minibatches_of_an_array_are_the_rows_they_are_made_of():
    rows = np.random.default_rng(0).standard_normal((500, 6))
    batches = np.split(np.random.default_rng(1).permutation(500), [7, 8, 100, 460])
    with Loader(as_source(rows), np.dtype(np.float32)).stream(batches) as minibatches:
        for ids, minibatch in zip(batches, minibatches, strict=True):
            np.testing.assert_array_equal(minibatch, rows[ids].astype(np.float32))
            assert minibatch.flags.c_contiguous


def test_a_sample_that_is_not_finite_is_an_error_in_the_place_of_its_minibatch():
    rows = np.random.default_rng(0).standard_normal((500, 6))
    rows[321, 4] = np.nan
    with Loader(as_source(rows), rows.dtype).stream(np.split(np.arange(500), 50)) as minibatches:
        for n in range(32):
            np.testing.assert_array_equal(next(minibatches), rows[10 * n : 10 * n + 10])
        with pytest.raises(NotFiniteError, match="row 321"):
            next(minibatches)


class Computed(Source):
    """Rows that are computed when they are read."""

    is_in_memory, reads_in_parallel = True, True

    def __init__(self, rows):
        self.X, self.shape, self.dtype, self.n_read = rows, rows.shape, rows.dtype, 0

    def rows(self, ids):
        self.n_read += len(ids)
        return self.X[ids]


@pytest.fixture
def one_row_at_once(monkeypatch):
    monkeypatch.setattr("somf.data.gather.PIECE_BYTES", 1)


@pytest.mark.usefixtures("one_row_at_once")
@pytest.mark.parametrize("n_ahead", [0, 1, 4, 5, 9])
def test_minibatches_are_the_same_however_much_is_loaded_ahead(n_ahead):
    source, ids = Computed(X), np.random.default_rng(2).permutation(20).reshape(4, 5)
    loader = Loader(source, X.dtype, np.arange(6)[::-1].copy())
    with loader.stream(list(ids)) as minibatches:
        for number, own in enumerate(ids):
            np.testing.assert_array_equal(next(minibatches), X[own][:, ::-1])
            n_read = source.n_read
            assert sum(loader.advance() for _ in range(n_ahead)) == (
                min(n_ahead, 5) if number < 3 else 0
            )
            assert source.n_read - n_read == (min(n_ahead, 5) if number < 3 else 0)
    assert source.n_read == 20
    assert not loader.advance()


@pytest.mark.usefixtures("one_row_at_once")
def test_an_error_while_loading_ahead_is_raised_in_the_place_of_its_minibatch():
    class Failing(Computed):
        def rows(self, ids):
            if 7 in ids:
                raise OSError("row 7 cannot be read")
            return super().rows(ids)

    loader = Loader(Failing(X), X.dtype)
    with loader.stream([np.arange(5), np.arange(5, 10)]) as minibatches:
        next(minibatches)
        assert loader.advance()
        assert loader.advance()
        assert not loader.advance()
        with pytest.raises(OSError, match="row 7"):
            next(minibatches)


@pytest.mark.usefixtures("one_row_at_once")
def test_what_one_stream_has_loaded_ahead_does_not_reach_another():
    loader, ids = Loader(Computed(X), X.dtype), np.arange(20).reshape(4, 5)
    with loader.stream(list(ids)) as minibatches:
        next(minibatches)
        assert loader.advance()
        with loader.stream([np.array([19, 18])]) as others:
            np.testing.assert_array_equal(next(others), X[[19, 18]])
        np.testing.assert_array_equal(next(minibatches), X[ids[1]])
    assert not loader.advance()


@pytest.mark.usefixtures("one_row_at_once")
def test_an_interrupt_while_loading_ahead_leaves_no_row_out():
    class Interrupted(Computed):
        is_interrupted = False

        def rows(self, ids):
            if 7 in ids and not self.is_interrupted:
                self.is_interrupted = True
                raise KeyboardInterrupt
            return super().rows(ids)

    loader = Loader(Interrupted(X), X.dtype)
    with loader.stream([np.arange(5), np.arange(5, 10)]) as minibatches:
        next(minibatches)
        assert loader.advance()
        assert loader.advance()
        with pytest.raises(KeyboardInterrupt):
            loader.advance()
        np.testing.assert_array_equal(next(minibatches), X[5:10])
