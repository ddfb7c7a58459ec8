"""`reduction="auto"`: when it is probed, when it is given up, and what results."""

import numpy as np
import pytest

import somf
from somf import NMF, DictionaryLearning, SparsePCA
from somf.algorithm.schedule import STRONGEST, is_probe, tolerance
from somf.algorithm.solver import Solver
from tests.helpers.problems import planted

VARIANTS = [
    {"code_estimator": code_estimator, "masks": masks, "surrogate": surrogate}
    for code_estimator in ("averaged", "masked", "exact")
    for masks in ("blocks", "bernoulli")
    for surrogate in ("online", "incremental")
]


def reduction_of(model):
    """Return the reduction at which a fit has ended."""
    return Solver(model._config(), model._state).reduction


# When it is probed, and what is tolerated


def test_probes_are_at_the_start_then_after_two_cycles_and_get_rare():
    assert [t for t in range(400) if is_probe(t)] == [0, 24, 48, 96, 192, 384]
    assert sum(is_probe(t) for t in range(100_000)) < 30


def test_less_is_tolerated_after_more_samples():
    seen = [0, 1000, 10_000, 10**6, 10**8]
    tolerances = [tolerance(n) for n in seen]
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[-1] < 0.01 * tolerances[0]


# What results


def test_redundant_features_keep_the_strongest_reduction():
    X, _ = planted(200, 20_000, 4)
    model = DictionaryLearning(4, alpha=0.3, batch_size=4, random_state=0).partial_fit(X)
    assert reduction_of(model) == STRONGEST


@pytest.mark.parametrize("code_estimator", ["averaged", "masked", "exact"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_minibatches_with_more_samples_than_atoms_use_all_features(code_estimator, surrogate):
    X, _ = planted(200, 2000, 4)
    params = {"code_estimator": code_estimator, "surrogate": surrogate, "batch_size": 5}
    auto, everything = (
        DictionaryLearning(4, alpha=0.3, n_epochs=2, tol=0, random_state=0, **params)
        .set_params(reduction=reduction)
        .fit(X)
        for reduction in ("auto", 1)
    )
    np.testing.assert_array_equal(auto.components_, everything.components_)
    assert auto._state.permutation is None


def test_small_portions_of_a_stream_may_be_subsampled():
    X, _ = planted(200, 20_000, 4)
    model = DictionaryLearning(40, alpha=0.3, random_state=0)
    for first in range(0, 60, 20):  # the default batch size is 80
        model.partial_fit(X[first : first + 20])
    assert reduction_of(model) == STRONGEST


def test_masks_that_are_too_small_for_the_atoms_are_not_used_at_all():
    X, _ = planted(200, 24, 16)
    model = DictionaryLearning(16, reduction="auto", random_state=0).partial_fit(X[:50])
    assert reduction_of(model) == 1
    everything = DictionaryLearning(16, reduction=1, random_state=0).partial_fit(X[:50])
    np.testing.assert_allclose(model.components_, everything.components_, atol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: " ".join(v.values()))
def test_every_variant_learns_with_it(toy, variant):
    model = DictionaryLearning(10, reduction="auto", n_epochs=10, random_state=0, **variant)
    model.fit(toy, validation=0.1)
    objective = model.history_["objective"]
    assert objective[-1] < 0.8 * objective[0]
    assert reduction_of(model) == 1


def test_without_a_penalty_on_codes_there_is_no_subsampling():
    X = np.abs(planted(200, 20_000, 4)[0])
    model = NMF(4, alpha=0, reduction="auto", random_state=0)
    assert reduction_of(model.partial_fit(X[:50])) == 1
    everything = NMF(4, alpha=0, reduction=1, random_state=0).partial_fit(X[:50])
    np.testing.assert_allclose(model.components_, everything.components_, atol=1e-3)


@pytest.mark.parametrize("kind", [SparsePCA, NMF])
def test_other_problems_learn_with_it(toy, kind):
    model = kind(10, alpha=0.01, reduction="auto", n_epochs=5, random_state=0)
    model.fit(np.abs(toy), validation=0.1)
    assert model.history_["objective"][-1] < model.history_["objective"][0]


def test_masked_codes_reach_a_stationary_point_with_it(toy):
    params = {"code_estimator": "masked", "surrogate": "incremental", "batch_size": 10}
    model = DictionaryLearning(10, reduction="auto", n_epochs=60, tol=0, random_state=0, **params)
    model.fit(toy)
    assert model.stationarity_gap(toy) < 1e-8  # with reduction=3 it is more than 1e-4


def test_the_reduction_is_given_up_as_less_is_tolerated_and_never_rises():
    X, _ = planted(400, 2000, 4, noise=0.1)
    model = DictionaryLearning(4, reduction="auto", batch_size=4, random_state=0)
    found = [reduction_of(model.partial_fit(X)) for _ in range(8)]
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (STRONGEST, 1)


def test_alpha_and_reduction_may_both_be_auto(tmp_path):
    X, _ = planted(200, 20_000, 4)
    params = {"alpha": "auto", "code_density": 0.5, "reduction": "auto", "batch_size": 4}
    model = DictionaryLearning(4, random_state=0, **params).partial_fit(X)
    assert model.alpha_ > 0
    assert reduction_of(model) == STRONGEST
    model.save(tmp_path / "model.somf", state=True)
    somf.load(tmp_path / "model.somf").partial_fit(X)


def test_a_penalty_may_come_later(toy):
    model = NMF(4, alpha=0, reduction="auto", random_state=0).partial_fit(np.abs(toy))
    model.set_params(alpha=0.1).partial_fit(np.abs(toy))
    assert reduction_of(model) == 1


def test_the_type_of_the_data_is_kept(toy):
    model = DictionaryLearning(10, reduction="auto", random_state=0).fit(toy.astype(np.float32))
    assert {a.dtype for n, a in model._state.arrays().items() if a.dtype.kind == "f"} == {
        np.dtype(np.float32)
    }


def test_numbers_that_overflow_are_reported(toy):
    with pytest.raises(ValueError, match="overflows"), np.errstate(all="ignore"):
        DictionaryLearning(4, reduction="auto", random_state=0).fit((toy * 1e25).astype(np.float32))


def test_the_parameter_must_stay_while_learning_continues(toy):
    model = DictionaryLearning(4, reduction="auto", random_state=0).partial_fit(toy)
    with pytest.raises(ValueError, match="reduction must stay 'auto' while learning continues"):
        model.set_params(reduction=12).partial_fit(toy)


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_when_all_features_are_used_only_what_omf_needs_is_kept(toy, masks, surrogate):
    model = DictionaryLearning(
        10, reduction="auto", masks=masks, surrogate=surrogate, n_epochs=4, random_state=0
    ).fit(toy)
    state = model._state
    assert reduction_of(model) == 1
    assert (len(state.norms), len(state.grams)) == (1, 1)
    np.testing.assert_allclose(state.norms[0], (state.D**2).sum(axis=0))
    if surrogate == "online":
        assert state.memory is None
    else:
        assert (state.memory.beta.size, state.memory.gram.size) == (0, 0)
        assert state.memory.code.shape == (300, 10)
    before = model.objective(toy)
    for _ in range(3):
        model.partial_fit(toy, sample_ids=np.arange(300))
    assert model.objective(toy) < before
