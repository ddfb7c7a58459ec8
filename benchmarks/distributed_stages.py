"""Where the time of a step of several ranks goes.

    python -m benchmarks.distributed_stages [--ranks 1 8] [--threads 2] [--steps 40]

Every kernel, every message and every copy of rows is a stage. Its time is what a rank spends inside
it, without the stages that it calls itself; *waits* are times in which a rank waits for messages,
that is, for the network or for a rank that is later. Stages are the median over steps, then the
mean over ranks. The problem is that of `benchmarks.distributed`, r = 4, a global batch of 400.
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import somf.algorithm.solver as solver_module
from benchmarks.distributed import STRONG_BATCH, WARM_UP, Steps, patches_of, run_ranks
from benchmarks.machine import write_results
from somf.distributed.environment import THREAD_SETTINGS
from somf.distributed.process_group import ProcessGroup
from somf.kernels.cpu.threads import threads

MESSAGES = ("sum", "add_up", "exchange", "carry", "_wait")
"""Methods of the communicator that are stages."""


class Stopwatch:
    """Sums of the milliseconds inside stages, without the stages inside them."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is a stage."""

        def run(*args: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*args, **named)
            finally:
                elapsed = 1e3 * (time.perf_counter() - begin)
                self.spent[name] += elapsed - self._inner.pop()
                self._inner[-1] += elapsed

        return run

    def take(self) -> dict[str, float]:
        """Return the sums since the last call."""
        taken, self.spent = dict(self.spent), defaultdict(float)
        return taken


class TimedKernels:
    """Kernels whose functions are stages."""

    def __init__(self, kernels: Any, watch: Stopwatch) -> None:
        self._kernels, self._watch = kernels, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kernels, name)
        if not callable(found) or name == "without_gradients":
            return found
        timed = self._watch.timed(name, found)
        setattr(self, name, timed)
        return timed


def install(watch: Stopwatch) -> None:
    """Make kernels, messages and copies stages, in this process."""
    kernels_for = solver_module.kernels_for
    solver_module.kernels_for = lambda device: TimedKernels(kernels_for(device), watch)  # type: ignore[assignment,return-value]
    for name in MESSAGES:
        setattr(ProcessGroup, name, watch.timed(name, getattr(ProcessGroup, name)))


def measure(cube: Path | None, n_threads: int, batch_size: int, n_steps: int) -> dict[str, float]:
    """Return the milliseconds of the stages of a step of this rank."""
    watch = Stopwatch()
    install(watch)
    with threads(n_threads):
        fit = Steps(patches_of(cube), 4, batch_size)
        load = watch.timed("load", lambda: next(fit.minibatches))
        step = watch.timed("the rest", fit.solver.step)
        steps = []
        for _ in range(WARM_UP + n_steps):
            watch.take()
            begin, cpu = time.perf_counter(), time.process_time()
            ids, X, size = load()
            step(X, fit.samples.slots(ids), size)
            total = 1e3 * (time.perf_counter() - begin)
            cpu = 1e3 * (time.process_time() - cpu)
            steps.append(watch.take() | {"whole step": total, "CPU of all threads": cpu})
        fit.ranks.any(False)
    names = {name for step in steps for name in step}
    return {name: median(step.get(name, 0.0) for step in steps[WARM_UP:]) for name in names}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=STRONG_BATCH, help="of all ranks together")
    parser.add_argument("--indian-pines", type=Path, help="the cube as .npy; else from tensorly")
    parser.add_argument("--output", type=Path, help="a .json file")
    options = parser.parse_args()
    os.environ |= THREAD_SETTINGS
    job = partial(measure, options.indian_pines, options.threads, options.batch)
    run_ranks(1, partial(job, 1))  # one process compiles the kernels
    found = {}
    for n in options.ranks:
        answers = run_ranks(n, partial(job, options.steps))
        names = sorted({name for answer in answers for name in answer})
        found[str(n)] = {name: mean(a.get(name, 0.0) for a in answers) for name in names}
        spread_of = {
            name: (min(a.get(name, 0.0) for a in answers), max(a.get(name, 0.0) for a in answers))
            for name in names
        }
        print(f"\n{n} ranks: milliseconds per step, mean over ranks (least, largest)")
        for name, value in sorted(found[str(n)].items(), key=lambda item: -item[1]):
            low, high = spread_of[name]
            print(f"{name:>22} {value:8.2f}  ({low:.2f}, {high:.2f})")
    if options.output is not None:
        write_results(options.output, found)


if __name__ == "__main__":
    main()
