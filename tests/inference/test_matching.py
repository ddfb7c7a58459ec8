"""Atoms of two dictionaries are matched whatever their order, signs and lengths."""

import itertools

import numpy as np
import pytest

from somf import NMF, DictionaryLearning
from somf.inference.matching import match_atoms


def test_shuffled_atoms_are_found_again_with_their_signs():
    rng = np.random.default_rng(0)
    atoms, order = rng.standard_normal((6, 20)), rng.permutation(6)
    signs, lengths = rng.choice([-1, 1], 6), rng.uniform(0.1, 3, 6)
    found = match_atoms(atoms, (signs * lengths)[:, None] * atoms[order])
    np.testing.assert_allclose(found.similarity, 1)
    np.testing.assert_array_equal(order[found.pairs[:, 1]], found.pairs[:, 0])
    np.testing.assert_array_equal(found.sign, signs[found.pairs[:, 1]])
    assert found.mean == pytest.approx(1)


@pytest.mark.parametrize("ignore_sign", [True, False])
def test_no_other_matching_has_a_larger_sum(ignore_sign):
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal((4, 9)), rng.standard_normal((5, 9))
    found = match_atoms(one, other, ignore_sign=ignore_sign)
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    cosine = one @ other.T / lengths
    cosine = np.abs(cosine) if ignore_sign else cosine
    sums = [cosine[range(4), chosen].sum() for chosen in itertools.permutations(range(5), 4)]
    assert found.similarity.sum() == pytest.approx(max(sums))
    assert list(found.similarity) == sorted(found.similarity, reverse=True)
    assert len(found.unmatched[0]) == 0
    assert set(found.pairs[:, 1]) | set(found.unmatched[1]) == set(range(5))


def test_the_sign_of_an_atom_counts_where_codes_cannot_be_negative(toy):
    for kind, similarity in ((DictionaryLearning, 1.0), (NMF, -1.0)):
        model = kind(1, n_epochs=1, random_state=0).fit(np.abs(toy))
        assert match_atoms(model, -model.components_).similarity[0] == pytest.approx(similarity)


def test_a_zero_atom_is_similar_to_none():
    found = match_atoms(np.array([[0.0, 0.0], [1.0, 0.0]]), np.eye(2))
    assert found.similarity.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("other", [np.ones((2, 3)), np.ones(4), np.full((2, 4), np.nan), "model"])
def test_what_cannot_be_matched_is_refused_by_name(other):
    with pytest.raises(ValueError, match="other must"):
        match_atoms(np.ones((2, 4)), other)
