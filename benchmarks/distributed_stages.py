"""Where the time of a step of several ranks goes, how good it could be, and what would change it.

    python -m benchmarks.distributed_stages [--ranks 1 2 4 8] [--threads 2] [--steps 30]
        [--variants pinned ...] [--indian-pines cube.npy] [--output stages.json]

1. Stages. Every kernel, every message and every copy of rows is one. Its time is what a rank spends
   inside it, without the stages that it calls itself; *wait* is the time in which a rank waits for
   messages, that is, for the network or for a rank that is later. Stages are the median over steps,
   then the mean over ranks.
2. The ceiling: as many processes at once, each with the work of a rank, that neither send nor wait;
   and one of them alone. What is lost between these two is lost to cores and memory that processes
   share, and no message is to blame for it.
3. Variants: the same ranks with one thing changed, for the largest number of ranks.

The problem is that of `benchmarks.distributed`, r = 4, a global batch of 400.
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import somf.algorithm.solver as solver_module
from benchmarks.machine import write_results
from benchmarks.ranks import (
    REDUCTION,
    STRONG_BATCH,
    WARM_UP,
    Place,
    SilentSteps,
    Steps,
    meet,
    patches_of,
    pin,
    place_of_process,
    run_ranks,
    topology,
)
from somf.data import Loader, gather
from somf.distributed import process_group, row_work
from somf.distributed.environment import THREAD_SETTINGS
from somf.distributed.process_group import ProcessGroup
from somf.kernels.cpu import products
from somf.kernels.cpu.cores import available_cores
from somf.kernels.cpu.threads import threads

MESSAGES = ("sum", "add_up", "exchange", "carry", "wait", "_wait_for")
"""Methods of the communicator that are stages."""

WHOLE = "whole step"
"""The name of the time of a step."""


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


class Variant(NamedTuple):
    """One thing that is changed.

    Attributes
    ----------
    change : callable
        Called in every process before the fit.
    environment : dict
        Variables of the processes.
    """

    change: Callable[[Place], object] = lambda _: None
    environment: dict[str, str] = {}  # noqa: RUF012 (never changed)


def _small_pieces(_: Place) -> None:
    products.shares = partial(products.shares, most=1024)


def _never_fade(_: Place) -> None:
    accumulate = products.accumulate
    kernels = __import__("somf.kernels.cpu.kernels", fromlist=["accumulate"])
    kernels.accumulate = lambda B, X, code, _, rows=None: accumulate(B, X, code, 1.0, rows)


def _forget_other_rows(_: Place) -> None:
    row_work._other_rows = lambda *_: ()


def _load_at_once(_: Place) -> None:
    gather.PIECE_BYTES = 2**40


def _load_nothing_ahead(_: Place) -> None:
    Loader.advance = lambda _: False  # type: ignore[method-assign] # in this process only


def _small_row_pieces(_: Place) -> None:
    row_work.PIECE_ROWS = 4096


def _send_sums_whole(_: Place) -> None:
    process_group.DIRECT_BYTES = 10**6


VARIANTS = {
    "as it is": Variant(),
    "load at once": Variant(_load_at_once),
    "nothing loaded ahead": Variant(_load_nothing_ahead),
    "work in small pieces": Variant(_small_row_pieces),
    "sums sent whole": Variant(_send_sums_whole),
    "pinned": Variant(lambda place: pin(*place)),
    "threads spin": Variant(environment={"OMP_WAIT_POLICY": "active"}),
    "spin for a while": Variant(environment={"OMP_WAIT_POLICY": "", "GOMP_SPINCOUNT": "10000"}),
    "B in small pieces": Variant(_small_pieces),
    "pinned, B in small pieces": Variant(lambda place: (pin(*place), _small_pieces(place))),
    "bound: B never fades": Variant(_never_fade),
    "bound: B of the mask only": Variant(_forget_other_rows),
}
"""What can be changed. A bound does less than is right: what an idea could save at most."""


def measure(
    cube: Path | None,
    n_threads: int,
    batch_size: int,
    variant: str,
    n_silent: int,
    n_steps: int,
) -> dict[str, float]:
    """Return the milliseconds of the stages of a step of this process.

    Parameters
    ----------
    cube : Path or None
    n_threads, batch_size : int
    variant : str
    n_silent : int
        If it is not 0, this process has the work of one of so many ranks, and does not send.
    n_steps : int
    """
    watch, place = Stopwatch(), place_of_process()
    VARIANTS[variant].change(place)
    install(watch)
    with threads(n_threads):
        patches = patches_of(cube)
        fit = (
            SilentSteps(patches, REDUCTION, batch_size, place.rank, n_silent)
            if n_silent
            else Steps(patches, REDUCTION, batch_size)
        )
        load = watch.timed("load", lambda: next(fit.minibatches))
        learn = watch.timed("the rest", fit.learn)
        fit.loader.advance = watch.timed(  # type: ignore[method-assign] # a probe
            "load ahead", fit.loader.advance
        )
        steps = []
        meet()
        for _ in range(WARM_UP + n_steps):
            watch.take()
            begin, cpu = time.perf_counter(), time.process_time()
            learn(load())
            total = 1e3 * (time.perf_counter() - begin)
            cpu = 1e3 * (time.process_time() - cpu)
            steps.append(watch.take() | {WHOLE: total, "CPU of all threads": cpu})
            if isinstance(fit, SilentSteps):
                fit.restore()
        fit.ranks.any(False)
        meet()
    names = {name for step in steps for name in step}
    return {name: median(step.get(name, 0.0) for step in steps[WARM_UP:]) for name in names}


def run(n_processes: int, job: Callable[..., Any], variant: str, *arguments: Any) -> dict[str, Any]:
    """Return the milliseconds of stages: mean over processes, least and largest."""
    before = dict(os.environ)
    os.environ |= VARIANTS[variant].environment
    for name in [name for name, value in os.environ.items() if not value]:
        del os.environ[name]
    answers = run_ranks(n_processes, partial(job, variant, *arguments))
    os.environ.clear()
    os.environ |= before
    if None in answers:
        raise RuntimeError(f"{answers.count(None)} of {n_processes} processes have failed")
    slowest = max(answer[WHOLE] for answer in answers)
    print(f"{n_processes} processes, {variant}: {slowest:.1f} ms per step", flush=True)
    names = sorted({name for answer in answers for name in answer})
    found = {name: [answer.get(name, 0.0) for answer in answers] for name in names}
    return {
        name: {"mean": mean(values), "least": min(values), "largest": max(values)}
        for name, values in found.items()
    }


def print_stages(found: dict[str, dict[str, Any]]) -> None:
    """Print a table with a column for each measurement."""
    names = {name for column in found.values() for name in column}
    last = list(found.values())[-1]
    order = sorted(names, key=lambda name: -last.get(name, {"mean": 0.0})["mean"])
    print("\nmilliseconds per step, mean over processes")
    print(f"{'':>20}" + "".join(f"{title:>14}" for title in found))
    for name in order:
        values = [column.get(name, {"mean": 0.0})["mean"] for column in found.values()]
        if max(values) >= 0.05:
            print(f"{name:>20}" + "".join(f"{value:14.2f}" for value in values))


def print_efficiency(result: dict[str, Any]) -> None:
    """Print what ranks reach, and what they could reach."""
    one = result["ranks"]["1"][WHOLE]["mean"]
    print("\nms per step, efficiency; ceiling (nothing sent): at once, efficiency, one alone")
    for n, stages in result["ranks"].items():
        own, line = stages[WHOLE]["largest"], ""
        if n in result["at once"]:
            ceiling, alone = (result[kind][n][WHOLE]["mean"] for kind in ("at once", "one alone"))
            line = f"   {ceiling:8.1f} {one / ceiling / int(n):6.2f} {alone:8.1f}"
        print(f"{n:>3} ranks {own:8.1f} {one / own / int(n):6.2f}{line}")
    print(f"\nvariants, {max(map(int, result['ranks']))} ranks: ms per step, slowest rank; waiting")
    for name, stages in result["variants"].items():
        waiting = stages.get("wait", {"mean": 0.0})["mean"]
        print(f"{name:>28} {stages[WHOLE]['largest']:8.1f} {waiting:8.2f}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=STRONG_BATCH, help="of all ranks together")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--indian-pines", type=Path, help="the cube as .npy; else from tensorly")
    parser.add_argument("--output", type=Path, help="a .json file")
    options = parser.parse_args()
    os.environ |= THREAD_SETTINGS
    counts = [n for n in options.ranks if n * options.threads <= available_cores()]
    job = partial(measure, options.indian_pines, options.threads, options.batch)
    result: dict[str, Any] = {
        "topology": topology(),
        "n_threads": options.threads,
        "batch": options.batch,
        "ranks": {},
        "at once": {},
        "one alone": {},
        "variants": {},
    }
    print(result["topology"], flush=True)
    run(1, job, "as it is", 0, 1)  # one process compiles the kernels
    for n in counts:
        result["ranks"][str(n)] = run(n, job, "as it is", 0, options.steps)
        if n > 1:
            result["at once"][str(n)] = run(n, job, "as it is", n, options.steps)
            result["one alone"][str(n)] = run(1, job, "as it is", n, options.steps)
    largest = str(max(counts))
    for name in options.variants:
        result["variants"][name] = run(int(largest), job, name, 0, options.steps)
    columns = {f"{n} ranks": stages for n, stages in result["ranks"].items()}
    if largest in result["at once"]:
        columns |= {kind: result[kind][largest] for kind in ("one alone", "at once")}
    print_stages(columns)
    print_efficiency(result)
    if options.output is not None:
        write_results(options.output, result)


if __name__ == "__main__":
    main()
