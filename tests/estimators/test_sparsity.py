"""Codes that are empty, or dense, are not left without a word."""

import warnings

import numpy as np
import pytest

from somf import DictionaryLearning, SparsePCA
from somf.errors import SparsityWarning
from somf.estimators.sparsity import warn_about_atoms
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


@pytest.mark.parametrize(("scale", "words"), [(1e-3, "codes are empty"), (1e5, "Codes have den")])
def test_the_wrong_scale_is_reported_by_the_first_partial_fit_alone(data, scale, words):
    model = DictionaryLearning(12, random_state=0)
    with pytest.warns(SparsityWarning, match=words):
        model.partial_fit(scale * data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(scale * data)


def test_samples_on_another_scale_than_those_of_the_fit_are_reported_by_transform(data):
    model = DictionaryLearning(12, **PARAMS).fit(data)
    with pytest.warns(SparsityWarning, match="codes are empty.*on the scale of those of the fit"):
        model.transform(1e-3 * data)
    with pytest.warns(SparsityWarning, match="Codes have density") as caught:
        model.transform(1e5 * data)
    alpha = float(str(caught[0].message).split("transform_alpha=")[1].split(maxsplit=1)[0])
    codes = model.set_params(transform_alpha=alpha).transform(1e5 * data)
    assert 0.05 < np.mean(codes != 0) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(1e-3 * data[:3])  # a few samples may well be empty
        model.transform(1e5 * data, max_atoms=2)


def test_codes_of_few_atoms_may_be_dense_unless_the_penalty_has_no_effect(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DictionaryLearning(3, alpha=0.01, **PARAMS).fit(data)
    with pytest.warns(SparsityWarning, match="Codes have density"):
        DictionaryLearning(3, alpha=1e-5, **PARAMS).fit(data)


def test_fit_transform_warns_once(data):
    with pytest.warns(SparsityWarning) as caught:
        DictionaryLearning(12, **PARAMS).fit_transform(1e-3 * data)
    assert len(caught) == 1


def test_atoms_of_another_density_than_requested_are_reported_with_a_better_alpha():
    components = np.zeros((4, 100))
    components[:, :60] = 1
    with pytest.warns(SparsityWarning, match="Atoms have density 0.6 with alpha=1,") as caught:
        warn_about_atoms(0.9, 1.0, components)
    assert 0.01 < float(str(caught[0].message).split(". alpha=")[1].split(maxsplit=1)[0]) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_atoms(0.5, 1.0, components)
        warn_about_atoms(0.001, 1.0, np.eye(4, 100))  # atoms have at least one entry
