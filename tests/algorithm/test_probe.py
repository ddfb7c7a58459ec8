"""What codes from a part of the features cost."""

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.algorithm.masks import masks_for
from somf.algorithm.schedule import HOPELESS, HYSTERESIS, STRONGEST, TOP
from somf.algorithm.solver import Solver
from somf.data import as_source
from somf.penalties import CodePenalty
from somf.training.samples import Samples
from somf.training.start import start


def solver_for(X, k=4, **params):
    """Return a solver that has seen nothing."""
    config = DictionaryLearning(k, alpha=0.1, **params)._config()
    state = start(config, as_source(X), Samples.alone(X.shape[0]), 0, is_finite=True)
    return Solver(config, state)


def rows(solver, X):
    order = solver.state.permutation
    return np.ascontiguousarray(X if order is None else X[:, order])


def test_features_without_anything_in_them_are_not_missed():
    X = np.zeros((60, 48))
    X[:, 0] = 1.0
    solver = solver_for(X, k=1)
    assert (
        solver.probe.extra_cost(rows(solver, X), 1e-6) > 1e-3
    )  # most masks lack the first feature
    solver.state.D[:], X[:] = 1 / np.sqrt(48), 1.0
    assert solver.probe.extra_cost(rows(solver, X), 1e-6) == pytest.approx(0, abs=1e-9)


def test_the_extra_cost_is_that_of_codes_from_the_next_masks(toy):
    from somf.kernels.cpu import kernels

    solver = solver_for(toy)
    state, penalty = solver.state, CodePenalty(0.1, 1.0, False)
    X = rows(solver, toy[:30])

    def codes(places, scale):
        D = state.D[places]
        code = np.zeros((30, 4))
        sq_norm = (X[:, places] ** 2).sum(axis=1)
        parts = (D.T @ D)[None], X[:, places] @ D, sq_norm
        kernels.solve_codes(*(scale * part for part in parts), penalty, 1e-10, code)
        return code

    def cost(code):
        smooth = 0.5 * ((X - code @ state.D.T) ** 2).sum()
        return smooth + 0.1 * np.abs(code).sum()

    best, masks = cost(codes(np.arange(60), 1.0)), masks_for(solver.config, 60, state.seed)
    others = []
    for i in range(2):
        subset = masks.draw(i, STRONGEST)
        places = np.concatenate([np.arange(60)[rows] for rows in subset.rows])
        others.append(cost(codes(places, subset.scale)))
    assert solver.probe.extra_cost(X, 1e-6) == pytest.approx(np.mean(others) / best - 1, rel=1e-3)


def move(monkeypatch, X, costs, **params):
    """Return a solver after iterations whose probes find these shares of what is tolerated."""
    solver, found = solver_for(X, **params), iter(costs)
    monkeypatch.setattr(solver.probe, "extra_cost", lambda _, tolerated: next(found) * tolerated)
    monkeypatch.setattr("somf.algorithm.probe.is_probe", lambda _: True)
    for _ in costs:
        solver.step(rows(solver, X[:4]))
    return solver


def test_a_fit_goes_down_the_ladder_when_better_atoms_make_codes_good_enough(monkeypatch, toy):
    assert move(monkeypatch, toy, [1.1]).state.rung == TOP
    assert move(monkeypatch, toy, [1.1, 1.1 * HYSTERESIS]).state.rung == TOP
    solver = move(monkeypatch, toy, [1.1, 0.9 * HYSTERESIS])
    state = solver.state
    assert state.rung == 0
    assert solver.reduction == STRONGEST
    blocks = solver.masks.blocks
    assert len(blocks) == len(state.norms) == len(state.grams) > 1
    for g, block in enumerate(blocks):
        np.testing.assert_allclose(state.grams[g], state.D[block].T @ state.D[block], atol=1e-10)
        np.testing.assert_allclose(state.norms[g], (state.D[block] ** 2).sum(axis=0), atol=1e-10)
    assert move(monkeypatch, toy, [1.1, 0.1, 1.1]).state.rung == TOP  # and up again


def objective(solver, X):
    """Return the objective of samples from all features."""
    problem, code = solver.regression.of_all_features(rows(solver, X)), np.zeros((len(X), 4))
    return solver._solve(problem, code, 1e-6).mean()


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_a_fit_learns_on_after_it_has_gone_down(monkeypatch, toy, masks, surrogate):
    params = {"masks": masks, "surrogate": surrogate}
    before, after = (
        objective(move(monkeypatch, toy, [1.1] + [0.1] * n, **params), toy[:30]) for n in (1, 40)
    )
    assert after < before


def test_where_codes_are_far_from_good_enough_a_fit_does_not_go_down_again(monkeypatch, toy):
    solver = move(monkeypatch, toy, [1.1 * HOPELESS, 0.1])
    assert solver.state.rung == TOP
    assert solver.state.is_settled


def test_averaged_codes_are_not_taken_up_again(monkeypatch, toy):
    assert move(monkeypatch, toy, [1.1, 0.1], code_estimator="averaged").state.rung == TOP
