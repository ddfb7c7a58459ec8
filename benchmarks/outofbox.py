"""Every estimator with its defaults, compared with scikit-learn and SPAMS with theirs.

    python -m benchmarks.outofbox [--seeds 3] [--data digits text] [--scenes aviris_scenes.npy]

The data sets of `benchmarks.datasets`. A fit has k, λ and a seed; all else is left to the library.
The result is the objective of somf on held-out samples against the time since the call of `fit`,
wall time and CPU time of all threads. Compilation and the objective itself are not part of it.
Libraries take turns with every seed. Results are written after each data set. `--data` measures
some data sets again and keeps the others, `--only-somf` keeps the peers (and may have more seeds),
and `--draw-only` draws the results that are there.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import scipy.sparse as sp

from benchmarks.contenders import PEERS, Judge, Run, fit_somf
from benchmarks.datasets import DATASETS, Dataset, scenes
from benchmarks.machine import seconds_of_others, write_results

CLOCKS = ("wall_seconds", "cpu_seconds")
"""The clocks of a run."""


def measure(data: Dataset, n_seeds: int, known: dict[str, Any] | None) -> dict[str, Any]:
    """Return what all libraries reach on a data set, and when somf reaches the same.

    Parameters
    ----------
    data : Dataset
    n_seeds : int
    known : dict, optional
        An earlier result, whose peers are not measured again.
    """
    judge, runs = Judge(data), defaultdict[str, list[Run]](list)
    contenders = {"somf": fit_somf} if known else {"somf": fit_somf, **PEERS[data.problem]}
    begin, others = perf_counter(), seconds_of_others()
    for seed in range(n_seeds):
        for name, fit in contenders.items():
            runs[name].append(fit(data, seed, judge))
            print_run(data.name, name, runs[name][-1])
    busy = (seconds_of_others() - others) / (perf_counter() - begin) / (os.cpu_count() or 1)
    libraries = known["libraries"] if known else {}
    libraries |= {name: ends(found) for name, found in runs.items()}
    for row in libraries.values():
        row.update(reached(row["objective"], runs["somf"]))
    return {
        "shape": data.train.shape,
        "is sparse": bool(sp.issparse(data.train)),
        "held out": data.test.shape[0],
        "problem": data.problem,
        "k": data.k,
        "alpha": data.alpha,
        "others": busy,
        "libraries": libraries,
        "curves": (known["curves"] if known else {}) | {n: points(x[0]) for n, x in runs.items()},
    }


def ends(runs: list[Run]) -> dict[str, list[float]]:
    """Return what a library has at the end of its fits, one for every seed."""
    columns = {name: [getattr(run, name)[-1] for run in runs] for name in (*CLOCKS, "objective")}
    return columns | {"density": [run.density for run in runs]}


def reached(objectives: list[float], ours: list[Run]) -> dict[str, list[float | None]]:
    """Return when somf has reached the median objective of a library with each of its own seeds.

    The same seed means nothing to two libraries.
    """
    target = median(objectives)
    return {f"somf {clock}": [run.seconds_to(target, clock) for run in ours] for clock in CLOCKS}


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
    parser.add_argument("--only-somf", action="store_true", help="keep the results of peers")
    parser.add_argument("--draw-only", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/outofbox.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/outofbox.png"))
    options = parser.parse_args()
    loaders: dict[str, Callable[[], Dataset]] = dict(DATASETS)
    if options.scenes:
        loaders["scenes"] = partial(scenes, options.scenes)
    result: dict[str, Any] = {"data": {}}
    if options.data or options.only_somf or options.draw_only:
        result = json.loads(options.output.read_text())
    for name in [] if options.draw_only else options.data or loaders:
        known = result["data"][name] if options.only_somf else None
        result["data"][name] = measure(loaders[name](), options.seeds, known)
        result["data"] = {n: result["data"][n] for n in loaders if n in result["data"]}
        write_results(options.output, {"data": result["data"]})
    draw(result, options.picture)


if __name__ == "__main__":
    main()
