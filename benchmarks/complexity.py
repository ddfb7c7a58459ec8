"""What the paper says of memory: what is kept, what each stage takes beside it, and the peak.

    python -m benchmarks.complexity [--output benchmarks/results/complexity.json]

At p = 50,000, k = 100, batches of 50, averaged codes of samples that come again, float32, for r
from 1 to 24. Times of stages, against p and r, are measured by `benchmarks.scaling`.
"""

import argparse
import json
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from benchmarks.scaling import Repeated
from benchmarks.speed import BATCH, K, Run
from somf.kernels.cpu.threads import threads

P, N = 50_000, 500
REDUCTIONS = (1, 2, 4, 8, 12, 24)


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


def measure(r: int) -> dict[str, Any]:
    """Return megabytes: what is kept, what each stage takes beside it, and the most there ever is.

    tracemalloc knows what NumPy allocates. An array over 256 MB would be in a file; there is none.
    """
    source, watch = Repeated(N, P), MemoryWatch()
    with threads(None):
        Run(source, r, "averaged").advance(2 * N // BATCH)  # what is compiled is not counted
        tracemalloc.start()
        run = Run(source, r, "averaged")
        kept, at_the_start = tracemalloc.get_traced_memory()
        run.watch(watch)
        run.advance(2 * N // BATCH)
    tracemalloc.stop()
    n_blocks = len(run.solver.masks.blocks)
    numbers = 2 * P * K + 2 * n_blocks * K**2 + (N * (2 * K + n_blocks) if r > 1 else 0)
    return {
        "formula": 4 * numbers / 1e6,
        "kept": kept / 1e6,
        "stages": {stage: taken / 1e6 for stage, taken in watch.taken.items()},
        "peak at the start": at_the_start / 1e6,
        "peak of iterations": watch.peak / 1e6,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/complexity.json"))
    options = parser.parse_args()
    memory = {r: measure(r) for r in REDUCTIONS}
    for r, of in memory.items():
        print(f"r = {r}: {of['kept']:.1f} MB kept, {of['formula']:.1f} expected")
    result = {"machine": facts(), "p": P, "k": K, "batch": BATCH, "n": N, "memory": memory}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
