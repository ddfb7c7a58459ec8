"""Several ranks on one machine: bytes per step, scaling, failures, and a model of the time.

    python -m benchmarks.distributed [--ranks 1 2 4 8] [--threads 2] [--steps 30]

1. Bytes that a rank sends in a step, counted by the communicator and by the network interface, and
   the formula, for several reductions.
2. Strong scaling: milliseconds per step of W ranks with a global batch of 400, next to one process
   with as many threads as all ranks have, and next to a ceiling: as many processes at once, each
   with the work of a rank, that neither send nor wait. Weak scaling: a batch of 50 per rank.
3. Seconds from the death of a rank to the error on all others.
4. A model of the time: compute time of one rank, measured at two batch sizes, divided by the number
   of ranks; plus messages times latency, plus bytes over bandwidth. Latency and bandwidth are
   measured here, to predict 2., or are those of networks, to extrapolate.

Dictionary learning of Indian Pines (p = 51,200, k = 100, averaged codes, float32). Ranks are
processes of this machine that talk by gloo, through the loopback interface.
"""

import argparse
import os
import signal
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import write_results
from benchmarks.ranks import (
    REDUCTION,
    STRONG_BATCH,
    WARM_UP,
    SilentSteps,
    Steps,
    meet,
    patches_of,
    place_of_process,
    run_ranks,
    topology,
)
from benchmarks.scenes import K
from somf.algorithm.masks import BLOCKS_PER_MASK
from somf.distributed.connection import communicator_for
from somf.distributed.environment import THREAD_SETTINGS
from somf.distributed.process_group import DIRECT_BYTES
from somf.errors import RankError
from somf.kernels.cpu.cores import available_cores
from somf.kernels.cpu.threads import threads

WEAK_BATCH = 50
"""Samples of a minibatch for each rank."""

REDUCTIONS = (1, 2, 4, 8, 12)
"""r, where bytes are counted."""

LOOPBACK = Path("/proc/net/dev")
"""Where Linux counts the bytes of network interfaces."""

MESSAGES = (2**10, 2**14, 2**18, 2**20, 2**22)
"""Bytes that a rank sends to all others together, for latency and bandwidth."""

BY_GLOO = {"SOMF_SHARED_MEMORY": "0"}
"""The environment of ranks that send messages as between machines, so that bytes can be counted."""

N_DEATHS = 5
"""How often a rank is killed."""


def measure_steps(
    cube: Path | None, n_threads: int, reduction: float, batch_size: int, n_steps: int
) -> dict[str, float]:
    """Return milliseconds, bytes and messages of a step of this rank."""
    with threads(n_threads):
        fit = Steps(patches_of(cube), reduction, batch_size)
        for _ in range(WARM_UP):
            fit.advance()
        ranks: Any = fit.ranks
        before = [getattr(ranks, name, 0) for name in ("n_bytes", "n_messages")]
        loopback = loopback_bytes()
        times = [fit.advance() for _ in range(n_steps)]
        fit.ranks.any(False)
        loopback = (loopback_bytes() - loopback) / n_steps / ranks.size
        after = [getattr(ranks, name, 0) for name in ("n_bytes", "n_messages")]
    n_bytes, n_messages = ((b - a) / n_steps for a, b in zip(before, after, strict=True))
    counts = {"bytes": n_bytes, "messages": n_messages, "loopback": loopback}
    return spread_of(times) | counts


def measure_ceiling(
    cube: Path | None, n_threads: int, n_ranks: int, n_steps: int
) -> dict[str, float]:
    """Return milliseconds of the work of one of some ranks, which neither sends nor waits."""
    with threads(n_threads):
        place = place_of_process()
        fit = SilentSteps(patches_of(cube), REDUCTION, STRONG_BATCH, place.rank, n_ranks)
        for _ in range(WARM_UP):
            fit.advance()
        meet()
        times = [fit.advance() for _ in range(n_steps)]
        meet()
    return spread_of(times)


