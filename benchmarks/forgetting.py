"""How much of the past to remember: fixed weights of the paper against those that are measured.

    python -m benchmarks.forgetting [--seeds 3] [--data digits planted] [--processes 2]

A stream of samples, each seen once, with all features (`reduction=1`). The weight of sample t is
t^−v, or it follows from the moves of atoms (``learning_rate="auto"``). The objective on
held-out samples is measured after 500, 1,000, 2,000 and so on. Results of other data are kept.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.contenders import Judge, estimator
from benchmarks.datasets import Dataset
from benchmarks.jobs import Rows, by_data, load
from benchmarks.machine import write_results

WEIGHTS: tuple[float | str, ...] = (0.76, 0.85, 0.92, "auto")
"""Values of `learning_rate`."""

CHOSEN_ON = (
    "digits",
    "photographs, k = 64",
    "photographs, k = 256",
    "pixels",
    "patches",
    "counts",
    "planted",
    "long and thin",
    "low rank",
    "heavy tails",
    "scales",
    "correlated",
    "norms",
    "spectrogram",
    "text",
    "grey, large λ",
    "dropout",
    "duplicates",
    "five features",
    "spectra",
    "digits, NMF",
)
"""Data on which the rule was made."""

OTHERS = ("topics", "topics, DL", "noise")
"""Data on which it was not."""

NAMES = (*CHOSEN_ON, *OTHERS)
"""All data."""

FIRST, LAST = 500, 64_000
"""Samples after which the objective is measured first and last."""


def measure(job: tuple[str, int]) -> tuple[str, Rows]:
    """Return the objectives of streams of a data set with a seed, and the name of the data."""
    name, seed = job
    data = load(name)
    judge = Judge(data)
    with threadpool_limits(1):
        return name, [follow(data, rate, seed, judge) for rate in WEIGHTS]


def follow(data: Dataset, rate: float | str, seed: int, judge: Judge) -> dict[str, Any]:
    """Return the held-out objective of a stream after doubling numbers of samples."""
    n = data.train.shape[0]
    order = np.random.default_rng(seed).permutation(n)
    model = estimator(data, seed, learning_rate=rate, reduction=1, init="samples", n_threads=1)
    samples, objective, seen, stop = [], [], 0, FIRST
    while stop <= min(n, LAST):
        model.partial_fit(data.train[np.sort(order[seen:stop])])
        samples.append(stop)
        objective.append(float(f"{judge(model.components_):.7g}"))
        seen, stop = stop, 2 * stop
    return {"rate": rate, "seed": seed, "samples": samples, "objective": objective}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    only = "only these; results of other data are kept"
    parser.add_argument("--data", nargs="+", choices=NAMES, metavar="NAME", help=only)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/forgetting.json"))
    options = parser.parse_args()
    known = json.loads(options.output.read_text())["data"] if options.output.exists() else {}
    jobs = [(name, seed) for name in options.data or NAMES for seed in range(options.seeds)]
    for name, rows in by_data(measure, jobs, options.processes):
        known[name] = sorted(rows, key=lambda row: row["seed"])
        write_results(options.output, {"data": {n: known[n] for n in NAMES if n in known}})
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
