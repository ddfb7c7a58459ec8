"""The defaults on data on which few of them were chosen, compared with scikit-learn and SPAMS.

    python -m benchmarks.unseen [--seeds 3] [--data NAME ...] [--only-somf]

The data sets of `benchmarks.unseen_datasets`. A fit has k, λ and a seed, and one thread; all else
is left to the library. The result is what it has at the end: the objective of somf on held-out
samples and on those it learned from, and CPU seconds. `MiniBatchDictionaryLearning` is left out:
some of its fits here take minutes. SPAMS is left out if it is not installed, and for data that
is too large once it is dense. Results are written after each data set, and those of others are
kept.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import contenders
from benchmarks.contenders import PEERS, Judge, Run, Spams, seconds_of
from benchmarks.datasets import Dataset
from benchmarks.machine import write_results
from benchmarks.unseen_datasets import UNSEEN
from somf.typing import Array

N_JUDGED = 5000
"""Samples of those that were learned from on which the objective is measured."""

MOST_DENSE = 10**8
"""Entries of data that SPAMS gets as an array."""


class Noting(Judge):
    """A judge that keeps the last atoms it has seen."""

    def __call__(self, atoms: Array) -> float:
        """Return the objective of atoms (k, p)."""
        self.last = np.array(atoms)
        return super().__call__(atoms)


def fit_somf(data: Dataset, seed: int, judge: Judge) -> Run:
    """Fit with somf."""
    model, run = contenders.estimator(data, seed, n_threads=1), Run()
    run.add(seconds_of(lambda: model.fit(data.train)), 0.0)
    run.objective[-1] = judge(model.components_)
    return run


def contenders_for(data: Dataset) -> dict[str, Callable[[Dataset, int, Judge], Run]]:
    """Return the libraries that fit to a data set, and how."""
    found: dict[str, Any] = {"somf": fit_somf}
    for name, fit in PEERS[data.problem].items():
        if isinstance(fit, Spams):
            if not find_spec("spams") or data.train.shape[0] * data.train.shape[1] > MOST_DENSE:
                continue
        elif data.problem == "DictionaryLearning":
            continue
        found[name] = fit
    return found


def measure(data: Dataset, n_seeds: int, known: dict[str, Any] | None) -> dict[str, Any]:
    """Return what all libraries reach on a data set; those in `known` are not measured again."""
    test = Noting(data)
    train = Noting(replace(data, test=data.train[:N_JUDGED]))
    libraries = dict(known["libraries"]) if known else {}
    fits = {"somf": fit_somf} if known else contenders_for(data)
    for name, fit in fits.items():
        rows = []
        for seed in range(n_seeds):
            run = fit(data, seed, test)
            rows.append((run.objective[-1], train(test.last), run.cpu_seconds[-1]))
            print(f"{data.name:<26}{name:<28}{rows[-1]}", flush=True)
        columns = zip(*rows, strict=True)
        names = ("objective", "training objective", "cpu_seconds")
        libraries[name] = {name: list(found) for name, found in zip(names, columns, strict=True)}
    return (known or {}) | {
        "shape": data.train.shape,
        "problem": data.problem,
        "k": data.k,
        "alpha": data.alpha,
        "libraries": libraries,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="+", help="only these; results of other data are kept")
    parser.add_argument("--only-somf", action="store_true", help="keep the results of peers")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/unseen.json"))
    options = parser.parse_args()
    contenders._earlier = lambda _: []  # the end of a fit is enough
    result: dict[str, Any] = {"data": {}}
    if options.output.exists():
        result = json.loads(options.output.read_text())
    for name in options.data or UNSEEN:
        known = result["data"].get(name) if options.only_somf else None
        with threadpool_limits(1):
            result["data"][name] = measure(UNSEEN[name](), options.seeds, known)
        result["data"] = {n: result["data"][n] for n in UNSEEN if n in result["data"]}
        write_results(options.output, {"data": result["data"]})


if __name__ == "__main__":
    main()