def spread_of(times: list[float]) -> dict[str, float]:
    """Return the median and the quartiles of milliseconds."""
    low, middle, high = np.quantile(times, [0.25, 0.5, 0.75]).tolist()
    return {"milliseconds": middle, "low": low, "high": high}


def loopback_bytes() -> int:
    """Return the bytes that the loopback interface has carried; 0 where Linux does not count."""
    for line in LOOPBACK.read_text().splitlines() if LOOPBACK.exists() else ():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[8])
    return 0


def formula(n_features: int, reduction: float, size: int, itemsize: int = 4) -> float:
    """Return the bytes that a rank sends in a step: the rows of B and D of a mask, and little else.

    2 |S| k numbers for B and D, k (k + 1) / 2 for C and for the Gram matrix of each block of the
    mask, and m (2m + 1) for each block of m atoms. All but the first are sums, which travel whole
    and once if they are small, and otherwise in parts and twice.
    """
    rows = 2 * n_features / reduction * K * itemsize * (size - 1) / size
    return rows + sum(
        n * (size - 1) if is_direct(n, size) else 2 * n * (size - 1) / size
        for n in bytes_of_sums(reduction, itemsize)
    )


def least(n_features: int, reduction: float, size: int, itemsize: int = 4) -> float:
    """Return the bytes that no exchange of rows can avoid: 2 |S| k + k² numbers, but for own ones.

    A rank keeps its own part of what is scattered, and of what is gathered.
    """
    return (2 * n_features / reduction * K + K**2) * itemsize * (size - 1) / size


def n_messages(size: int, reduction: float, itemsize: int = 4) -> int:
    """Return the messages of a step: one each for B and D, one or two for every sum."""
    sums = bytes_of_sums(reduction, itemsize)
    return 2 + sum(1 if is_direct(n, size) else 2 for n in sums)


def bytes_of_sums(reduction: float, itemsize: int) -> list[int]:
    """Return the bytes of C, and of Gram matrices, which all ranks sum.

    Those of the blocks of features of a mask are one sum, those of three blocks of atoms three.
    """
    n_blocks, triangle = 1 if reduction == 1 else BLOCKS_PER_MASK, K * (K + 1) // 2
    of_atoms = [m * (2 * m + 1) for m in (32, 32, 36)]
    return [itemsize * n for n in (triangle, *of_atoms, n_blocks * triangle)]


def is_direct(n_bytes: int, size: int) -> bool:
    """Return whether ranks sum so many bytes in one message."""
    return n_bytes * (size - 1) <= DIRECT_BYTES


def measure_messages(n_repeats: int) -> dict[int, float]:
    """Return the seconds of an exchange between all ranks, by the bytes that each sends."""
    ranks: Any = communicator_for("cpu")
    found = {}
    for n_bytes in MESSAGES:
        part = n_bytes // (ranks.size - 1) // 8
        send = np.ones((ranks.size, part))
        times = []
        for _ in range(n_repeats):
            begin = time.perf_counter()
            ranks.exchange(send)
            times.append(time.perf_counter() - begin)
        found[8 * part * (ranks.size - 1)] = median(times)
    return found


def latency_and_bandwidth(times: dict[int, float]) -> tuple[float, float]:
    """Return the seconds of a small message, and bytes per second of a large one."""
    small, large = min(times), max(times)
    return times[small], (large - small) / max(times[large] - times[small], 1e-9)


def measure_death(cube: Path | None, n_threads: int, victim: int) -> float | None:
    """Kill a rank after some steps; return when this rank had the error, in seconds since 1970."""
    with threads(n_threads):
        fit = Steps(patches_of(cube), 4, STRONG_BATCH)
        with fit.ranks.reporting():
            try:
                for n in range(10**6):
                    fit.advance()
                    if n == WARM_UP and fit.ranks.rank == victim:
                        Path(os.environ["SOMF_DEATH"]).write_text(repr(time.time()))
                        os.kill(os.getpid(), signal.SIGKILL)
            except RankError as error:
                return time.time() if error.ranks == [victim] else float("inf")
    return None


