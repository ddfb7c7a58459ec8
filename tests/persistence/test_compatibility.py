"""Files that earlier versions have written; tests/fixtures has one of each kind.

They were written on ``X``: models after one epoch, whose order has never changed, the checkpoint
after the fourth of six minibatches.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import somf

FIXTURES = Path(__file__).parents[1] / "fixtures"
X = np.random.default_rng(0).uniform(size=(60, 12))
PARAMS = {
    "alpha": 0.1,
    "batch_size": 10,
    "n_epochs": 1,
    "tol": 0.0,
    "learning_rate": 0.92,
    "code_estimator": "averaged",
    "init": "samples",
    "random_state": 0,
}
MODELS = {
    "dictionary_learning-0.1.0": somf.DictionaryLearning(5, reduction=3, **PARAMS),
    "nmf-0.1.0": somf.NMF(5, reduction="auto", surrogate="incremental", **PARAMS),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_an_earlier_version_is_that_of_the_same_fit_today(name):
    loaded, fitted = somf.load(FIXTURES / f"{name}.somf"), MODELS[name].fit(X, validation=0.1)
    assert type(loaded) is type(fitted)
    # Codes are solved to a tolerance, so that another solver gives other digits.
    np.testing.assert_allclose(loaded.components_, fitted.components_, atol=0.01)
    objective = fitted.history_["objective"]
    np.testing.assert_allclose(loaded.history_["objective"], objective, rtol=1e-3)
    assert loaded.n_samples_seen_ == fitted.n_samples_seen_ == 54


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_an_earlier_version_continues_to_learn(name):
    loaded, fitted = somf.load(FIXTURES / f"{name}.somf"), MODELS[name].fit(X, validation=0.1)
    more = np.random.default_rng(1).uniform(size=(30, 12))
    for model in (loaded, fitted):
        model.partial_fit(more)
    np.testing.assert_allclose(loaded.components_, fitted.components_, atol=0.01)
    assert loaded.n_samples_seen_ == fitted.n_samples_seen_ == 84


def test_a_checkpoint_of_an_earlier_version_is_resumed(tmp_path):
    name = "dictionary_learning-0.1.0.checkpoint"
    shutil.copy(FIXTURES / name, tmp_path / "c")
    steps = []
    resumed = somf.DictionaryLearning(
        5,
        reduction=3,
        **PARAMS,
        checkpoint=tmp_path / "c",
        callbacks=lambda p: steps.append(p.n_iter),
    ).fit(X, validation=0.1)
    assert steps == [4, 5, 6]
    fitted = MODELS["dictionary_learning-0.1.0"].fit(X, validation=0.1)
    np.testing.assert_allclose(resumed.components_, fitted.components_, atol=0.01)
    assert resumed.history_["n_samples_seen"] == fitted.history_["n_samples_seen"]


def test_a_checkpoint_of_a_second_epoch_that_had_another_order_is_resumed(tmp_path):
    name = "dictionary_learning-0.1.0-second-epoch.checkpoint"  # after the first of its minibatches
    shutil.copy(FIXTURES / name, tmp_path / "c")
    model = somf.DictionaryLearning(5, reduction=3, **PARAMS | {"n_epochs": 2})
    resumed = clone(model).set_params(checkpoint=tmp_path / "c").fit(X, validation=0.1)
    fitted = model.fit(X, validation=0.1)
    assert resumed.history_["n_samples_seen"] == fitted.history_["n_samples_seen"] == [0, 54, 108]
    objectives = resumed.history_["objective"], fitted.history_["objective"]
    assert objectives[0][:2] == pytest.approx(objectives[1][:2])
    assert objectives[0][2] == pytest.approx(objectives[1][2], rel=0.05)


def test_a_model_of_an_earlier_version_knows_its_patches():
    model = somf.load(FIXTURES / "sparse_pca_patches-0.1.0.somf")
    assert model.patch_shape_ == (4, 4)
    assert model.transform(somf.ImagePatches(np.ones((8, 12)), 4)).shape == (45, 3)
