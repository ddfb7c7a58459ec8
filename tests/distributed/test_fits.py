"""Fits by several ranks: the result is that of one process with the same minibatches."""

import itertools

import numpy as np
import pytest

import somf
from somf.distributed.dealing import edges_of
from tests.distributed import jobs
from tests.helpers.problems import random_csr

CASES = [
    (kind, jobs.params(**extra, code_tol=1e-12, **jobs.PROBLEMS[kind]), "dense")
    for kind, extra in itertools.product(
        jobs.PROBLEMS,
        [
            {"code_estimator": estimator, "surrogate": surrogate}
            for estimator in ("averaged", "masked", "exact")
            for surrogate in ("online", "incremental")
        ]
        + [{"reduction": 1}, {"masks": "bernoulli"}, {"reduction": "auto"}],
    )
]
"""Every problem with every code estimator and surrogate, and with every kind of reduction."""

ATOMS = np.random.default_rng(0).random((8, 50)) - 0.5
"""Initial atoms of fits whose samples are not known as a whole."""

CASES += [
    ("MatrixFactorization", jobs.params(code_tol=1e-12, alpha=0.1) | settings, which)
    for which, settings in [
        ("few unknown", {"missing": "nan", "init": ATOMS}),
        ("few unknown", {"missing": "nan", "init": ATOMS, "masks": "bernoulli"}),
        ("many unknown", {"missing": "nan", "init": ATOMS, "surrogate": "incremental"}),
        ("many unknown", {"missing": "nan", "init": ATOMS, "atom_alpha": 0.1, "reduction": 1}),
        ("sparse", {"missing": "absent", "init": ATOMS, "atom_alpha": 0.1}),
        # Passes over all samples follow three epochs.
        ("few unknown", {"missing": "nan", "init": ATOMS, "reduction": 1, "n_epochs": 8}),
        (
            "many unknown",
            {"missing": "nan", "init": ATOMS, "atom_alpha": 0.1, "reduction": 1, "n_epochs": 8},
        ),
        ("dense", {"atom_alpha": 0.1}),
        ("sparse", {}),
        # More atoms than samples need: unused ones are replaced by samples of any rank.
        ("dense", {"n_components": 30, "alpha": 0.5, "n_epochs": 4}),
        # Minibatches that not every rank has a part of.
        ("dense", {"batch_size": 3, "n_epochs": 1}),
    ]
]

CASES += [
    # Everything decided from the data.
    (
        "DictionaryLearning",
        {"n_components": 8, "code_tol": 1e-12, "random_state": 0, "n_threads": 1, "n_epochs": 30},
        "dense",
    ),
]


def check_fits(ranks, cases):
    """Compare the atoms of ranks with those of one process that takes the same minibatches."""
    found = ranks.run(jobs.fit_many, cases, ranks.size, timeout=300)
    for case, *answers in zip(cases, *found, strict=True):
        components, expected = answers[0]
        np.testing.assert_allclose(components, expected, atol=1e-9, err_msg=str(case))
        for others, _ in answers[1:]:
            assert others.tobytes() == components.tobytes(), case


def test_ranks_learn_the_same_atoms_as_one_process_with_their_minibatches(ranks):
    check_fits(ranks, CASES if ranks.size == 2 else CASES[2:-12:4] + CASES[-12:])


def test_ranks_that_send_messages_learn_these_atoms_too(two_by_gloo):
    check_fits(two_by_gloo, CASES[1:-12:8] + CASES[-12::3])


def test_ranks_heed_weights_of_entries_and_of_samples(two):
    X, settings = jobs.unknown("DictionaryLearning"), jobs.params(code_tol=1e-12, init=ATOMS)
    expected = two.run(jobs.fit, "DictionaryLearning", settings | {"missing": "nan"}, X)
    weights = {"weights": np.where(np.isnan(X), 0.0, 1.0), "sample_weight": np.full(131, 2.0)}
    found = two.run(jobs.fit, "DictionaryLearning", settings, np.nan_to_num(X), weights)
    np.testing.assert_allclose(found[0][0], expected[0][0], atol=1e-9)
    assert found[0][0].tobytes() == found[1][0].tobytes()


def test_offsets_are_those_of_the_samples_of_all_ranks(ranks):
    X, settings = jobs.unknown("DictionaryLearning"), jobs.params(center="both", missing="nan")
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    alone = somf.DictionaryLearning(**settings).fit(X, sample_weight=weight)
    found = ranks.run(jobs.fit_offsets, settings, X, weight)
    for components, offsets in found:
        np.testing.assert_allclose(offsets, alone.offsets_, atol=1e-12)
        assert components.tobytes() == found[0][0].tobytes()


