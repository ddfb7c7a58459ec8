"""What the documentation says is what the benchmarks have found."""

import json
from pathlib import Path

import pytest

from benchmarks import convergence, reduction

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "page", "rows"),
    [
        ("convergence", "convergence.md", convergence.tables),
        ("reduction", "defaults.md", reduction.table),
    ],
)
def test_tables_are_those_of_the_results(name, page, rows):
    result = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    lines = (ROOT / "docs" / page).read_text().splitlines()
    missing = [row for row in rows(result) if row not in lines]
    assert not missing


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
