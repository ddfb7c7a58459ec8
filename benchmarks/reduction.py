"""How long `reduction="auto"` takes, compared with fixed reductions.

    python -m benchmarks.reduction [--scenes ../shared/data/aviris_scenes.npy] [--data planted]

The data of `benchmarks.defaults`, with patches of two photographs in place of one; the digits
(NMF), Indian Pines (NMF without a penalty), and all scenes together. The result is the compute time
until the objective on held-out samples is, and stays, within 0.5 % of the best one of all fits from
the same initial atoms. For NMF without a penalty, where no fit stays that close, it is 10 %.
Medians over seeds. Reductions take turns.
"""

import argparse
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import defaults
from benchmarks.convergence import photographs
from benchmarks.machine import write_results
from benchmarks.scenes import aviris_scenes, in_memory, indian_pines
from somf import NMF, DictionaryLearning
from somf.algorithm.schedule import TOLERANCE
from somf.algorithm.solver import Solver
from somf.callbacks import Progress
from somf.data import Loader, as_source, epoch_order
from somf.kernels.cpu.threads import threads
from somf.training.start import start

FITS: dict[str, dict[str, Any]] = {
    "1": {"reduction": 1},
    "4": {"reduction": 4},
    "4, exact codes": {"reduction": 4, "code_estimator": "exact"},
    "12": {"reduction": 12},
    "auto": {"reduction": "auto"},
}
"""The fits that are compared."""

CLOSE = 0.005
"""A relative distance from the best objective that counts as reached."""

CLOSE_WITHOUT_PENALTY = 0.1
"""The same for NMF without a penalty."""

RECORDS = 24
"""Evaluations of the held-out objective per fit."""


def photo_patches() -> tuple[Any, Any, dict[str, Any]]:
    """Return patches of two photographs, for which a mask has few features per atom."""
    return *photographs(), {"n_components": 256, "alpha": 0.1}


def digits() -> tuple[Any, Any, dict[str, Any]]:
    """Return handwritten digits of unit norm."""
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import normalize

    X = normalize(load_digits().data).astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))]
    return X[:1500], X[1500:], {"n_components": 30, "alpha": 0.02}


def pines_without_penalty() -> tuple[Any, Any, dict[str, Any]]:
    """Return patches of Indian Pines that are not centred, for NMF without a penalty."""
    train, test = indian_pines(center=False)
    return in_memory(train), in_memory(test), {"n_components": 100, "alpha": 0.0}


def all_scenes(path: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Return patches of all scenes."""
    train, test = aviris_scenes(path)
    return in_memory(train), in_memory(test), {"n_components": 100, "alpha": 0.1}


def history(kind: type, data: Any, name: str, epochs: float, seed: int) -> dict[str, list[float]]:
    """Return the history of one of the fits."""
    train, test, params = data
    planned = int(epochs * train.shape[0])

    def is_over(progress: Progress) -> bool:
        return progress.n_samples_seen >= planned

    model = kind(
        **params,
        **FITS[name],
        n_epochs=math.ceil(epochs),
        record_every=max(50, planned // RECORDS),
        callbacks=is_over,
        random_state=seed,
    )
    found: dict[str, list[float]] = model.fit(train, validation=test).history_
    return found


def first_look(kind: type, data: Any, seed: int) -> float:
    """Return the relative extra cost of codes from a twelfth of the features at the start."""
    train, _, params = data
    config = kind(**params, reduction="auto")._config().for_features(train.shape[1])
    source, ids = as_source(train), np.arange(train.shape[0])
    with threads(None):
        state = start(config, source, ids, seed, is_finite=True)
        loader = Loader(source, state.D.dtype, state.permutation)
        batch = epoch_order(ids, seed, 0)[: config.batch_size]
        return Solver(config, state).extra_cost(loader.load(batch), TOLERANCE)


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


def compare(kind: type, data: Any, epochs: float, seeds: int) -> dict[str, dict[str, Any]]:
    """Return seconds and final objectives of all fits."""
    history(kind, data, "auto", 100 / data[0].shape[0], 0)  # compile
    runs = [{name: history(kind, data, name, epochs, s) for name in FITS} for s in range(seeds)]
    best = [min(min(run["objective"]) for run in of_seed.values()) for of_seed in runs]
    close = CLOSE if data[2]["alpha"] > 0 else CLOSE_WITHOUT_PENALTY
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
    sources: dict[str, tuple[type, Callable[[], Any], float]] = {
        "Indian Pines": (DictionaryLearning, defaults.aviris, 1),
        "photographs": (DictionaryLearning, photo_patches, 2),
        "text": (DictionaryLearning, defaults.text, 2),
        "planted": (DictionaryLearning, defaults.planted, 3),
        "digits, NMF": (NMF, digits, 20),
        "Indian Pines, NMF": (NMF, pines_without_penalty, 0.5),
    }
    if options.scenes.exists():
        sources["airport"] = (DictionaryLearning, partial(defaults.scenes, options.scenes), 1)
        sources["scenes"] = (DictionaryLearning, partial(all_scenes, options.scenes), 1)
    result: dict[str, Any] = {
        "seeds": options.seeds,
        "close": CLOSE,
        "close without penalty": CLOSE_WITHOUT_PENALTY,
    }
    result |= {"first look": {}, "data": {}}
    if options.data:
        result = json.loads(options.output.read_text())
    for name, (kind, source, epochs) in sources.items():
        if options.data and name not in options.data:
            continue
        data = source()
        looks = [first_look(kind, data, seed) for seed in range(options.seeds)]
        result["first look"][name] = looks
        print(f"{name:<18} extra cost of codes at the start:", *(f"{x:.2%}" for x in looks))
        found = result["data"][name] = compare(kind, data, epochs, options.seeds)
        for r, row in found.items():
            print(f"{name:<18} r={r:<14}", *row["iterations"], "iterations,", row["seconds"], "s")
    write_results(options.output, result)


if __name__ == "__main__":
    main()
