"""Gene programs: factorizations that converge, and usages of given programs."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.decomposition import non_negative_factorization

from somf.errors import DataError, ParameterError
from somf.integrations import gene_programs
from somf.integrations.gene_programs import factorize, usages_of


def counts():
    rng = np.random.default_rng(0)
    mean = rng.gamma(0.3, 3.0, (120, 3)) @ rng.gamma(0.3, 3.0, (3, 15))
    return rng.poisson(mean).astype(np.float64)


def test_a_factorization_is_as_good_as_that_of_scikit_learn():
    X = counts()
    W, H, _ = non_negative_factorization(
        X, n_components=3, init="random", solver="cd", max_iter=1000, random_state=0
    )
    spectra, usages = factorize(sp.csr_matrix(X), 3, random_state=0)
    error = np.square(X - usages @ spectra).sum()
    assert error <= np.square(X - W @ H).sum() * (1 + 1e-4)
    assert spectra.min() >= 0
    assert usages.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(spectra, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("most", [{"ONLINE_CELLS": 40}, {"ONLINE_ENTRIES": 15 * 40}])
def test_the_online_fit_sees_a_part_of_many_cells(monkeypatch, most):
    for name, value in most.items():
        monkeypatch.setattr(gene_programs, name, value)
    X = sp.csr_matrix(counts())
    spectra, usages = factorize(X, 3, random_state=1)
    assert usages.shape == (120, 3)
    error = np.square(X.toarray() - usages @ spectra).sum()
    again, theirs = factorize(X.toarray(), 3, random_state=1)
    assert np.square(X.toarray() - theirs @ again).sum() == pytest.approx(error, rel=1e-3)


def test_the_better_half_of_the_starts_goes_on_until_one_is_left(monkeypatch):
    monkeypatch.setattr(gene_programs, "FEWEST_STARTS", 6)
    starts = iter([np.eye(15, 3, k=-j, dtype=np.float32) for j in range(6)])
    monkeypatch.setattr(gene_programs, "_online", lambda *_: next(starts))
    refined, rounds = gene_programs.refine, {}

    def note(X, D, *others, max_passes, **options):
        found = refined(X, D, *others, max_passes=max_passes, **options)
        rounds.setdefault(max_passes, []).append((found.objective, D.tobytes(), found.D.tobytes()))
        return found

    monkeypatch.setattr(gene_programs, "refine", note)
    factorize(counts(), 3, max_iter=1000)
    assert {passes: len(tried) for passes, tried in rounds.items()} == {3: 6, 9: 3, 1000: 1}
    for tried, later in itertools.pairwise(rounds.values()):
        best = [after for *_, after in sorted(tried)[: len(later)]]
        assert sorted(before for _, before, _ in later) == sorted(best)


def test_more_cells_and_programs_have_more_starts():
    counts = [
        gene_programs._n_starts(n, k, "random") for n, k in ((100, 5), (20_000, 20), (10**6, 50))
    ]
    assert counts[0] == gene_programs.FEWEST_STARTS < counts[1] < counts[2]
    assert counts[2] == gene_programs.MOST_STARTS
    assert gene_programs._n_starts(10**6, 50, "nndsvd") == 1


def test_usages_are_those_of_non_negative_least_squares():
    X, rng = counts(), np.random.default_rng(1)
    spectra = rng.gamma(0.5, 1.0, (3, 15)) * np.array([[1e-6], [1.0], [1e6]])
    expected = np.array([nnls(spectra.T, x)[0] for x in X])
    for given in (X, sp.csr_matrix(X), sp.csc_array(X)):
        np.testing.assert_allclose(usages_of(given, spectra), expected, rtol=1e-6, atol=1e-12)


def test_a_program_without_genes_is_not_used():
    spectra = np.vstack([np.zeros(15), np.ones(15)])
    usages = usages_of(counts(), spectra)
    assert not usages[:, 0].any()
    np.testing.assert_allclose(usages[:, 1], counts().mean(axis=1))


def test_what_cannot_be_factorized_is_refused():
    with pytest.raises(ParameterError, match=r"init must be one of .* got 'custom'"):
        factorize(counts(), 3, init="custom")
    X = counts()
    X[3, 2] = np.nan
    for given in (X, sp.csr_matrix(X)):
        with pytest.raises(DataError, match="X must be finite, got NaN in row 3"):
            factorize(given, 3)
