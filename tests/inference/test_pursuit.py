"""Codes of `transform` with at most some atoms, or of at most some error."""

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp

from somf import NMF, DictionaryLearning


@pytest.fixture(scope="module")
def model(toy):
    return DictionaryLearning(10, alpha=0.2, n_epochs=2, random_state=0).fit(toy)


def test_codes_have_at_most_so_many_atoms_and_are_those_of_a_pursuit(model, toy):
    codes = model.transform(toy, max_atoms=3)
    assert (np.count_nonzero(codes, axis=1) <= 3).all()
    unit = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
    theirs = orthogonal_mp(unit.T, toy.T, n_nonzero_coefs=3)
    np.testing.assert_allclose(codes @ model.components_, theirs.T @ unit, atol=1e-6)


def test_samples_get_atoms_until_their_error_is_small_enough(model, toy):
    allowed = np.linspace(0.5, 1.001, len(toy)) * np.linalg.norm(toy, axis=1)
    codes = model.transform(toy, max_error=allowed)
    error = np.linalg.norm(toy - codes @ model.components_, axis=1)
    is_full = np.count_nonzero(codes, axis=1) == 10
    assert ((error <= allowed * (1 + 1e-9)) | is_full).all()
    assert np.count_nonzero(codes[-1]) == 0
    both = model.transform(toy, max_error=allowed, max_atoms=2, sparse=True)
    np.testing.assert_array_equal(np.diff(both.indptr), np.minimum((codes != 0).sum(axis=1), 2))


def test_codes_of_known_entries_alone(toy):
    holes = toy.copy()
    holes[::2, ::3] = np.nan
    model = DictionaryLearning(5, missing="nan", n_epochs=1, random_state=0).fit(holes)
    codes, known = model.transform(holes, max_atoms=2), ~np.isnan(holes[0])
    residual = holes[0, known] - codes[0] @ model.components_[:, known]
    in_use = codes[0] != 0
    assert in_use.sum() == 2
    assert np.abs(model.components_[in_use][:, known] @ residual).max() < 1e-8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_atoms": 0}, "max_atoms must be at least 1, got 0"),
        ({"max_atoms": 2.0}, "max_atoms must be an integer, got 2.0"),
        ({"max_error": -1}, "max_error must be at least 0, got -1"),
        ({"max_error": [1, 2]}, "max_error must be a number, or have one entry per sample"),
    ],
)
def test_wrong_bounds_are_refused(model, toy, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.transform(toy, **arguments)


def test_codes_that_must_not_be_negative_are_refused(toy):
    model = NMF(5, n_epochs=1, random_state=0).fit(abs(toy))
    with pytest.raises(ValueError, match="max_atoms must be None where codes are not negative"):
        model.transform(abs(toy), max_atoms=2)
