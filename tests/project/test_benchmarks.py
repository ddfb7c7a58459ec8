"""The benchmarks of convergence and of reduction="auto" measure what they say."""

from benchmarks import convergence, reduction


def test_the_benchmark_of_convergence_runs_in_a_small_form(monkeypatch):
    monkeypatch.setattr(convergence, "REDUCTIONS", (1, 3))
    monkeypatch.setattr(convergence, "RATES", (convergence.RATE,))
    runs = convergence.converge("planted", most_epochs=4, seeds=1)
    assert len(runs) == 2 * 4  # surrogates × (r = 1, and three estimators of codes)
    for run in runs:
        assert run["gap"][-1] < run["gap"][0]
        assert (run["distance"][-1] == 0) == (run["r"] == 1)


def test_an_objective_counts_when_it_stays_below_its_target():
    history = {"n_iter": [0, 10, 20, 30], "objective": [4.0, 1.0, 3.0, 1.0]}
    assert reduction.iterations_until(history, 2.0) == 25
    assert reduction.iterations_until(history, 0.5) == float("inf")
    assert reduction.iterations_until(history, 5.0) == 0