def test_a_fit_is_repeated_bit_by_bit(two):
    first, second = (
        two.run(jobs.fit, "DictionaryLearning", jobs.params(dtype="float32"), jobs.samples())
        for _ in range(2)
    )
    assert first[0][0].dtype == np.float32
    assert first[0][0].tobytes() == second[0][0].tobytes()


def test_a_seed_that_is_not_given_is_that_of_rank_0(two):
    found = two.run(jobs.fit, "DictionaryLearning", jobs.params(random_state=None), jobs.samples())
    assert found[0][0].tobytes() == found[1][0].tobytes()


def test_a_weight_is_found_by_all_ranks_together(two):
    settings = jobs.params(alpha="auto", code_density=0.3)
    found = two.run(jobs.fit, "DictionaryLearning", settings, jobs.samples())
    assert found[0][3] == found[1][3]
    alone = somf.DictionaryLearning(**settings).fit(jobs.samples())
    assert found[0][3] == pytest.approx(alone.alpha_, rel=0.3)


def test_ranks_measure_the_objective_of_one_validation_set(ranks):
    options = {"validation": jobs.samples(n=37)}
    found = ranks.run(jobs.fit, "DictionaryLearning", jobs.params(), jobs.samples(), options)
    model = somf.DictionaryLearning(**jobs.params()).fit(jobs.samples())
    model.components_ = found[0][0]
    assert all(answer[2] == found[0][2] for answer in found)
    assert found[0][2][-1] == pytest.approx(model.objective(options["validation"]), rel=1e-3)


def test_each_rank_reads_its_own_rows_only(ranks):
    found = ranks.run(jobs.rows_read, jobs.samples(), jobs.params())
    edges = edges_of(131, ranks.size)
    for rank, rows in enumerate(found):
        assert rows == set(range(edges[rank], edges[rank + 1]))


def test_rows_of_its_own_for_each_rank_are_the_shares_of_one_matrix(ranks):
    X, edges = jobs.samples(), edges_of(131, ranks.size)
    shared = ranks.run(jobs.fit, "DictionaryLearning", jobs.params(), X)
    own = ranks.run(jobs.fit_own, X, edges, jobs.params())
    assert all(components.tobytes() == shared[0][0].tobytes() for components in own)


def test_ranks_may_have_different_numbers_of_rows(two):
    X = jobs.samples()
    found = two.run(jobs.fit_own, X, [0, 20, 131], jobs.params())
    assert found[0].tobytes() == found[1].tobytes()


def test_codes_objective_and_gap_are_those_of_one_process(ranks, tmp_path):
    X = jobs.samples()
    model = somf.DictionaryLearning(**jobs.params(n_epochs=1)).fit(X)
    found = ranks.run(jobs.inference, model.components_, X, str(tmp_path))
    codes = model.transform(X)
    for answer in found:
        for each in answer["codes"]:
            np.testing.assert_allclose(each, codes, atol=1e-12)
        assert answer["objective"] == pytest.approx(model.objective(X), rel=1e-12)
        assert answer["gap"] == pytest.approx(model.stationarity_gap(X), rel=1e-9)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["codes.npy", "codes.npz", "codes.zarr"]


def test_dictionaries_that_rounding_has_made_different_become_those_of_rank_0(two):
    (first, grams), (second, other_grams) = two.run(jobs.aligned)
    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(grams, other_grams, atol=1e-15)


@pytest.mark.parametrize("has_weights", [False, True])
def test_the_trials_of_initial_atoms_end_the_same_on_all_ranks(two, has_weights):
    settings = jobs.params(init="auto", alpha=0)
    X, weight = jobs.samples("NMF"), np.arange(131) % 3.0
    options = {"sample_weight": weight} if has_weights else {}
    found = two.run(jobs.fit, "NMF", settings, X, options)
    assert found[0][0].tobytes() == found[1][0].tobytes()
    alone = somf.NMF(**settings).fit(X, **options)
    alone_objective = alone.objective(X)
    alone.components_ = found[0][0]  # learned from other minibatches
    assert alone.objective(X) == pytest.approx(alone_objective, rel=0.1)


def test_initial_atoms_from_singular_vectors_are_the_same_on_all_ranks(two):
    settings = jobs.params(init="nndsvd", alpha=0.05)
    for X in (jobs.samples("NMF"), random_csr(131, 50, 0.2)):
        found = two.run(jobs.fit, "NMF", settings, X)
        assert found[0][0].tobytes() == found[1][0].tobytes()
        alone = somf.NMF(**settings).fit(X)
        alone_objective = alone.objective(X)
        alone.components_ = found[0][0]
        assert alone.objective(X) == pytest.approx(alone_objective, rel=0.1)
