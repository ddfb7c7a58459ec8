"""Benchmarks can be imported, and small versions of them run."""

import importlib
import pkgutil

import numpy as np
import pytest

import benchmarks
from benchmarks import contenders, convergence, reduction
from benchmarks.datasets import Dataset
from benchmarks.stages import STAGES, StagedFit

MODULES = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
"""The modules of `benchmarks`."""


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported(name):
    if name == "gpu":
        pytest.importorskip("torch", reason="torch comes with the extra 'cuda'")
    importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("reduction", [1, 3])
def test_a_staged_fit_times_every_stage(toy, reduction):
    times = StagedFit(toy, reduction, "averaged", k=4, batch_size=20).advance(2)
    assert set(times) == {*STAGES, "total"}
    assert all(times[stage] > 0 for stage in STAGES)


def test_a_small_version_of_the_benchmark_of_convergence_runs(monkeypatch):
    monkeypatch.setattr(convergence, "REDUCTIONS", (1, 3))
    monkeypatch.setattr(convergence, "RATES", (convergence.RATE,))
    runs = convergence.converge("planted", most_epochs=4, seeds=1)
    assert len(runs) == 2 * 4  # surrogates × (r = 1, and three code estimators at r = 3)
    for run in runs:
        assert run["gap"][-1] < run["gap"][0]
        assert (run["distance"][-1] == 0) == (run["r"] == 1)


def test_a_target_counts_as_reached_when_the_objective_stays_below_it():
    history = {"n_iter": [0, 10, 20, 30], "objective": [4.0, 1.0, 3.0, 1.0]}
    assert reduction.iterations_until(history, 2.0) == 25
    assert reduction.iterations_until(history, 0.5) == float("inf")
    assert reduction.iterations_until(history, 5.0) == 0


@pytest.mark.parametrize(
    ("problem", "peer"),
    [
        ("DictionaryLearning", contenders.fit_dictionary_scikit),
        ("NMF", contenders.fit_minibatch_nmf_scikit),
        ("SparsePCA", contenders.fit_sparse_pca_scikit),
    ],
)
def test_libraries_with_their_defaults_are_judged_by_the_same_objective(toy, problem, peer):
    X = np.abs(toy).astype(np.float32)
    data = Dataset("toy", X[:-20], X[-20:], problem, 4, 0.01)
    judge = contenders.Judge(data)
    ours, theirs = contenders.fit_somf(data, 0, judge), peer(data, 0, judge)
    model = contenders.estimator(data, 0).fit(data.train)
    assert ours.objective[-1] == pytest.approx(model.objective(data.test), rel=1e-3)
    assert theirs.objective[-1] > 0
    for run in (ours, theirs):
        assert len(run.objective) == len(run.wall_seconds) == len(run.cpu_seconds) > 0
