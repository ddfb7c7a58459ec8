"""The defaults, compared with fixed settings: how long until the objective is near its best.

    python -m benchmarks.fixed [--seeds 6] [--data digits] [--settings 5] [--processes 2]

The data sets of `benchmarks.datasets`. A fixed setting is a reduction, a code estimator and a
learning rate; all else is the default. Its fit ends after twice the CPU seconds that the
defaults need until they are within half a per cent of their own end. Every fit has one thread.
Results are written after each data set, and those of others are kept.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.contenders import Judge, Run, fit_somf
from benchmarks.datasets import DATASETS, Dataset
from benchmarks.jobs import Rows, by_data, load
from benchmarks.machine import write_results

CLOSE = 0.005
"""A relative distance from the best objective that counts as reached."""

PATIENCE = 2.0
"""How many times as long as the defaults a fixed setting may take."""

LEAST_SECONDS = 0.1
"""CPU seconds that it may always take."""


def _setting(reduction: float, code_estimator: str, learning_rate: float) -> dict[str, Any]:
    return {
        "reduction": reduction,
        "code_estimator": code_estimator,
        "learning_rate": learning_rate,
    }


SETTINGS = (
    *(_setting(1, "exact", v) for v in (0.76, 0.85, 0.92)),
    *(_setting(4, "exact", v) for v in (0.85, 0.76)),
    *(_setting(4, "masked", v) for v in (0.85, 0.76)),
    _setting(12, "masked", 0.85),
)
"""Fixed settings; those that were the fastest on some data set come first."""


def measure(job: tuple[str, int, int]) -> tuple[str, Rows]:
    """Return the curves of a data set with a seed: that of the defaults, and of fixed settings."""
    name, seed, n_settings = job
    with threadpool_limits(1):
        return name, curves(load(name), seed, list(SETTINGS[:n_settings]))


def curves(data: Dataset, seed: int, settings: list[dict[str, Any]]) -> Rows:
    """Return the curve of the defaults, and those of fixed settings.

    All fits are followed until the same time, so that their points are equally dense. The end of
    the defaults is that of a fit which goes on for as long as it likes.
    """
    judge = Judge(data)
    # The first fit to some data is slower than those after it: of its times only the last count.
    whole = fit_somf(data, seed, judge, n_threads=1)
    until = whole.seconds_to((1 + CLOSE) * whole.objective[-1], "cpu_seconds")
    assert until is not None
    most = max(PATIENCE * until, LEAST_SECONDS)
    found = []
    for setting in in_turns([{}, *settings], seed):
        own = {"tol": 0.0} | setting if setting else {}
        run = fit_somf(data, seed, judge, most_seconds=most, n_threads=1, **own)
        if not setting and run.cpu_seconds[-1] >= most:  # it was ended by then
            run.add_later(whole)
        found.append(_curve(setting, run))
    return [curve | {"seed": seed} for curve in found]


def in_turns(settings: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Return settings in another order for every seed, so that none is always the first."""
    turn = seed % len(settings)
    return settings[turn:] + settings[:turn]


def _curve(setting: dict[str, Any], run: Run) -> dict[str, Any]:
    return {
        "setting": setting,
        "cpu_seconds": [float(f"{t:.4g}") for t in run.cpu_seconds],
        "objective": [float(f"{x:.7g}") for x in run.objective],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument(
        "--data",
        nargs="+",
        choices=list(DATASETS),
        metavar="NAME",
        help="only these; results of other data are kept",
    )
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="only so many")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/fixed.json"))
    options = parser.parse_args()
    known = json.loads(options.output.read_text())["data"] if options.output.exists() else {}
    names = options.data or list(DATASETS)
    jobs = [(name, seed, options.settings) for name in names for seed in range(options.seeds)]
    for name, rows in by_data(measure, jobs, options.processes):
        known[name] = sorted(rows, key=lambda row: (row["seed"], str(row["setting"])))
        write_results(options.output, {"data": {n: known[n] for n in DATASETS if n in known}})
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
