"""The defaults, compared with fixed settings: how long until the objective is near its best.

    python -m benchmarks.fixed [--seeds 6] [--data digits] [--settings 5] [--scenes FILE]

The data sets of `benchmarks.datasets`. A fixed setting is a reduction, a code estimator and a
learning rate; all else is the default. Its fit ends after twice the CPU seconds that the
defaults need until they are within half a per cent of their own end. Results are written after each
data set, and those of others are kept.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.contenders import Judge, Run, fit_somf
from benchmarks.datasets import DATASETS, Dataset, scenes
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


def measure(data: Dataset, seed: int, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the curve of the defaults, and those of fixed settings."""
    judge = Judge(data)
    own = fit_somf(data, seed, judge, n_threads=1)
    until = own.seconds_to((1 + CLOSE) * own.objective[-1], "cpu_seconds")
    assert until is not None
    most = max(PATIENCE * until, LEAST_SECONDS)
    found = [_curve({}, own)]
    for setting in settings:
        run = fit_somf(data, seed, judge, most, n_threads=1, tol=0.0, **setting)
        found.append(_curve(setting, run))
    return [curve | {"seed": seed} for curve in found]


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
    parser.add_argument("--data", nargs="+", help="only these; results of other data are kept")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="only so many")
    parser.add_argument("--scenes", type=Path, help="a .npy file (scene, row, column, channel)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/fixed.json"))
    options = parser.parse_args()
    loaders: dict[str, Callable[[], Dataset]] = dict(DATASETS)
    if options.scenes:
        loaders["scenes"] = partial(scenes, options.scenes)
    result: dict[str, Any] = {"data": {}}
    if options.output.exists():
        result = json.loads(options.output.read_text())
    settings = list(SETTINGS[: options.settings])
    for name in options.data or loaders:
        data = loaders[name]()
        with threadpool_limits(1):
            runs = [measure(data, seed, settings) for seed in range(options.seeds)]
        result["data"][name] = [curve for run in runs for curve in run]
        result["data"] = {n: result["data"][n] for n in loaders if n in result["data"]} | {
            n: curves for n, curves in result["data"].items() if n not in loaders
        }
        write_results(options.output, {"data": result["data"]})
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
