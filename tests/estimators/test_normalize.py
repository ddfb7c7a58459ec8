"""Samples of unit norm: scaled as they are read, and codes scaled back."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

import somf
from somf import DictionaryLearning, ImagePatches
from somf.data import as_source
from somf.data.sources.normalized import NormalizedSource, row_norms

PARAMS = {"alpha": 0.2, "n_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module", name="X")
def samples(toy):
    scales = np.random.default_rng(0).uniform(1e-4, 1e4, (len(toy), 1))
    return np.concatenate([toy * scales, np.zeros((2, toy.shape[1]))])


@pytest.mark.parametrize("given", [np.asarray, sp.csr_array])
def test_a_fit_is_that_of_rows_of_unit_norm_and_codes_are_on_the_scale_of_x(X, given):
    model = DictionaryLearning(8, normalize=True, **PARAMS).fit(given(X))
    unit = DictionaryLearning(8, **PARAMS).fit(given(normalize(X)))
    np.testing.assert_allclose(model.components_, unit.components_, atol=1e-8)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    expected = unit.transform(normalize(X)) * norms
    np.testing.assert_allclose(model.transform(given(X)), expected, rtol=1e-5, atol=1e-3)
    assert model.objective(given(X)) == pytest.approx(unit.objective(normalize(X)))
    sparse = model.transform(given(X), sparse=True)
    np.testing.assert_allclose(sparse.toarray(), model.transform(given(X)))
    assert model.inverse_transform(sparse).shape == X.shape


def test_it_is_part_of_the_model_file_and_of_checkpoints(X, tmp_path):
    params = PARAMS | {"normalize": True, "checkpoint": tmp_path / "c"}
    model = DictionaryLearning(8, **params).fit(X)
    model.save(tmp_path / "m.somf")
    loaded = somf.load(tmp_path / "m.somf")
    assert loaded.normalize
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(somf.load(tmp_path / "c").components_, model.components_)
    with pytest.raises(ValueError, match="normalize: True then, False now"):
        DictionaryLearning(8, **params | {"normalize": False}).fit(X)


def test_files_and_validation_and_streams(X, tmp_path):
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    path = tmp_path / "X.npy"
    model = DictionaryLearning(8, normalize=True, **PARAMS).fit(path, validation=0.2)
    assert model.components_.dtype == np.float32
    assert model.history_["objective"][-1] < 0.6  # that of samples of unit norm
    codes = model.transform(path, out=tmp_path / "codes.npy")
    np.testing.assert_allclose(codes, model.transform(X.astype(np.float32)), rtol=1e-4, atol=1e-2)
    stream = DictionaryLearning(8, normalize=True, alpha=0.2, random_state=0)
    stream.partial_fit(X[:100]).partial_fit(X[100:])
    assert np.abs(stream.transform(X)).max() > 10


def test_patches_keep_their_geometry():
    image = np.random.default_rng(0).random((12, 12))
    model = DictionaryLearning(4, normalize=True, **PARAMS)
    assert model.fit(ImagePatches(image, (4, 4), scale=False)).patch_shape_ == (4, 4)


@pytest.mark.parametrize("change", [{"missing": "nan"}, {"center": "both"}])
def test_unknown_entries_and_offsets_are_refused(X, change):
    with pytest.raises(ValueError, match="normalize must be False where entries are unknown"):
        DictionaryLearning(8, normalize=True, **change).fit(X)


def test_weights_are_refused(X):
    with pytest.raises(ValueError, match="normalize must be False"):
        DictionaryLearning(8, normalize=True).fit(X, weights=np.ones_like(X))


@pytest.mark.parametrize("given", [np.asarray, sp.csr_array])
def test_norms_of_rows_neither_overflow_nor_underflow(given):
    X = np.array([[3e300, 4e300], [3e-300, 4e-300], [0.0, 0.0]])
    np.testing.assert_allclose(row_norms(given(X)), [5e300, 5e-300, 0])
    rows = NormalizedSource(as_source(given(X))).rows(np.array([1, 2]))
    dense = rows.toarray() if sp.issparse(rows) else rows
    np.testing.assert_allclose(dense, [[0.6, 0.8], [0, 0]])
