"""The iterations as a whole, against the paper and against each other."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.algorithm.solver import Solver
from somf.data import Loader, as_source, epoch_order
from somf.kernels.cpu import threads
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.algorithm1 import somf
from tests.helpers.problems import listed, planted

PROBLEMS = {
    "dictionary learning": (DictionaryLearning, {"alpha": 0.1}, (1.0, 0.0, False)),
    "sparse PCA": (SparsePCA, {"alpha": 0.1}, (0.0, 1.0, False)),
    "NMF": (NMF, {"alpha": 0.05}, (1.0, 0.0, True)),
    "elastic net": (
        MatrixFactorization,
        {"alpha": 0.1, "l1_ratio": 0.4, "atom_l1_ratio": 0.3},
        (0.4, 0.3, False),
    ),
}


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_iterates_are_those_of_algorithm_1_of_the_paper(problem, batch_size):
    kind, params, (nu, mu, positive) = PROBLEMS[problem]
    X, _ = planted(30, 24, 5)
    X = np.abs(X) if positive else X
    model = kind(
        5,
        reduction=2.5,
        masks="bernoulli",
        code_estimator="averaged",
        batch_size=batch_size,
        code_tol=0,
        learning_rate=0.9,
        **params,
    )
    config = model._config().for_features(24)
    source, ids = as_source(X), np.arange(30)
    state = start(config, source, Samples.alone(source.shape[0]), seed=3, is_finite=True)
    state.patience[:] = 10**9  # the paper replaces no atoms
    solver, loader = Solver(config, state), Loader(source, np.dtype(np.float64))
    D0 = state.D.copy()

    masks, batches = [], []
    for epoch in range(4):
        order = epoch_order(ids, 3, epoch)
        for position in range(0, 30, batch_size):
            batch = order[position : position + batch_size]
            masks.append(listed(solver.masks.draw(state.n_iter, 2.5)))
            batches.append(batch)
            solver.step(loader.load(batch), batch)
    expected = somf(
        X, D0, masks, batches, r=2.5, v=0.9, lam=params["alpha"], nu=nu, mu=mu, positive=positive
    )
    assert np.abs(expected - D0).max() > 0.01
    np.testing.assert_allclose(state.D, expected, rtol=0, atol=1e-9)


def learn(X, **params):
    defaults = {
        "n_components": 8,
        "n_epochs": 3,
        "batch_size": 16,
        "code_tol": 0,
        "random_state": 0,
    }
    return DictionaryLearning(**{**defaults, **params}).fit(X).components_


VARIANTS = [
    {"code_estimator": code_estimator, "masks": masks}
    for code_estimator in ("averaged", "masked", "exact")
    for masks in ("blocks", "bernoulli")
]


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_without_reduction_the_algorithms_coincide(toy, surrogate):
    first, *others = (learn(toy, reduction=1, surrogate=surrogate, **v) for v in VARIANTS)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_with_one_feature_the_algorithms_coincide():
    X = np.random.default_rng(0).standard_normal((50, 1))
    first, *others = (learn(X, reduction=4, n_components=2, **v) for v in VARIANTS)
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_with_reduction_the_algorithms_differ(toy, surrogate):
    found = [learn(toy, reduction=3, surrogate=surrogate, **v) for v in VARIANTS]
    for i, one in enumerate(found):
        for other in found[:i]:
            assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("reduction", [1, 3])
def test_incremental_surrogate_with_exact_codes_reaches_a_stationary_point(toy, reduction, masks):
    model = DictionaryLearning(
        10,
        alpha=0.1,
        reduction=reduction,
        masks=masks,
        code_estimator="exact",
        surrogate="incremental",
        n_epochs=60,
        tol=0,
        batch_size=10,
        random_state=0,
    ).fit(toy)
    assert model.stationarity_gap(toy) < 1e-8


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
def test_masked_codes_stay_away_from_stationary_points(toy, masks):
    model = DictionaryLearning(
        10,
        alpha=0.1,
        reduction=3,
        masks=masks,
        code_estimator="masked",
        surrogate="incremental",
        n_epochs=60,
        batch_size=10,
        random_state=0,
    ).fit(toy)
    assert model.stationarity_gap(toy) > 1e-4


def test_averaged_codes_get_closer_to_a_stationary_point_than_masked_ones(toy):
    gaps = {}
    for code_estimator in ("masked", "averaged"):
        model = DictionaryLearning(
            10,
            alpha=0.1,
            reduction=3,
            code_estimator=code_estimator,
            surrogate="incremental",
            learning_rate=0.92,
            n_epochs=200,
            tol=0,
            batch_size=10,
            random_state=0,
        ).fit(toy)
        gaps[code_estimator] = model.stationarity_gap(toy)
    assert gaps["averaged"] < 0.2 * gaps["masked"]


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_averaged_codes_get_better_each_epoch_with_fewer_features_than_atoms(masks, surrogate):
    X = normalize(load_digits().data)
    averaged, masked = (
        DictionaryLearning(
            50,
            reduction=4,
            code_estimator=code_estimator,
            masks=masks,
            surrogate=surrogate,
            n_epochs=6,
            random_state=0,
        )
        .fit(X, validation=0.1)
        .history_["objective"]
        for code_estimator in ("averaged", "masked")
    )
    assert averaged == sorted(averaged, reverse=True)
    assert averaged[-1] < masked[-1]


@pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA, NMF])
@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
def test_atoms_stay_inside_the_ball(toy, kind, masks):
    X = np.abs(toy) if kind is NMF else toy
    model = kind(8, reduction=3.5, masks=masks, n_epochs=5, batch_size=16, random_state=0).fit(X)
    assert model._config().ball.norm(model.components_.T).max() <= 1 + 1e-12


def test_a_planted_dictionary_is_recovered():
    X, atoms = planted(2000, 40, 12, density=0.2, noise=0.01)
    model = DictionaryLearning(
        12,
        alpha=0.1,  # with less, one fit in four ends in a poorer minimum
        reduction=2,
        code_estimator="exact",
        surrogate="incremental",
        n_epochs=20,
        batch_size=20,
        random_state=0,
    ).fit(X)
    overlap = np.abs(model.components_ @ atoms.T)
    overlap /= np.linalg.norm(model.components_, axis=1, keepdims=True)
    assert overlap.max(axis=0).min() > 0.99


@pytest.mark.parametrize("alpha", [0, 0.05])
def test_nmf_factors_are_exactly_non_negative(toy, alpha):
    X = np.abs(toy)
    model = NMF(8, alpha=alpha, reduction=2, n_epochs=3, random_state=0).fit(X)
    assert (model.components_ >= 0).all()
    assert (model.transform(X) >= 0).all()


@pytest.mark.parametrize("batch_size", [1, 7, 20])
def test_unused_atoms_are_replaced_by_badly_coded_samples(batch_size):
    X, _ = planted(400, 30, 10)
    init = np.random.default_rng(0).standard_normal((10, 30))
    init[3:] = 0.0  # a zero atom is never used
    model = DictionaryLearning(
        10, alpha=0.1, reduction=2, init=init, n_epochs=4, batch_size=batch_size, random_state=0
    ).fit(X)
    used = np.abs(model.transform(X)).sum(axis=0) > 0
    assert used.all()


@pytest.mark.parametrize("params", [{}, {"code_estimator": "exact", "surrogate": "incremental"}])
def test_all_of_the_state_is_float32_for_float32_data(toy, params):
    X = toy.astype(np.float32)
    for kind in (DictionaryLearning, SparsePCA, NMF):
        X_ = np.abs(X) if kind is NMF else X
        model = kind(8, reduction=3, n_epochs=2, random_state=0, **params).fit(X_)
        floating = {n: a.dtype for n, a in model._state.arrays().items() if a.dtype.kind == "f"}
        assert set(floating.values()) == {np.dtype(np.float32)}, floating
        assert model.components_.dtype == model.transform(X_).dtype == np.float32


@pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA, NMF])
def test_the_number_of_threads_changes_rounding_only(toy, kind, monkeypatch):
    monkeypatch.setattr(threads, "MIN_WORK_PER_THREAD", 0)  # or so small a problem is not shared
    monkeypatch.setattr("numba.core.config.NUMBA_NUM_THREADS", 3)
    X = np.abs(toy) if kind is NMF else toy
    one, *others = (
        kind(8, reduction=2, code_tol=0, random_state=0, n_threads=n).fit(X) for n in (1, 2, 3)
    )
    for other in others:
        np.testing.assert_allclose(other.components_, one.components_, atol=1e-8)
        np.testing.assert_allclose(other.transform(X), one.transform(X), atol=1e-6)


def test_the_same_seed_gives_the_same_result(toy):
    np.testing.assert_array_equal(learn(toy, random_state=1), learn(toy, random_state=1))
    assert np.abs(learn(toy, random_state=1) - learn(toy, random_state=2)).max() > 1e-3
