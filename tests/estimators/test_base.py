"""fit, partial_fit and their inputs."""

import copy
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF, DictionaryLearning, ImagePatches, SparsePCA
from somf.data import Source, epoch_order
from tests.helpers.sources import WatchedSource

KINDS = pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA, NMF])


def sparse_data(n=200, p=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) * (rng.random((n, p)) < 0.2)
    return X / np.linalg.norm(X, axis=1, keepdims=True).clip(1e-9)


# Inputs


@KINDS
@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_sparse_and_dense_data_give_the_same_dictionary(kind, masks, surrogate):
    X = sparse_data()
    dense, sparse = (
        kind(5, reduction=2, masks=masks, surrogate=surrogate, n_epochs=2, random_state=0).fit(
            given
        )
        for given in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-9)
    np.testing.assert_allclose(sparse.transform(sp.csr_array(X)), dense.transform(X), atol=1e-8)
    assert sparse.objective(sp.csr_array(X)) == pytest.approx(dense.objective(X))


def test_partial_fit_takes_sparse_data():
    X = sparse_data()
    dense, sparse = (
        DictionaryLearning(5, reduction=2, random_state=0).partial_fit(given)
        for given in (X, sp.csr_matrix(X))
    )
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-9)


def test_sparse_data_is_never_densified():
    n, p = 2000, 20_000
    rng = np.random.default_rng(0)
    places = rng.integers(n, size=40_000), rng.integers(p, size=40_000)
    X = sp.csr_array((rng.random(40_000, dtype=np.float32), places), shape=(n, p))
    model = DictionaryLearning(3, reduction=2, batch_size=100, random_state=0)
    model.fit(X[:200])  # compile first
    tracemalloc.start()
    model.fit(X)
    model.objective(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * p * 4 / 10


def test_fit_never_copies_the_data():
    X = np.random.default_rng(0).standard_normal((4000, 500)).astype(np.float32)
    model = DictionaryLearning(3, alpha=5, reduction=2, batch_size=20, random_state=0)
    model.fit(X[:100])
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 4


def test_memory_maps_and_fortran_order_give_the_same_dictionary(toy, tmp_path):
    expected = DictionaryLearning(5, random_state=0).fit(toy).components_
    np.save(tmp_path / "X.npy", toy)
    for X in (np.load(tmp_path / "X.npy", mmap_mode="r"), np.asfortranarray(toy), toy.tolist()):
        model = DictionaryLearning(5, random_state=0).fit(X)
        np.testing.assert_array_equal(model.components_, expected)


def test_patches_of_an_image_are_learned_without_being_stored():
    image = np.random.default_rng(0).random((30, 30, 3))
    patches = ImagePatches(image, 4)
    model = DictionaryLearning(5, random_state=0).fit(patches)
    assert model.components_.shape == (5, 48)
    assert model.transform(patches).shape == (27 * 27, 5)


def nan_at(row):
    X = np.random.default_rng(0).standard_normal((120, 8))
    X[row, 3] = np.nan
    return X


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (nan_at(77), ValueError, "X must be finite, got NaN in row 77"),
        (np.where(np.isnan(nan_at(5)), np.inf, 1), ValueError, "got infinity in row 5"),
        (sp.csr_array(nan_at(77)), ValueError, "X must be finite, got NaN in row 77"),
        (np.ones(8), ValueError, "Expected 2D array, got 1D array"),
        (sp.coo_array(np.ones(8)), ValueError, "Expected 2D array, got 1D array"),
        (np.ones((2, 2, 2)), ValueError, "Expected 2D array, got 3D array"),
        (np.ones((0, 8)), ValueError, "0 sample"),
        (np.ones((8, 0)), ValueError, "0 feature"),
        (np.array([["a", "b"]]), ValueError, "X must be numeric"),
        (np.ones((8, 8)) * 1j, ValueError, "Complex data not supported"),
        (sp.csr_array(np.ones((8, 8)) * 1j), ValueError, "Complex data not supported"),
    ],
    ids=lambda x: str(x)[:30] if isinstance(x, str) else "",
)
def test_bad_data_is_refused_and_changes_nothing(X, error, message):
    good = np.random.default_rng(0).standard_normal((50, 8))
    model = DictionaryLearning(4, random_state=0).fit(good)
    before = {name: array.copy() for name, array in model._state.arrays().items()}
    for call in (model.fit, model.transform, model.objective, model.stationarity_gap):
        with pytest.raises(error, match=message):
            call(X)
    assert model.n_features_in_ == 8
    for name, array in model._state.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_sample_that_is_not_finite_ends_a_stream_before_its_minibatch():
    good, bad = nan_at(77)[:50], nan_at(77)
    model = DictionaryLearning(4, batch_size=50, n_epochs=1, random_state=0).fit(good)
    expected = copy.deepcopy(model).partial_fit(bad[:50])
    with pytest.raises(ValueError, match="X must be finite, got NaN in row 77"):
        model.partial_fit(bad)
    assert model.n_samples_seen_ == 100
    np.testing.assert_array_equal(model.components_, expected.components_)


