"""Codes that are empty, or dense, are not left without a word."""

import warnings

import numpy as np
import pytest

from somf import DictionaryLearning, SparsePCA
from somf.errors import SparsityWarning
from tests.helpers.problems import planted

PARAMS = {"n_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    X = planted(300, 20, 12, density=0.15)[0]
    return X[X.any(axis=1)] / np.linalg.norm(X[X.any(axis=1)], axis=1, keepdims=True)


@pytest.mark.parametrize(("scale", "words"), [(1e-3, "codes are empty"), (1e5, "Codes have den")])
def test_the_wrong_scale_is_reported_with_an_alpha_that_would_do(data, scale, words):
    with pytest.warns(SparsityWarning, match=words) as caught:
        DictionaryLearning(12, **PARAMS).fit(scale * data)
    text = str(caught[0].message)
    alpha = float(text.split(". alpha=")[1].split(maxsplit=1)[0])
    model = DictionaryLearning(12, alpha=alpha, **PARAMS).fit(scale * data)
    assert 0.02 < np.mean(model.transform(scale * data) != 0) < 0.4


def test_codes_of_the_right_scale_and_samples_that_are_zero_are_no_reason_to_warn(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DictionaryLearning(12, **PARAMS).fit(data)
        DictionaryLearning(12, **PARAMS).fit(np.concatenate([data, np.zeros((5000, 20))]))
        SparsePCA(5, alpha=1e-3, **PARAMS).fit(data)
