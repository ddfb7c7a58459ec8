"""Every estimator with its defaults, compared with scikit-learn and SPAMS with theirs.

    python -m benchmarks.outofbox [--seeds 3] [--data digits text] [--scenes aviris_scenes.npy]

The data sets of `benchmarks.datasets`. A fit has k, λ and a seed; all else is left to the library.
The result is the objective of somf on held-out samples against the time since the call of `fit`,
wall time and CPU time of all threads. Compilation and the objective itself are not part of it.
Libraries take turns with every seed. Results are written after each data set, so that `--data`
measures some of them again and keeps the others. `--draw-only` draws the results that are there.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import scipy.sparse as sp

from benchmarks.contenders import PEERS, Judge, Run, fit_somf
from benchmarks.datasets import DATASETS, Dataset, scenes
from benchmarks.machine import seconds_of_others, write_results

CLOCKS = ("wall_seconds", "cpu_seconds")
"""The clocks of a run."""


def measure(data: Dataset, n_seeds: int) -> dict[str, Any]:
    """Return what all libraries reach on a data set, and when somf reaches the same."""
    judge, runs = Judge(data), defaultdict[str, list[Run]](list)
    begin, others = perf_counter(), seconds_of_others()
    for seed in range(n_seeds):
        for name, fit in {"somf": fit_somf, **PEERS[data.problem]}.items():
            runs[name].append(fit(data, seed, judge))
            print_run(data.name, name, runs[name][-1])
    busy = (seconds_of_others() - others) / (perf_counter() - begin) / (os.cpu_count() or 1)
    return {
        "shape": data.train.shape,
        "is sparse": bool(sp.issparse(data.train)),
        "held out": data.test.shape[0],
        "problem": data.problem,
        "k": data.k,
        "alpha": data.alpha,
        "others": busy,
        "libraries": {name: ends(found, runs["somf"]) for name, found in runs.items()},
        "curves": {name: points(found[0]) for name, found in runs.items()},
    }


def ends(runs: list[Run], ours: list[Run]) -> dict[str, list[Any]]:
    """Return, for every seed, the result of a library, and when somf has reached its objective."""
    found: dict[str, list[Any]] = {
        "objective": [run.objective[-1] for run in runs],
        "density": [run.density for run in runs],
    }
    for clock in CLOCKS:
        pairs = list(zip(runs, ours, strict=True))
        found[clock] = [getattr(run, clock)[-1] for run in runs]
        found[f"somf {clock}"] = [our.seconds_to(run.objective[-1], clock) for run, our in pairs]
    return found


def points(run: Run) -> dict[str, list[float]]:
    """Return the curve of a run, in five digits."""
    columns = {name: getattr(run, name) for name in (*CLOCKS, "objective")}
    return {name: [float(f"{x:.5g}") for x in column] for name, column in columns.items()}


def print_run(data: str, name: str, run: Run) -> None:
    """Print the end of a run."""
    print(
        f"{data:<22}{name:<26}objective {run.objective[-1]:.6g}  {run.wall_seconds[-1]:.2f} s, "
        f"{run.cpu_seconds[-1]:.2f} s of CPU, {run.density:.0%} of atoms not zero",
        flush=True,
    )


COLORS = {"somf": "tab:red", "scikit-learn": "tab:blue", "SPAMS": "tab:green"}
"""The color of each library in the figure."""

STYLES = {"MiniBatchNMF": "--", "of 50": ":", "of 256": "--", "of 512": "-"}
"""The line styles of variants of a library, by how their names end."""

LEAST = 1e-4
"""The least relative distance from the best objective that the figure shows."""


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw how far the objectives are from the best one, against CPU time, for all data sets."""
    from matplotlib import pyplot as plt

    sets = result["data"]
    rows = -(-len(sets) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(11, 2.8 * rows), layout="constrained")
    labels: dict[str, Any] = {}
    for ax, (name, found) in zip(axes.flat, sets.items(), strict=False):
        best = min(min(curve["objective"]) for curve in found["curves"].values())
        for library, curve in found["curves"].items():
            above = [max(x / best - 1, LEAST) for x in curve["objective"]]
            color = next(c for start, c in COLORS.items() if library.startswith(start))
            style = next((s for end, s in STYLES.items() if library.endswith(end)), "-")
            (line,) = ax.loglog(curve["cpu_seconds"], above, style, color=color, linewidth=1.3)
            ax.loglog(curve["cpu_seconds"][-1], above[-1], "o", color=color, markersize=4)
            labels.setdefault(library, line)
        size = " × ".join(f"{x:,}" for x in found["shape"])
        ax.set_title(f"{name}: {found['problem']}, {size}", fontsize=8)
        ax.grid(alpha=0.3, which="major", linewidth=0.4)
        ax.tick_params(labelsize=7)
        ax.set_ylim(bottom=0.8 * LEAST)
    for ax in axes.flat[len(sets) :]:
        ax.axis("off")
    figure.supxlabel("CPU seconds since the call of fit", fontsize=9)
    figure.supylabel("held-out objective / the best one − 1", fontsize=9)
    last = axes.flat[-1] if len(sets) < axes.size else axes.flat[0]
    last.legend(list(labels.values()), list(labels), fontsize=8, loc="center", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="+", help="only these; results of other data are kept")
    parser.add_argument("--scenes", type=Path, help="a .npy file (scene, row, column, channel)")
    parser.add_argument("--draw-only", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/outofbox.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/outofbox.png"))
    options = parser.parse_args()
    loaders: dict[str, Callable[[], Dataset]] = dict(DATASETS)
    if options.scenes:
        loaders["scenes"] = partial(scenes, options.scenes)
    result: dict[str, Any] = {"data": {}}
    if (options.data or options.draw_only) and options.output.exists():
        result = json.loads(options.output.read_text())
    for name in [] if options.draw_only else options.data or loaders:
        found = measure(loaders[name](), options.seeds)
        result["data"][name] = found
        result["data"] = {n: result["data"][n] for n in loaders if n in result["data"]}
        write_results(options.output, result)
    draw(result, options.picture)


if __name__ == "__main__":
    main()
