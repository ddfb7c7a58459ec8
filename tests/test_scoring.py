"""Scores for a search over hyper-parameters."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from somf import DictionaryLearning
from somf.scoring import ExplainedVariance
from tests.helpers.problems import planted


@pytest.fixture(scope="module")
def data():
    return planted(300, 20, 12, density=0.15)[0]


def test_a_search_at_equal_density_does_not_prefer_the_smallest_alpha(data):
    model = DictionaryLearning(12, n_epochs=10, random_state=0)
    grid = {"alpha": [1e-4, 0.1]}
    by_score = GridSearchCV(model, grid, cv=2).fit(data)
    by_variance = GridSearchCV(model, grid, cv=2, scoring=ExplainedVariance(2)).fit(data)
    assert by_score.best_params_["alpha"] == 1e-4
    assert by_variance.best_params_["alpha"] == 0.1


@pytest.mark.parametrize("max_atoms", [None, 2])
def test_the_score_is_the_explained_variance_of_codes(data, max_atoms):
    model = DictionaryLearning(5, alpha=0.1, n_epochs=2, random_state=0).fit(data)
    codes = model.transform(data, max_atoms=max_atoms)
    error = np.square(data - codes @ model.components_).sum()
    expected = 1 - error / np.square(data - data.mean(axis=0)).sum()
    assert ExplainedVariance(max_atoms)(model, data) == pytest.approx(expected)
    if max_atoms is None:
        assert model.measure(data).explained_variance == pytest.approx(expected)


def test_a_pipeline_is_scored_on_what_its_last_step_sees(data):
    model = DictionaryLearning(5, n_epochs=2, random_state=0)
    pipeline = make_pipeline(Normalizer(), model).fit(data)
    expected = model.explained_variance(Normalizer().transform(data))
    assert ExplainedVariance()(pipeline, data) == expected


def test_other_estimators_are_refused(data):
    with pytest.raises(TypeError, match="estimator must be an estimator of somf"):
        ExplainedVariance()(PCA(2).fit(data), data)
