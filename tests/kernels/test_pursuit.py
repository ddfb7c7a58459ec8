"""Orthogonal matching pursuit: greedy choices, least squares, limits."""

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp_gram

from somf import NMF, DictionaryLearning
from somf.errors import ParameterError
from somf.kernels.cpu.pursuit import pursue


def problem(n=40, p=20, k=30, seed=0):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((k, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return D, rng.standard_normal((n, p))


def pursued(D, X, max_atoms, max_error=0.0):
    return pursue((D @ D.T)[None], X @ D.T, (X**2).sum(axis=1), max_atoms, max_error)


@pytest.mark.parametrize("max_atoms", [1, 4, 12])
def test_codes_are_those_of_scikit_learn(max_atoms):
    D, X = problem()
    expected = orthogonal_mp_gram(D @ D.T, D @ X.T, n_nonzero_coefs=max_atoms).T
    np.testing.assert_allclose(pursued(D, X, max_atoms), expected, atol=1e-8)


def test_atoms_are_added_until_the_error_is_small_enough():
    D, X = problem()
    codes = pursued(D, X, 30, max_error=2.0)
    errors = np.linalg.norm(X - codes @ D, axis=1)
    assert (errors <= 2.0 + 1e-9).all()
    for x, code in zip(X, codes, strict=True):
        count = np.count_nonzero(code)
        before = pursued(D, x[None], max(count - 1, 1))[0] if count > 1 else np.zeros(30)
        assert count == 0 or np.linalg.norm(x - before @ D) > 2.0


def test_residuals_are_orthogonal_to_the_chosen_atoms_of_any_norm():
    D, X = problem()
    D[3], D[4] = 0, 2 * D[5]  # an atom that is zero, and two that are parallel
    codes = pursued(D * np.linspace(0.1, 3, 30)[:, None], X, 6)
    residual = X - codes @ (D * np.linspace(0.1, 3, 30)[:, None])
    assert np.abs(residual @ D.T)[codes != 0].max() < 1e-9
    assert not codes[:, 3].any()
    assert (np.count_nonzero(codes, axis=1) == 6).all()


def test_a_sample_may_have_a_gram_matrix_of_its_own():
    D, X = problem(n=5)
    known = np.random.default_rng(1).random(X.shape) < 0.7
    grams = np.stack([(D * m) @ D.T for m in known])
    seen = X * known
    codes = pursue(grams, seen @ D.T, (seen**2).sum(axis=1), 3, 0.0)
    for x, mask, code in zip(X, known, codes, strict=True):
        chosen = np.flatnonzero(code)
        best, *_ = np.linalg.lstsq((D[chosen] * mask).T, x * mask, rcond=None)
        np.testing.assert_allclose(code[chosen], best, atol=1e-9)


def test_transform_pursues_codes(toy):
    model = DictionaryLearning(8, alpha=0.1, n_epochs=2, random_state=0).fit(toy)
    codes = model.transform(toy, max_atoms=3)
    assert np.count_nonzero(codes, axis=1).max() == 3
    close = model.transform(toy, max_error=0.4 * np.linalg.norm(toy[0]), sparse=True)
    assert np.linalg.norm(toy[0] - close[[0]] @ model.components_) <= 0.4 * np.linalg.norm(toy[0])
    single = DictionaryLearning(8, n_epochs=2, random_state=0).fit(toy.astype(np.float32))
    assert single.transform(toy.astype(np.float32), max_atoms=2).dtype == np.float32


def test_limits_that_make_no_sense_are_refused(toy):
    model = DictionaryLearning(3, n_epochs=1).fit(toy)
    with pytest.raises(ParameterError, match="max_atoms must be an integer of at least 1, got 0"):
        model.transform(toy, max_atoms=0)
    with pytest.raises(ParameterError, match="max_error must be a number of at least 0, got -1"):
        model.transform(toy, max_error=-1)
    positive = NMF(3, n_epochs=1).fit(np.abs(toy))
    with pytest.raises(ParameterError, match="max_atoms must not be given, nor max_error"):
        positive.transform(np.abs(toy), max_atoms=2)
