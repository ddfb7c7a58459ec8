"""What the paper says of cost, stage by stage: which work is linear in p, and which in q = p/r.

    python -m benchmarks.complexity [--output benchmarks/results/complexity.json]

Times of all stages for p from 12,500 to 200,000 and r from 1 to 24 (k = 100, batches of 50,
averaged codes of samples that come again, float32), and non-negative c in

    milliseconds = c₀ + c_p p + c_q q

that fit them best, relative to what was measured. Then the memory that each stage takes beside what
is kept, and that of a whole fit, at p = 50,000.
"""

import argparse
import json
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.machine import facts
from benchmarks.scaling import Repeated
from benchmarks.speed import BATCH, STAGES, K, Run
from somf.threads import threads

FEATURES = (12_500, 25_000, 50_000, 100_000, 200_000)
REDUCTIONS = (1, 2, 4, 8, 12, 24)
N = 500
"""Samples: so few that all have been seen before they are timed."""

P_OF_MEMORY = 50_000


def measure_times(p: int, r: int, n_iter: int) -> dict[str, float]:
    """Return milliseconds of every stage of an iteration on samples seen before.

    The least of several iterations: whatever else the machine does can only make them longer.
    """
    run = Run(Repeated(N, p), r, "averaged")
    with threads(None):
        run.advance(N // BATCH)
        times = [run.advance(1) for _ in range(n_iter)]
    return {stage: min(t[stage] for t in times) for stage in times[0]}


def fit_line(cases: list[dict[str, Any]], stage: str) -> dict[str, float]:
    """Return c₀, c_p and c_q, the latter two as milliseconds per 50,000 features."""
    p, r = (np.array([case[name] for case in cases], dtype=float) for name in ("p", "r"))
    t = np.array([case["milliseconds"][stage] for case in cases])
    terms = np.stack([np.ones_like(p), p / P_OF_MEMORY, p / r / P_OF_MEMORY], axis=1)
    coefficients, _ = nnls(terms / t[:, None], np.ones_like(t))
    error = np.abs(terms @ coefficients / t - 1)
    names = ("constant", "p", "q", "median error")
    return dict(zip(names, [*map(float, coefficients), float(np.median(error))], strict=True))


class MemoryWatch:
    """Keeps the most that each stage takes beside what there was before it, in bytes."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = defaultdict(int)
        self.peak = 0

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """Look at memory while ``owner.name`` runs."""
        method = getattr(owner, name)

        def watched(*args: Any) -> Any:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = method(*args)
            peak = tracemalloc.get_traced_memory()[1]
            self.taken[stage] = max(self.taken[stage], peak - before)
            self.peak = max(self.peak, peak)
            return result

        setattr(owner, name, watched)


def measure_memory(p: int, r: int) -> dict[str, Any]:
    """Return megabytes: what is kept, what each stage takes beside it, and the most there ever is.

    tracemalloc knows what NumPy allocates. An array over 256 MB would be in a file; there is none.
    """
    source, watch = Repeated(N, p), MemoryWatch()
    tracemalloc.start()
    with threads(None):
        run = Run(source, r, "averaged")
        kept, at_the_start = tracemalloc.get_traced_memory()
        run.watch(watch)
        run.advance(2 * N // BATCH)
    tracemalloc.stop()
    n_blocks = len(run.solver.masks.blocks)
    numbers = 2 * p * K + 2 * n_blocks * K**2 + (N * (2 * K + n_blocks) if r > 1 else 0)
    return {
        "formula": 4 * numbers / 1e6,
        "kept": kept / 1e6,
        "stages": {stage: taken / 1e6 for stage, taken in watch.taken.items()},
        "peak at the start": at_the_start / 1e6,
        "peak of iterations": watch.peak / 1e6,
        "paper, statistics of samples": 4 * N * (K**2 + K) / 1e6,
        "statistics of samples": 4 * N * (2 * K + n_blocks) / 1e6,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/complexity.json"))
    options = parser.parse_args()
    cases = [
        {"p": p, "r": r, "milliseconds": measure_times(p, r, options.iterations)}
        for p in FEATURES
        for r in REDUCTIONS
    ]
    growth = {stage: fit_line(cases, stage) for stage in (*STAGES, "total")}
    for stage, line in growth.items():
        print(f"{stage:<12}" + "  ".join(f"{name} {value:.2f}" for name, value in line.items()))
    result = {
        "machine": facts(),
        "k": K,
        "batch": BATCH,
        "n": N,
        "unit of p": P_OF_MEMORY,
        "cases": cases,
        "growth": growth,
        "memory": {r: measure_memory(P_OF_MEMORY, r) for r in REDUCTIONS},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