def test_a_stream_is_read_once(toy):
    class Counted(Source):
        shape, dtype, n_read = toy.shape, toy.dtype, 0

        def rows(self, ids):
            self.n_read += len(ids)
            return toy[ids]

    source = Counted()
    model = DictionaryLearning(4, init="random", random_state=0).partial_fit(source)
    assert source.n_read == len(toy)
    model.partial_fit(source)
    assert source.n_read == 2 * len(toy)


def test_the_number_of_features_is_checked(toy):
    model = DictionaryLearning(4, random_state=0).fit(toy)
    for call in (model.partial_fit, model.transform, model.objective, model.stationarity_gap):
        with pytest.raises(ValueError, match="59 features, but DictionaryLearning is expecting 60"):
            call(toy[:, 1:])


def test_nmf_warns_of_negative_data_wherever_it_is(toy):
    X = np.abs(toy)
    X[237, 4] = -1
    model = NMF(4, random_state=0)
    for learn in (model.fit, model.partial_fit):
        with pytest.warns(UserWarning, match="negative entries") as caught:
            learn(X)
        assert len(caught) == 1


def test_repeated_entries_of_a_sparse_matrix_are_added_up():
    once = sp.csr_array(sparse_data())
    twice = sp.csr_array(
        (np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), once.indptr * 2), shape=once.shape
    )
    expected = DictionaryLearning(5, reduction=2, random_state=0).fit(once)
    model = DictionaryLearning(5, reduction=2, random_state=0).fit(twice)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-12)
    assert model.objective(twice) == pytest.approx(expected.objective(once))


def test_data_that_overflows_is_refused(toy):
    X = (toy * 1e25).astype(np.float32)
    advice = (
        r"overflows float32: X is too large\. Scale it down\. dtype='float64' has a larger range\.$"
    )
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=advice):
        DictionaryLearning(4, random_state=0).fit(X)
    advice = r"overflows float64: X is too large\. Scale it down\.$"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=advice):
        DictionaryLearning(4, random_state=0).fit(toy * 1e200)


def test_a_source_that_fails_half_way_leaves_what_was_learned_before(toy):
    class Flaky(Source):
        shape, dtype, n_reads = toy.shape, toy.dtype, 0

        def rows(self, ids):
            self.n_reads += 1
            if self.n_reads == 4:  # the first read is that of initial atoms
                raise OSError("the disk is gone")
            return toy[ids]

    model = DictionaryLearning(4, batch_size=100, random_state=0)
    with pytest.raises(OSError, match="the disk is gone"):
        model.partial_fit(Flaky())
    assert model.n_samples_seen_ == model._state.n_samples_seen == 200
    np.testing.assert_array_equal(model.components_, model._state.components)
    model.partial_fit(toy)


def test_integers_are_converted_batch_by_batch():
    X = np.random.default_rng(0).integers(0, 200, (100, 12), dtype=np.uint8)
    as_floats = NMF(4, random_state=0).fit(X.astype(float))
    np.testing.assert_array_equal(NMF(4, random_state=0).fit(X).components_, as_floats.components_)


def test_more_atoms_than_samples_or_features_are_possible():
    X = np.random.default_rng(0).standard_normal((5, 3))
    assert DictionaryLearning(10, random_state=0).fit(X).transform(X).shape == (5, 10)


def test_an_error_of_a_source_comes_through():
    class Broken(Source):
        shape, dtype = (300, 60), np.dtype(float)

        def rows(self, ids):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        DictionaryLearning(4).fit(Broken())


# partial_fit


def test_partial_fit_in_pieces_is_partial_fit_in_one_piece(toy):
    whole = DictionaryLearning(5, batch_size=20, random_state=0, init=toy[:5]).partial_fit(toy)
    pieces = DictionaryLearning(5, batch_size=20, random_state=0, init=toy[:5])
    for start in range(0, 300, 100):
        pieces.partial_fit(toy[start : start + 100])
    np.testing.assert_array_equal(pieces.components_, whole.components_)
    assert pieces.n_samples_seen_ == 300


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
@pytest.mark.parametrize("code_estimator", ["averaged", "exact"])
def test_partial_fit_with_ids_does_what_fit_does(toy, surrogate, code_estimator):
    params = {
        "reduction": 2,
        "code_estimator": code_estimator,
        "surrogate": surrogate,
        "batch_size": 30,
        "learning_rate": 0.9,
        "init": toy[:5],
        "random_state": 0,
    }
    fitted = DictionaryLearning(5, n_epochs=3, tol=0, **params).fit(toy)
    streamed = DictionaryLearning(5, **params)
    order = epoch_order(np.arange(300), fitted._state.seed, 0)
    for _ in range(3):
        streamed.partial_fit(toy[order], sample_ids=order)
    np.testing.assert_allclose(streamed.components_, fitted.components_, atol=1e-12)
    if (memory := streamed._state.memory) is not None:
        np.testing.assert_array_equal(np.sort(memory.ids), np.arange(300))


