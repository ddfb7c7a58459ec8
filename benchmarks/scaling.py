"""How the time of an iteration grows with p, k, n, the batch size and r.

    python -m benchmarks.scaling [--output docs/scaling.png]

One quantity varies at a time around p = 50,000, k = 100, n = 10,000, batches of 50, r = 4 (the
default algorithm, float32). Samples are combinations of a few smooth profiles plus noise. A few
rows are drawn and repeated, since only the cost matters here. Medians of single iterations.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import write_results
from benchmarks.stages import STAGES, StagedFit
from somf.data import Source
from somf.kernels.cpu.threads import threads
from somf.typing import Array, Ints

CENTER = {"p": 50_000, "k": 100, "n": 10_000, "batch": 50, "r": 4}
"""The values of all quantities but the one that varies."""

SWEEPS = {
    "p": (5_000, 10_000, 20_000, 50_000, 100_000, 200_000),
    "k": (32, 64, 128, 256, 512, 1024),
    "n": (1_000, 10_000, 100_000, 1_000_000),
    "batch": (10, 25, 50, 100, 200, 400),
    "r": (1, 2, 4, 8, 16, 32),
}
"""The values of the quantity that varies."""

N_ROWS = 256
"""Different rows."""


class Repeated(Source):
    """A matrix of n rows in which a few different rows repeat."""

    def __init__(self, n: int, p: int) -> None:
        rng = np.random.default_rng(0)
        profiles = np.cumsum(rng.standard_normal((30, p), dtype=np.float32), axis=1)
        X = rng.standard_normal((N_ROWS, 30), dtype=np.float32) @ profiles
        X -= X.mean(axis=1, keepdims=True)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        X += rng.standard_normal((N_ROWS, p), dtype=np.float32) * (0.3 / np.sqrt(p))
        self.X, self.shape, self.dtype = X, (n, p), X.dtype

    def rows(self, ids: Ints) -> Array:
        """Return rows (len(ids), p)."""
        return self.X[ids % N_ROWS]


def measure(case: dict[str, int], n_iter: int) -> dict[str, float]:
    """Return the median milliseconds of an iteration and of its stages."""
    source = Repeated(case["n"], case["p"])
    run = StagedFit(source, case["r"], "averaged", k=case["k"], batch_size=case["batch"])
    with threads(None):
        run.advance(3)
        times = [run.advance(1) for _ in range(n_iter)]
    return {stage: median(t[stage] for t in times) for stage in times[0]}


def slope(xs: list[float], ys: list[float]) -> float:
    """Return the exponent of ys as a power of xs over the upper half of a sweep."""
    half = len(xs) // 2
    return float(np.polyfit(np.log(xs[half:]), np.log(ys[half:]), 1)[0])


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot every sweep, with its stages and its exponent."""
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(2, 3, figsize=(9.5, 6), layout="constrained", sharey=True)
    *axes, key = grid.flat
    colors = dict(
        zip((*STAGES, "total"), [*plt.get_cmap("Dark2").colors[:7], "black"], strict=True)
    )
    for ax, (name, sweep) in zip(axes, result["sweeps"].items(), strict=True):
        xs = sweep["values"]
        for stage in ("load", "regression", "codes", "surrogate", "dictionary", "total"):
            ys = [t[stage] for t in sweep["milliseconds"]]
            width = 2.4 if stage == "total" else 1.3
            ax.loglog(xs, ys, "o-", color=colors[stage], linewidth=width, markersize=3, label=stage)
        ax.set_title(f"{name}: total grows like {name}^{sweep['exponent']:.2f}", fontsize=10)
        ax.grid(alpha=0.3, which="both", linewidth=0.4)
    for ax in grid[:, 0]:
        ax.set_ylabel("milliseconds per iteration")
    key.set_axis_off()
    key.legend(*axes[0].get_legend_handles_labels(), loc="center", fontsize=10, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure, print, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--output", type=Path, default=Path("docs/scaling.png"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/scaling.json"))
    options = parser.parse_args()
    result: dict[str, Any] = {"center": CENTER, "sweeps": {}}
    for name, values in SWEEPS.items():
        times = [measure(CENTER | {name: value}, options.iterations) for value in values]
        exponent = slope(list(values), [t["total"] for t in times])
        result["sweeps"][name] = {"values": values, "milliseconds": times, "exponent": exponent}
        print(f"{name}: total ~ {name}^{exponent:.2f}")
        for value, t in zip(values, times, strict=True):
            print(f"  {value:>9} " + " ".join(f"{stage} {t[stage]:.1f}" for stage in t))
    write_results(options.json, result)
    draw(result, options.output)


if __name__ == "__main__":
    main()
