"""Offsets of samples and of features."""

import numpy as np
import pytest
import scipy.sparse as sp

import somf
from somf import DictionaryLearning, MatrixFactorization, SparsePCA
from somf.data import Offsets, as_source
from somf.errors import DataError, ParameterError
from tests.helpers.ratings import planted_ratings

RIDGE = {
    "alpha": 0.05, "l1_ratio": 0.0, "center": "both", "init": "random",
    "surrogate": "incremental", "n_epochs": 10, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module", name="ratings")
def some_ratings():
    return planted_ratings(300, 200, 3, share=0.15)


def test_offsets_are_where_their_sums_of_residuals_balance_the_shrinkage():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 7)) + 3 + rng.standard_normal(7)
    X[rng.random(X.shape) < 0.3] = np.nan
    offsets = Offsets.learn(as_source(X), np.arange(40))
    left = X - offsets.features
    of_samples = offsets.of_samples(X)
    n_known = (~np.isnan(X)).sum(axis=1)
    np.testing.assert_allclose(np.nansum(left, axis=1), of_samples * (n_known + 10))


def test_dense_and_sparse_samples_have_the_same_offsets():
    rng = np.random.default_rng(0)
    X = rng.random((30, 9)) + 2
    unknown = rng.random(X.shape) < 0.5
    sparse = sp.csr_array(np.where(unknown, 0, X))
    dense = np.where(unknown, np.nan, X)
    found = [Offsets.learn(as_source(each), np.arange(30)) for each in (dense, sparse)]
    np.testing.assert_allclose(found[0].features, found[1].features)
    rows = np.where(unknown, 0, X)
    found[0].subtract(rows, (~unknown).astype(float))
    sparse = sparse.tocsc()
    left = found[1].subtracted(sparse, np.ones(sparse.nnz))
    np.testing.assert_allclose(left.toarray(), rows, atol=1e-12)
    expected = dense - found[0].features - found[0].of_samples(dense)[:, None]
    np.testing.assert_allclose(rows, np.where(unknown, 0, expected), atol=1e-12)


def test_ratings_that_were_held_out_are_predicted_better_than_by_offsets(ratings):
    known, held_out = ratings
    model = MatrixFactorization(3, missing="absent", **RIDGE).fit(known)
    filled = model.impute(known)
    offsets = model.offsets_ + Offsets(model.offsets_).of_samples(known)[:, None]

    def error(prediction):
        left = held_out.data - prediction[held_out.row, held_out.col]
        return np.sqrt(np.mean(left**2))

    assert error(filled) < 0.95 * error(offsets)
    known = known.tocoo()
    np.testing.assert_array_equal(filled[known.row, known.col], known.data)


def test_nan_and_absent_entries_give_the_same_model(ratings):
    known = ratings[0].tocoo()
    dense = np.full(known.shape, np.nan)
    dense[known.row, known.col] = known.data
    sparse = MatrixFactorization(3, missing="absent", **RIDGE).fit(ratings[0])
    same = MatrixFactorization(3, missing="nan", **RIDGE).fit(dense)
    np.testing.assert_allclose(same.components_, sparse.components_, atol=1e-9)
    np.testing.assert_allclose(same.offsets_, sparse.offsets_)


@pytest.mark.parametrize("state", [False, True])
def test_offsets_are_in_the_model_file(ratings, tmp_path, state):
    model = MatrixFactorization(3, missing="absent", **RIDGE).fit(ratings[0])
    model.save(tmp_path / "m.somf", state=state)
    again = somf.load(tmp_path / "m.somf")
    np.testing.assert_array_equal(again.impute(ratings[0]), model.impute(ratings[0]))
    codes = model.transform(ratings[0])
    np.testing.assert_allclose(
        again.inverse_transform(codes), codes @ model.components_ + model.offsets_
    )


def test_a_fit_that_was_cut_off_resumes_with_its_offsets(ratings, tmp_path):
    params = {**RIDGE, "missing": "absent", "n_epochs": 2, "tol": 0, "batch_size": 50}
    whole = MatrixFactorization(3, **params).fit(ratings[0], validation=0.2)

    class PowerCutError(Exception):
        pass

    def cut(progress):
        if progress.n_iter == 3:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        MatrixFactorization(3, checkpoint=tmp_path / "c", callbacks=cut, **params).fit(
            ratings[0], validation=0.2
        )
    resumed = MatrixFactorization(3, checkpoint=tmp_path / "c", **params)
    resumed.fit(ratings[0], validation=0.2)
    assert resumed.components_.tobytes() == whole.components_.tobytes()
    assert resumed.offsets_.tobytes() == whole.offsets_.tobytes()
    assert resumed.history_["objective"] == whole.history_["objective"]


def test_data_that_is_known_as_a_whole_can_be_centred_too():
    rng = np.random.default_rng(0)
    X = (5 + rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20))).astype(np.float32)
    model = DictionaryLearning(3, alpha=1e-3, center="both", random_state=0).fit(X)
    # The differences from the mean have rank three, the data itself has rank four.
    assert model.objective(X) < 0.01 * np.square(X - X.mean(axis=0)).sum(axis=1).mean() / 2
    plain = DictionaryLearning(3, alpha=1e-3, random_state=0).fit(X)
    assert model.objective(X) < 0.1 * plain.objective(X)
    assert model.components_.dtype == np.float32


