"""The paper's claims about memory: persistent arrays, temporary memory of each stage, the peak.

    python -m benchmarks.complexity [--output benchmarks/results/complexity.json]

At p = 50,000, k = 100, batches of 50, averaged codes, float32, for r from 1 to 24; every sample is
visited twice. `benchmarks.scaling` measures the times of stages against p and r.
"""

import argparse
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.machine import write_results
from benchmarks.scaling import Repeated
from benchmarks.scenes import BATCH, K
from benchmarks.stages import StagedFit
from somf.kernels.cpu.threads import threads

P = 50_000
"""Features."""

N = 500
"""Samples."""

REDUCTIONS = (1, 2, 4, 8, 12, 24)
"""The values of r."""


class MemoryProbe:
    """Records the most bytes that each stage allocates on top of what there was before it."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = defaultdict(int)
        self.peak = 0

    def attach(self, owner: Any, name: str, stage: str) -> None:
        """Measure memory whenever ``owner.name`` runs."""
        method = getattr(owner, name)

        def measured(*args: Any) -> Any:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = method(*args)
            peak = tracemalloc.get_traced_memory()[1]
            self.taken[stage] = max(self.taken[stage], peak - before)
            self.peak = max(self.peak, peak)
            return result

        setattr(owner, name, measured)


def measure(r: int) -> dict[str, Any]:
    """Return megabytes: persistent arrays, temporary memory of each stage, and the peak.

    tracemalloc counts what NumPy allocates. An array over 256 MB would be in a scratch file, which
    it does not count; there is none here.
    """
    source, probe = Repeated(N, P), MemoryProbe()
    with threads(None):
        StagedFit(source, r, "averaged").advance(2 * N // BATCH)  # compile, uncounted
        tracemalloc.start()
        run = StagedFit(source, r, "averaged")
        kept, at_the_start = tracemalloc.get_traced_memory()
        run.attach(probe)
        run.advance(2 * N // BATCH)
    tracemalloc.stop()
    n_blocks = len(run.solver.masks.blocks)
    numbers = 2 * P * K + 2 * n_blocks * K**2 + (N * (2 * K + n_blocks) if r > 1 else 0)
    return {
        "formula": 4 * numbers / 1e6,
        "kept": kept / 1e6,
        "stages": {stage: taken / 1e6 for stage, taken in probe.taken.items()},
        "peak at the start": at_the_start / 1e6,
        "peak of iterations": probe.peak / 1e6,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/complexity.json"))
    options = parser.parse_args()
    memory = {r: measure(r) for r in REDUCTIONS}
    for r, of in memory.items():
        print(f"r = {r}: {of['kept']:.1f} MB kept, {of['formula']:.1f} expected")
    write_results(options.output, {"p": P, "k": K, "batch": BATCH, "n": N, "memory": memory})


if __name__ == "__main__":
    main()
