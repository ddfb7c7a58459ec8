"""Orthogonal matching pursuit: few atoms per sample, least squares on them."""

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp_gram

from somf.kernels import reference
from somf.kernels.cpu import pursuit

KERNELS = pytest.mark.parametrize("pursue", [reference.pursue, pursuit.pursue])


def problem(b=7, p=20, k=12, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((p, k))
    D /= np.linalg.norm(D, axis=0)
    return rng.standard_normal((b, p)).astype(dtype), D.astype(dtype)


def run(pursue, X, D, max_atoms, max_error=0.0):
    code = np.full((len(X), D.shape[1]), np.nan, X.dtype)
    bounds = np.full(len(X), max_error**2)
    error = pursue((D.T @ D)[None], X @ D, np.square(X).sum(axis=1), max_atoms, bounds, code)
    return code, error


@KERNELS
@pytest.mark.parametrize("max_atoms", [1, 4, 12])
def test_codes_are_those_of_scikit_learn(pursue, max_atoms):
    X, D = problem()
    code, error = run(pursue, X, D, max_atoms)
    theirs = orthogonal_mp_gram(D.T @ D, D.T @ X.T, n_nonzero_coefs=max_atoms)
    np.testing.assert_allclose(code, theirs.T, atol=1e-10)
    np.testing.assert_allclose(error, np.square(X - code @ D.T).sum(axis=1), atol=1e-10)


@KERNELS
def test_a_code_ends_at_the_error_that_is_allowed(pursue):
    X, D = problem()
    code, error = run(pursue, X, D, 12, max_error=3.5)
    assert (error <= 3.5**2).all()
    for x, a in zip(X, code, strict=True):
        theirs = orthogonal_mp_gram(D.T @ D, D.T @ x, tol=3.5**2, norms_squared=x @ x)
        np.testing.assert_allclose(a, theirs, atol=1e-10)


@KERNELS
def test_the_residual_is_orthogonal_to_the_atoms_in_use_whatever_their_norms(pursue):
    X, D = problem()
    D *= np.linspace(0.1, 1.0, 12)
    code, _ = run(pursue, X, D, 5)
    assert (np.count_nonzero(code, axis=1) == 5).all()
    assert np.abs(((X - code @ D.T) @ D)[code != 0]).max() < 1e-10
    unit, _ = run(pursue, X, D / np.linalg.norm(D, axis=0), 5)
    np.testing.assert_array_equal(unit != 0, code != 0)


@KERNELS
def test_atoms_that_are_zero_or_repeated_are_not_used(pursue):
    X, D = problem()
    D[:, 3], D[:, 5:] = 0, D[:, 4:5]
    code, error = run(pursue, X, D, 12)
    assert (np.count_nonzero(code, axis=1) <= 4).all()
    basis = D[:, [0, 1, 2, 4]]
    best = np.linalg.lstsq(basis, X.T, rcond=None)[0]
    np.testing.assert_allclose(error, np.square(X.T - basis @ best).sum(axis=0), atol=1e-9)
    np.testing.assert_array_equal(run(pursue, 0 * X, D, 3)[0], 0)


@pytest.mark.parametrize("own_grams", [False, True])
def test_the_compiled_kernel_agrees_with_the_reference(own_grams):
    X, D = problem(b=40, dtype=np.float32)
    grams = (D.T @ D)[None]
    if own_grams:
        grams = np.stack([(1 + i / 40) * grams[0] for i in range(40)])
    codes = [np.empty((40, 12), np.float32) for _ in range(2)]
    bounds, sq_norm = np.zeros(40), np.square(X).sum(axis=1)
    errors = [
        pursue(grams, X @ D, sq_norm, 4, bounds, code)
        for pursue, code in zip((reference.pursue, pursuit.pursue), codes, strict=True)
    ]
    np.testing.assert_allclose(codes[0], codes[1], atol=1e-4)
    np.testing.assert_allclose(errors[0], errors[1], atol=1e-4)