def test_zeros_that_are_not_stored_cannot_be_centred(ratings):
    with pytest.raises(DataError, match="absent"):
        MatrixFactorization(3, **RIDGE).fit(ratings[0])


def test_another_fit_without_offsets_forgets_them(ratings):
    model = MatrixFactorization(3, missing="absent", **RIDGE).fit(ratings[0])
    model.set_params(center="none").fit(ratings[0])
    assert not hasattr(model, "offsets_")


def test_entries_of_weight_zero_have_no_part_in_offsets():
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((60, 8))
    weights = (rng.random(X.shape) < 0.7).astype(float)
    wrong = np.where(weights == 0, 1e4, X)
    found = [
        DictionaryLearning(3, center="both", random_state=0).fit(data, weights=weights)
        for data in (X, wrong)
    ]
    np.testing.assert_allclose(found[1].offsets_, found[0].offsets_)
    np.testing.assert_allclose(found[1].components_, found[0].components_)


def test_repeated_entries_of_a_sparse_matrix_are_added_up():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((40, 10)) < 0.5, rng.random((40, 10)) + 1, 0)
    row, column = np.nonzero(dense)
    half = dense[row, column] / 2
    indptr = np.searchsorted(np.repeat(row, 2), np.arange(41))
    twice = sp.csr_array((np.repeat(half, 2), np.repeat(column, 2), indptr), shape=(40, 10))
    params = {"missing": "absent", "center": "both", "random_state": 0, "n_epochs": 2}
    once = DictionaryLearning(2, **params).fit(sp.csr_array(dense))
    same = DictionaryLearning(2, **params).fit(twice)
    np.testing.assert_allclose(same.offsets_, once.offsets_)
    np.testing.assert_allclose(same.impute(twice), once.impute(sp.csr_array(dense)), atol=1e-12)


def test_an_infinite_entry_is_named_before_offsets_are_learned():
    X = np.ones((20, 5))
    X[7, 2] = np.inf
    with pytest.raises(somf.errors.NotFiniteError, match="row 7"):
        DictionaryLearning(2, center="both").fit(X)


def test_factors_that_are_not_negative_cannot_be_centred():
    with pytest.raises(somf.errors.ParameterError, match="center"):
        somf.NMF(2, center="both").fit(np.ones((20, 5)))


def test_a_change_of_center_after_a_fit_is_refused(tmp_path):
    X = np.random.default_rng(0).random((40, 5))
    model = DictionaryLearning(2, n_epochs=1).fit(X).set_params(center="both")
    with pytest.raises(somf.errors.ParameterError, match="center"):
        model.save(tmp_path / "m.somf")
    with pytest.raises(somf.errors.ParameterError, match="center"):
        model.partial_fit(X)
    assert model.inverse_transform(np.zeros((1, 2))).shape == (1, 5)


def shifted(n_samples=60, n_features=30):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_samples, n_features)) + 5 * rng.standard_normal(n_features)


@pytest.mark.parametrize("weighted", [False, True])
def test_means_of_features_are_subtracted_as_if_x_were_centred(weighted):
    X = shifted()
    counts = np.random.default_rng(1).integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    means = counts @ X / counts.sum()
    params = {"alpha": 0.5, "n_epochs": 3, "random_state": 0}
    model = DictionaryLearning(5, center="features", **params).fit(X, sample_weight=counts)
    other = DictionaryLearning(5, **params).fit(X - means, sample_weight=counts)
    np.testing.assert_allclose(model.offsets_, means)
    np.testing.assert_allclose(model.components_, other.components_, atol=1e-9)
    codes = model.transform(X)
    np.testing.assert_allclose(codes, other.transform(X - means), atol=1e-9)
    expected = other.inverse_transform(codes) + means
    np.testing.assert_allclose(model.inverse_transform(codes), expected)
    assert model.objective(X) == pytest.approx(other.objective(X - means))
    assert model.explained_variance(X) == pytest.approx(other.explained_variance(X - means))


def test_means_of_features_are_part_of_files_checkpoints_and_streams(tmp_path):
    X = shifted().astype(np.float32)
    params = {"center": "features", "atom_density": 0.3, "n_epochs": 3, "random_state": 0}
    path = tmp_path / "c"
    model = SparsePCA(4, **params, checkpoint=path).fit(X, validation=0.2)
    again = SparsePCA(4, **params, checkpoint=path).fit(X, validation=0.2)
    np.testing.assert_array_equal(model.components_, again.components_)
    assert model.offsets_.dtype == model.components_.dtype == np.float32
    model.save(tmp_path / "m.somf", state=True)
    loaded = somf.load(tmp_path / "m.somf")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(
        loaded.partial_fit(X).components_, model.partial_fit(X).components_
    )
    with pytest.raises(ParameterError, match="center must stay what it was"):
        model.set_params(center="none").partial_fit(X)


def test_means_of_features_are_refused_where_they_make_no_sense():
    X = shifted()
    with pytest.raises(DataError, match="for dense X, got a sparse"):
        DictionaryLearning(4, center="features").fit(sp.csr_array(X))
    with pytest.raises(ParameterError, match="center must be 'both' or 'none' where entries are"):
        DictionaryLearning(4, center="features").fit(X, weights=np.ones_like(X))
    X[7, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in row 7"):
        DictionaryLearning(4, center="features").fit(X)
    with pytest.raises(ParameterError, match="center must be 'none' where codes and atoms are not"):
        somf.NMF(4, center="features").fit(np.ones((10, 4)))
