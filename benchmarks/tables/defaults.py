"""Tables of `benchmarks.defaults`."""

from collections.abc import Iterable
from typing import Any

from benchmarks.summaries import first_time
from benchmarks.tables.markdown import change, conditions, table

CLOSE = 0.005
"""A relative distance from the best objective that counts as reached."""

Run = dict[str, Any]
"""A setting, and objectives after epochs and seconds."""

WAYS = {
    "r = 1": {"reduction": 1},
    "exact, r = 2": {"reduction": 2, "code_estimator": "exact"},
    "exact, r = 4": {"reduction": 4, "code_estimator": "exact"},
    "exact, r = 8": {"reduction": 8, "code_estimator": "exact"},
    "masked, r = 4": {"reduction": 4, "code_estimator": "masked"},
    "masked, r = 12": {"reduction": 12, "code_estimator": "masked"},
}
"""Ways to subsample, by name."""


def setting(results: dict[str, Any]) -> str:
    """Return the conditions of the studies of fits."""
    return conditions(results["studies"]["weights"]["machine"], {"seeds": 1})


def weights(results: dict[str, Any]) -> str:
    """Return objectives of several v relative to the best, after an epoch and at the end."""
    rows = []
    for name, runs in _by_data(results, "weights"):
        found = {run["setting"]["learning_rate"]: run for run in runs}
        rows.append((name, *_relative([_after_an_epoch(run) for run in found.values()])))
        rows[-1] += (f"{runs[0]['epochs'][-1]:g}", *_relative(_ends(found.values())))
    numbers = [f"v = {v}" for v in found]
    return table(("data", *(f"{v}, one epoch" for v in numbers), "epochs", *numbers), rows)


def batches(results: dict[str, Any]) -> str:
    """Return seconds until the objective is close to the best, without subsampling."""
    sizes = sorted({run["setting"]["batch_size"] for run in _runs(results, "reductions")})
    return table(
        ("data", *sizes),
        (
            (name, *_seconds(runs, [WAYS["r = 1"] | {"batch_size": size} for size in sizes]))
            for name, runs in _by_data(results, "reductions")
        ),
    )


def reductions_of_small_batches(results: dict[str, Any]) -> str:
    """Return seconds until the objective is close to the best, by way to subsample."""
    return _reductions(results, 50)


def reductions_of_large_batches(results: dict[str, Any]) -> str:
    """Return the same for minibatches of 200 samples."""
    return _reductions(results, 200)


def probes(results: dict[str, Any]) -> str:
    """Return the extra cost of masked codes."""
    reductions = sorted({run["reduction"] for run in _runs(results, "probes")})
    rows = []
    for name, runs in _by_data(results, "probes"):
        costs = {run["reduction"]: _per_cent(run["extra cost"]) for run in runs}
        rows.append((name, *(costs.get(r, "") for r in reductions)))
    return table(("data", *(f"r = {r}" for r in reductions)), rows)


def later_probes(results: dict[str, Any]) -> str:
    """Return the extra cost of masked codes during fits."""
    iterations = sorted({run["iteration"] for run in _runs(results, "later probes")})
    rows = []
    for name, runs in _by_data(results, "later probes"):
        for r in sorted({run["reduction"] for run in runs}):
            costs = {
                run["iteration"]: _per_cent(run["extra cost"])
                for run in runs
                if run["reduction"] == r
            }
            rows.append((name, r, *(costs.get(iteration, "") for iteration in iterations)))
    return table(("data", "r", *(f"iteration {iteration:,}" for iteration in iterations)), rows)


def _reductions(results: dict[str, Any], size: int) -> str:
    rows = []
    for name, runs in _by_data(results, "reductions"):
        cells = _seconds(runs, [way | {"batch_size": size} for way in WAYS.values()])
        if any(cells):
            rows.append((name, *cells))
    return table(("data", *WAYS), rows)


def _seconds(runs: list[Run], settings: list[dict[str, Any]]) -> list[str]:
    """Return the seconds of each setting to the best of all runs; empty if it was not measured."""
    target = (1 + CLOSE) * min(min(run["objective"]) for run in runs)
    cells = []
    for wanted in settings:
        own = [run for run in runs if wanted.items() <= run["setting"].items()]
        cells.append("")
        if own:
            found = first_time(own[0]["seconds"], own[0]["objective"], target)
            cells[-1] = "never" if found is None else f"{found:.2f}"
    return cells


def _runs(results: dict[str, Any], study: str) -> list[Run]:
    runs: list[Run] = results["studies"][study]["runs"]
    return runs


def _by_data(results: dict[str, Any], study: str) -> Iterable[tuple[str, list[Run]]]:
    """Yield the data sets of a study, with their runs."""
    runs = _runs(results, study)
    for name in dict.fromkeys(run["data"] for run in runs):
        yield name, [run for run in runs if run["data"] == name]


def _ends(runs: Iterable[Run]) -> list[float]:
    return [run["objective"][-1] for run in runs]


def _after_an_epoch(run: Run) -> float:
    objective: float = run["objective"][run["epochs"].index(1.0)]
    return objective


def _relative(values: list[float]) -> list[str]:
    return [change(value / min(values) - 1, 2) for value in values]


def _per_cent(ratio: float) -> str:
    return f"{100 * ratio:.2g} %" if ratio < 0.1 else f"{100 * ratio:.0f} %"
