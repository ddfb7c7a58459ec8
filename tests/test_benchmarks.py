"""The benchmarks of convergence and of reduction="auto" measure what they say."""

from benchmarks import convergence, reduction


def test_the_benchmark_of_convergence_runs_in_a_small_form():
    runs = convergence.converge("planted", most_epochs=4, seeds=1)
    gaps = {(r["surrogate"], r["estimator"], r["r"]): r["gap"] for r in runs if r["v"] == 0.92}
    assert all(gap[-1] < gap[0] for gap in gaps.values())
    assert len(runs) == len(list(convergence.settings(convergence.RATES)))


def test_an_objective_counts_when_it_stays_below_its_target():
    history = {"n_iter": [0, 10, 20, 30], "objective": [4.0, 1.0, 3.0, 1.0]}
    assert reduction.iterations_until(history, 2.0) == 25
    assert reduction.iterations_until(history, 0.5) == float("inf")
    assert reduction.iterations_until(history, 5.0) == 0