def deaths(cube: Path | None, size: int, n_threads: int) -> list[float]:
    """Return the seconds from the death of a rank to the last error of the others."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SOMF_DEATH"] = f"{folder}/death"
        for n in range(N_DEATHS):
            job = partial(measure_death, cube, n_threads, n % size)
            ends = [end for end in run_ranks(size, job) if end is not None]
            begin = float(Path(os.environ["SOMF_DEATH"]).read_text())
            found.append(max(ends) - begin if len(ends) == size - 1 else float("inf"))
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--indian-pines", type=Path, help="the cube as .npy; else from tensorly")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/distributed.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/distributed.png"))
    options = parser.parse_args()
    os.environ |= THREAD_SETTINGS
    counts = [n for n in options.ranks if n * options.threads <= available_cores()]
    measure = partial(measure_steps, options.indian_pines)
    several = [n for n in counts if n > 1]
    result: dict[str, Any] = {
        "topology": topology(),
        "n_threads": options.threads,
        "n_features": patches_of(options.indian_pines).shape[1],
        "itemsize": 4,
        "bytes": {},
        "strong": {},
        "weak": {},
        "gloo": {},
        "processes": {},
        "ceiling": {},
        "one alone": {},
        "messages": {},
    }
    for r in REDUCTIONS:
        job = partial(measure, options.threads, r, STRONG_BATCH, 6)
        found = run_ranks(several[-1], job, BY_GLOO)[0]
        result["bytes"][str(r)] = found | {"formula": formula(51_200, r, several[-1])}
        print("r =", r, result["bytes"][str(r)], flush=True)
    for n in counts:
        for kind, batch in (("strong", STRONG_BATCH), ("weak", WEAK_BATCH * n)):
            job = partial(measure, options.threads, 4, batch, options.steps)
            result[kind][str(n)] = slowest(run_ranks(n, job))
            print(kind, n, result[kind][str(n)], flush=True)
        alone = partial(measure, n * options.threads, 4, STRONG_BATCH, options.steps)
        result["processes"][str(n)] = run_ranks(1, alone)[0]
        if n > 1:
            job = partial(measure, options.threads, 4, STRONG_BATCH, options.steps)
            result["gloo"][str(n)] = slowest(run_ranks(n, job, BY_GLOO))
            print("gloo", n, result["gloo"][str(n)], flush=True)
            silent = partial(
                measure_ceiling, options.indian_pines, options.threads, n, options.steps
            )
            result["ceiling"][str(n)] = slowest(run_ranks(n, silent))
            result["one alone"][str(n)] = run_ranks(1, silent)[0]
            print("ceiling", n, result["ceiling"][str(n)], result["one alone"][str(n)], flush=True)
            times = run_ranks(n, partial(measure_messages, 50))[0]
            result["messages"][str(n)] = latency_and_bandwidth(times)
    result["deaths"] = deaths(options.indian_pines, several[-1], options.threads)
    print("deaths", result["deaths"])
    write_results(options.output, result)
    draw(result, options.figure)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what a rank sends, and the time of a step, against the number of features of a mask."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    reductions = [int(r) for r in result["bytes"]]
    rows = list(result["bytes"].values())
    size = max(int(n) for n in result["strong"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(reductions, [row["formula"] / 1e6 for row in rows], color="0.6", label="formula")
    left.plot(reductions, [row["bytes"] / 1e6 for row in rows], "o", label="counted")
    left.set(xlabel="reduction r", ylabel="MB that a rank sends per step", yscale="log")
    left.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    left.minorticks_off()
    right.plot(reductions, [row["milliseconds"] for row in rows], "o-")
    right.set(xlabel="reduction r", ylabel="milliseconds per step")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xticks(reductions)
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False)
    figure.suptitle(f"{size} ranks, a batch of {STRONG_BATCH}: masks shrink messages, too")
    figure.savefig(path, dpi=110)


def slowest(answers: list[dict[str, float]]) -> dict[str, float]:
    """Return the measurement of the rank that took longest."""
    return max(answers, key=lambda answer: answer["milliseconds"])


if __name__ == "__main__":
    main()
