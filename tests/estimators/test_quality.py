"""`reconstruction_err_` and `explained_variance_ratio_`, after fits to small data in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA

import somf
from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.estimators import quality
from somf.persistence import modelfile

ESTIMATORS = [
    DictionaryLearning(4, alpha=0.2, n_epochs=2, random_state=0),
    SparsePCA(4, atom_density=0.3, center="features", n_epochs=2, random_state=0),
    NMF(4, n_epochs=2, random_state=0),
]


def deviations(X):
    return X - X.mean(axis=0)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_the_reconstruction_error_is_the_norm_of_what_transform_leaves(model, toy):
    X = np.abs(toy)
    model.fit(X)
    left = X - model.inverse_transform(model.transform(X))
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(left), rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_shares_of_atoms_add_up_to_the_variance_that_is_explained(toy, kind):
    X = toy + 3.0
    model = DictionaryLearning(6, alpha=0.2, n_epochs=2, random_state=0).fit(kind(X))
    left = X - model.inverse_transform(model.transform(X))
    explained = 1 - (deviations(left) ** 2).sum() / (deviations(X) ** 2).sum()
    assert model.explained_variance_ratio_.shape == (6,)
    assert model.explained_variance_ratio_.sum() == pytest.approx(explained, rel=1e-4)


def test_principal_components_have_the_shares_that_pca_has(toy):
    pca = PCA(5).fit(toy)
    params = {"alpha": 0.0, "l1_ratio": 0.0, "center": "features", "n_epochs": 1}
    model = MatrixFactorization(5, **params, init=pca.components_, random_state=0).fit(toy)
    model.components_ = pca.components_
    shares = model.measure(toy).explained_variance_ratio
    np.testing.assert_allclose(shares, pca.explained_variance_ratio_, rtol=1e-5)


def test_an_atom_that_no_sample_uses_has_no_share(toy):
    model = DictionaryLearning(3, alpha=0.2, n_epochs=1, random_state=0).fit(toy)
    model.components_ = np.vstack([model.components_[:2], np.zeros((1, 60))])
    assert model.measure(toy).explained_variance_ratio[2] == 0


def test_unknown_entries_have_an_error_and_no_shares(toy):
    X = toy.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    model = DictionaryLearning(4, alpha=0.05, missing="nan", n_epochs=2, random_state=0).fit(X)
    left = X - model.inverse_transform(model.transform(X))
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(np.nansum(left**2)), rel=1e-5)
    assert not hasattr(model, "explained_variance_ratio_")


def test_files_and_large_data_are_not_read_again_and_an_error_says_so(toy, tmp_path, monkeypatch):
    model = DictionaryLearning(4, n_epochs=1, random_state=0)
    np.save(tmp_path / "X.npy", toy)
    model.fit(tmp_path / "X.npy")
    with pytest.raises(AttributeError, match=r"measure\(X\)\.reconstruction_err is the same"):
        _ = model.reconstruction_err_
    monkeypatch.setattr(quality, "FEW_ENTRIES", toy.size - 1)
    assert not hasattr(model.fit(toy), "explained_variance_ratio_")


def test_after_many_epochs_more_data_is_read_again(toy, monkeypatch):
    monkeypatch.setattr(quality, "FEW_ENTRIES", toy.size - 1)
    model = DictionaryLearning(4, n_epochs=quality.MANY_EPOCHS, tol=0, random_state=0).fit(toy)
    assert hasattr(model, "reconstruction_err_")
    monkeypatch.setattr(quality, "MOST_ENTRIES", toy.size - 1)
    assert not hasattr(model.fit(toy), "reconstruction_err_")


def test_learning_on_leaves_no_error_of_earlier_atoms(toy):
    model = DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy)
    assert hasattr(model, "reconstruction_err_")
    assert not hasattr(model.partial_fit(toy), "reconstruction_err_")


def test_a_saved_model_keeps_them(toy, tmp_path):
    model = DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy)
    model.save(tmp_path / "model.somf")
    loaded = somf.load(tmp_path / "model.somf")
    assert loaded.reconstruction_err_ == model.reconstruction_err_
    np.testing.assert_array_equal(loaded.explained_variance_ratio_, model.explained_variance_ratio_)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reconstruction_err": -1.0},
        {"reconstruction_err": "1"},
        {"explained_variance_ratio": np.ones(3)},
        {"explained_variance_ratio": np.array(["1"] * 4)},
    ],
    ids=str,
)
def test_a_file_with_other_things_in_their_place_is_refused(toy, tmp_path, wrong):
    model = DictionaryLearning(4, n_epochs=1, random_state=0).fit(toy)
    found = {"reconstruction_err": 1.0, "explained_variance_ratio": np.ones(4)} | wrong
    content = modelfile.Model(
        kind="DictionaryLearning",
        params=model.get_params(deep=False),
        learned=model.components_,
        history={},
        feature_names=None,
        patches=None,
        alpha=0.1,
        n_iter=1,
        n_samples_seen=1,
        **found,
    )
    modelfile.save(tmp_path / "model.somf", content)
    with pytest.raises(somf.errors.DamagedFileError):
        somf.load(tmp_path / "model.somf")