def test_known_samples_use_their_averages_and_unknown_ones_count_as_new(toy):
    known, unknown = (
        DictionaryLearning(5, reduction=2, random_state=0).partial_fit(
            toy[:50], sample_ids=np.arange(50)
        )
        for _ in range(2)
    )
    known.partial_fit(toy[:50], sample_ids=np.arange(50))
    unknown.partial_fit(toy[:50], sample_ids=np.arange(50, 100))
    assert known._state.memory.n_visits.tolist() == [2] * 50
    assert unknown._state.memory.n_visits.tolist() == [1] * 100
    assert np.abs(known.components_ - unknown.components_).max() > 1e-6


def test_samples_without_ids_are_not_remembered(toy):
    model = DictionaryLearning(5, reduction=2, random_state=0).partial_fit(toy)
    assert len(model._state.memory.ids) == 0


def test_ids_are_any_integers(toy):
    ids = np.array([5, -3, 10**15, 7])
    model = DictionaryLearning(3, reduction=4, random_state=0).partial_fit(toy[:4], sample_ids=ids)
    model.partial_fit(toy[:2], sample_ids=[10**15, 5])
    memory = model._state.memory
    n_visits = dict(zip(memory.ids.tolist(), memory.n_visits.tolist(), strict=True))
    assert n_visits == {5: 2, -3: 1, 10**15: 2, 7: 1}


def test_partial_fit_continues_after_fit(toy):
    model = DictionaryLearning(5, reduction=2, n_epochs=1, random_state=0).fit(toy)
    history = model.history_
    model.partial_fit(toy[:50], sample_ids=np.arange(50))
    assert model.n_samples_seen_ == 350
    assert model._state.memory.n_visits[:50].tolist() == [2] * 50
    assert model.history_ is history


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([0, 1], ValueError, r"sample_ids must have one entry per sample \(3\), got shape \(2,\)"),
        ([[0, 1, 2]], ValueError, "sample_ids must have one entry per sample"),
        ([0, 4, 4], ValueError, "sample_ids must not repeat inside a batch, got 4 twice"),
        ([0.5, 1, 2], TypeError, "sample_ids must be integers, got float64"),
        (["a", "b", "c"], TypeError, "sample_ids must be integers"),
        (np.array([0, 1, 2**63], dtype=np.uint64), ValueError, "sample_ids must be less than"),
    ],
)
def test_bad_ids_are_refused_and_change_nothing(toy, ids, error, message):
    model = DictionaryLearning(3, random_state=0).partial_fit(toy)
    before = model.components_.copy()
    with pytest.raises(error, match=message):
        model.partial_fit(toy[:3], sample_ids=ids)
    assert model.n_samples_seen_ == 300
    np.testing.assert_array_equal(model.components_, before)


def test_what_shapes_the_state_must_not_change_while_learning_continues(toy):
    model = DictionaryLearning(3, reduction=2, random_state=0).partial_fit(toy)
    for name, value, known_as in (
        ("n_components", 4, "n_components"),
        ("reduction", 3, "reduction"),
        ("surrogate", "incremental", "surrogate"),
        ("positive_atoms", True, "ball"),
    ):
        before = model.get_params()[name]
        with pytest.raises(ValueError, match=f"{known_as} must stay"):
            model.set_params(**{name: value}).partial_fit(toy)
        model.set_params(**{name: before})
    model.set_params(alpha=0.2).partial_fit(toy)


# Codes back to samples


def test_inverse_transform_multiplies_codes_and_atoms(toy):
    model = DictionaryLearning(5, random_state=0).fit(toy)
    codes = model.transform(toy)
    expected = codes @ model.components_
    np.testing.assert_allclose(model.inverse_transform(codes), expected)
    np.testing.assert_allclose(model.inverse_transform(sp.csr_array(codes)), expected)
    with pytest.raises(ValueError, match=r"codes must have shape \(n_samples, 5\)"):
        model.inverse_transform(codes[:, 1:])


@pytest.mark.parametrize("init", ["random", np.eye(4, 40)], ids=["random", "given"])
def test_atoms_that_are_no_samples_are_made_without_reading_any(init, monkeypatch):
    for name in ("FEW_ENTRIES", "MOST_ENTRIES"):
        monkeypatch.setattr(f"somf.estimators.quality.{name}", 0)  # no pass after the fit
    source = WatchedSource(sparse_data(), is_in_memory=True)
    DictionaryLearning(4, init=init, n_epochs=1, random_state=0).fit(source)
    assert source.n_rows == 200


def test_what_is_wrong_with_the_shape_is_said_with_what_to_do(toy, tmp_path):
    model = DictionaryLearning(3, n_epochs=1, verbose=False, random_state=0).fit(toy)
    with pytest.raises(ValueError, match="is it transposed"):
        model.transform(toy[:50].T)
    with pytest.raises(ValueError, match=r"use somf\.ImagePatches"):
        model.fit(toy[None])
    with pytest.raises(FileNotFoundError, match=r"There is no folder '.*missing' to save"):
        model.save(tmp_path / "missing" / "model.somf")
