"""How long `reduction="auto"` takes, compared with fixed reductions.

    python -m benchmarks.reduction [--scenes ../shared/data/aviris_scenes.npy] [--data planted]

The data sets of `benchmarks.datasets`, and patches of AVIRIS scenes if their file exists. Apart
from the reduction, parameters are the defaults, but the number of epochs is fixed. The result is
the compute time until the objective on held-out samples is, and stays, within 0.5 % of the best one
of all fits from the same initial atoms. Without a penalty, where few fits stay that close, it is
10 %. Medians over seeds. Reductions take turns.
"""

import argparse
import json
import math
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import somf
from benchmarks.datasets import DATASETS, Dataset, scenes
from benchmarks.defaults import EPOCHS
from benchmarks.machine import write_results
from somf.algorithm.schedule import TOLERANCE
from somf.algorithm.solver import Solver
from somf.callbacks import Progress
from somf.data import Loader, as_source, epoch_order
from somf.estimators.config import check_params
from somf.kernels.cpu.threads import threads
from somf.training.samples import Samples
from somf.training.start import start

FITS: dict[str, dict[str, Any]] = {
    "1": {"reduction": 1},
    "4, exact codes": {"reduction": 4, "code_estimator": "exact"},
    "4, masked codes": {"reduction": 4, "code_estimator": "masked"},
    "12, masked codes": {"reduction": 12, "code_estimator": "masked"},
    "auto": {"reduction": "auto"},
}
"""The fits that are compared."""

CLOSE = 0.005
"""A relative distance from the best objective that counts as reached."""

CLOSE_WITHOUT_PENALTY = 0.1
"""The same for NMF without a penalty."""

RECORDS = 24
"""Evaluations of the held-out objective per fit."""

COMPILING_ITERATIONS = 3
"""Iterations of the fit that compiles kernels before the others are timed."""


def estimator(data: Dataset, name: str, **params: Any) -> somf.MatrixFactorization:
    """Return the estimator of one of the fits."""
    kind: type[somf.MatrixFactorization] = getattr(somf, data.problem)
    return kind(data.k, alpha=data.alpha, **FITS[name], **params)


def history(data: Dataset, name: str, seed: int) -> dict[str, list[float]]:
    """Return the history of one of the fits."""
    n_epochs = EPOCHS[data.name]
    model = estimator(
        data,
        name,
        n_epochs=n_epochs,
        tol=0.0,
        record_every=max(1, n_epochs * data.train.shape[0] // RECORDS),
        random_state=seed,
    )
    found: dict[str, list[float]] = model.fit(data.train, validation=data.test).history_
    return found


def compile_kernels(data: Dataset) -> None:
    """Do a few iterations."""

    def is_over(progress: Progress) -> bool:
        return progress.n_iter == COMPILING_ITERATIONS

    for name in FITS:
        estimator(data, name, callbacks=is_over, random_state=0).fit(data.train)


def first_probe(data: Dataset, seed: int) -> float:
    """Return the relative extra cost of codes from a twelfth of the features at the start."""
    n, p = data.train.shape
    params = vars(estimator(data, "auto"))
    config = check_params(params).for_features(p).for_samples(n, p)
    source, ids = as_source(data.train), np.arange(n)
    with threads(None):
        state = start(config, source, Samples.alone(source.shape[0]), seed, is_finite=True)
        loader = Loader(source, state.D.dtype, state.permutation)
        batch = epoch_order(ids, seed, 0)[: config.batch_size]
        return Solver(config, state).probe.extra_cost(loader.load(batch), TOLERANCE)


def iterations_until(history: dict[str, list[float]], target: float) -> float:
    """Return the iteration from which the objective stays below a target, or infinity."""
    n_iter, objective = history["n_iter"], history["objective"]
    above = [i for i, value in enumerate(objective) if value > target]
    if not above:
        return 0.0
    i = above[-1]
    if i + 1 == len(objective):
        return math.inf
    part = (objective[i] - target) / (objective[i] - objective[i + 1])
    return n_iter[i] + part * (n_iter[i + 1] - n_iter[i])


def seconds_until(history: dict[str, list[float]], n_iter: float) -> float:
    """Return the compute time of the first iterations, in seconds."""
    if math.isinf(n_iter):
        return n_iter
    return float(np.interp(n_iter, history["n_iter"], history["compute_seconds"]))


def compare(data: Dataset, seeds: int) -> dict[str, dict[str, Any]]:
    """Return seconds and final objectives of all fits."""
    compile_kernels(data)
    runs = [{name: history(data, name, seed) for name in FITS} for seed in range(seeds)]
    best = [min(min(run["objective"]) for run in of_seed.values()) for of_seed in runs]
    close = CLOSE if data.alpha > 0 else CLOSE_WITHOUT_PENALTY
    found = {}
    for name in FITS:
        own = [of_seed[name] for of_seed in runs]
        targets = [(1 + close) * objective for objective in best]
        n_iter = [iterations_until(run, t) for run, t in zip(own, targets, strict=True)]
        seconds = [seconds_until(run, n) for run, n in zip(own, n_iter, strict=True)]
        found[name] = {
            "iterations": [None if math.isinf(n) else round(n) for n in n_iter],
            "runs": [None if math.isinf(t) else t for t in seconds],
            "seconds": None if math.isinf(t := median(seconds)) else t,
            "objective": median(run["objective"][-1] for run in own),
        }
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, default=Path("../shared/data/aviris_scenes.npy"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/reduction.json"))
    parser.add_argument("--data", nargs="+", help="only these; results of other data are kept")
    options = parser.parse_args()
    sources = dict(DATASETS)
    if options.scenes.exists():
        sources["scenes"] = partial(scenes, options.scenes)
    result: dict[str, Any] = {
        "seeds": options.seeds,
        "close": CLOSE,
        "close without penalty": CLOSE_WITHOUT_PENALTY,
    }
    result |= {"first probe": {}, "data": {}}
    if options.data and options.output.exists():
        result = json.loads(options.output.read_text())
    for name in options.data or sources:
        data = sources[name]()
        probes = [first_probe(data, seed) for seed in range(options.seeds)]
        result["first probe"][name] = probes
        print(f"{name:<18} extra cost of codes at the start:", *(f"{x:.2%}" for x in probes))
        found = result["data"][name] = compare(data, options.seeds)
        for r, row in found.items():
            print(f"{name:<18} r={r:<18}", *row["iterations"], "iterations,", row["seconds"], "s")
    write_results(options.output, result)


if __name__ == "__main__":
    main()
