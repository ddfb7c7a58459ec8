"""Objective and stationarity gap against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from somf import MatrixFactorization
from somf.data import Loader, as_source, loader
from somf.inference.coding import Coder
from somf.kernels import reference
from somf.kernels.cpu import kernels as cpu
from somf.penalties import AtomBall, CodePenalty
from tests.helpers.problems import planted

RATIOS = [0.0, 0.4, 1.0]


def fitted(X, n_components=6, **params):
    defaults = {"alpha": 0.1, "reduction": 2, "n_epochs": 2, "random_state": 0}
    return MatrixFactorization(n_components, **{**defaults, **params}).fit(X)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("nu", RATIOS)
def test_the_objective_is_the_mean_of_loss_and_penalty(toy, nu, positive):
    model = fitted(toy, l1_ratio=nu, positive_code=positive)
    codes = model.transform(toy)
    loss = ((toy - codes @ model.components_) ** 2).sum(axis=1) / 2
    penalty = CodePenalty(0.1, nu, positive).value(codes)
    assert model.objective(toy) == pytest.approx((loss + penalty).mean(), rel=1e-6)
    assert model.score(toy) == -model.objective(toy)


def test_a_smaller_tolerance_gives_a_smaller_objective(toy):
    model = fitted(toy)
    rough, fine = model.objective(toy, tol=0.3), model.objective(toy, tol=1e-9)
    assert fine <= rough <= fine * 1.3


@pytest.mark.parametrize("positive_atoms", [False, True])
@pytest.mark.parametrize("mu", RATIOS)
def test_the_gap_is_the_largest_first_order_decrease(mu, positive_atoms):
    X, _ = planted(40, 5, 3)
    model = fitted(X, 3, atom_l1_ratio=mu, positive_atoms=positive_atoms)
    ball, D = AtomBall(mu, positive_atoms), model.components_.T
    codes = model.transform(X)
    gradient = (D @ codes.T @ codes - X.T @ codes) / len(X)
    largest = 0.0
    for j in range(3):
        # An independent maximisation of ⟨−∇ⱼ, d⟩ over the ball, by brute force over directions.
        directions = np.random.default_rng(0).standard_normal((5, 20_000))
        directions[np.abs(directions) < 0.8] = 0
        largest += (-gradient[:, j] @ ball.normalise(directions)).clip(0).max()
    expected = (gradient * D).sum() + largest
    gap = model.stationarity_gap(X)
    assert gap >= expected - 1e-6
    assert gap == pytest.approx(expected, abs=0.1 * largest + 1e-6)


@pytest.mark.parametrize("positive_atoms", [False, True])
@pytest.mark.parametrize("mu", RATIOS)
@pytest.mark.parametrize("nu", RATIOS)
def test_the_gap_vanishes_at_convergence_for_every_problem(nu, mu, positive_atoms):
    X, _ = planted(60, 12, 4)
    model = fitted(
        np.abs(X) if positive_atoms else X,
        4,
        l1_ratio=nu,
        atom_l1_ratio=mu,
        positive_atoms=positive_atoms,
        positive_code=positive_atoms,
        code_estimator="exact",
        surrogate="incremental",
        n_epochs=300,
        tol=0,
        batch_size=10,
    )
    X = np.abs(X) if positive_atoms else X
    start = fitted(X, 4, l1_ratio=nu, atom_l1_ratio=mu, positive_atoms=positive_atoms, n_epochs=1)
    gap = model.stationarity_gap(X)
    assert gap < 1e-5
    assert gap < 1e-2 * start.stationarity_gap(X)


def test_the_gradient_behind_the_gap_is_the_gradient_of_the_objective():
    X, _ = planted(30, 4, 2)
    model = fitted(X, 2)

    def value(flat):
        coder = Coder(cpu, flat.reshape(4, 2), CodePenalty(0.1, 1.0, False), 0.0)
        return coder.objective(Loader(as_source(X), np.dtype(np.float64)), np.arange(30))

    D = np.ascontiguousarray(model.components_.T)
    codes = model.transform(X)
    gradient = (D @ codes.T @ codes - X.T @ codes) / 30
    numeric = minimize(value, D.ravel(), method="BFGS", options={"maxiter": 0}).jac.reshape(4, 2)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


def test_results_do_not_depend_on_chunks_or_storage(toy, monkeypatch):
    X = np.where(np.abs(toy) > 0.1, toy, 0)
    model = fitted(X)
    whole = model.transform(X), model.objective(X), model.stationarity_gap(X)
    monkeypatch.setattr(loader, "CHUNK_ENTRIES", 60 * 7)
    for given in (X, sp.csr_array(X), np.asfortranarray(X)):
        codes, objective, gap = (
            model.transform(given),
            model.objective(given),
            model.stationarity_gap(given),
        )
        np.testing.assert_allclose(codes, whole[0], atol=1e-8)
        assert objective == pytest.approx(whole[1])
        assert gap == pytest.approx(whole[2], abs=1e-9)


def test_codes_that_are_not_solved_are_told(monkeypatch):
    def give_up(grams, beta, sq_norm, penalty, tol, code):
        return reference.solve_codes(grams, beta, sq_norm, penalty, 1.0, code)  # a loose tolerance

    monkeypatch.setattr(cpu, "solve_codes", give_up)
    X, _ = planted(20, 30, 15)
    coder = Coder(cpu, X[:15].T, CodePenalty(1e-3, 1.0, False), 1e-9)
    with pytest.warns(ConvergenceWarning, match="did not reach a relative duality gap of 1e-09"):
        coder.code(X)
