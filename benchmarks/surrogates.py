"""What the choice between the online and the incremental surrogate rests on.

    python -m benchmarks.surrogates [--seeds 10] [--output benchmarks/results/surrogates.json]

1. A toy problem (planted dictionary, n = 300, p = 60, k = 10, λ = 0.1, batches of 10, r = 3): the
   stationarity gap after 50 and 200 epochs, medians over seeds.
2. A planted dictionary of which all atoms can be found (n = 2,000, p = 40, k = 12, λ = 0.05,
   r = 2): the objective after 20 epochs, three seeds.
3. Indian Pines (k = 100, λ = 0.1, r = 4): the objective on another part of the scene along two
   epochs, one seed.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.machine import facts
from benchmarks.scenes import indian_pines
from somf import DictionaryLearning
from somf.typing import Array

ESTIMATORS = ("exact", "averaged", "masked")
SURROGATES = ("online", "incremental")
EPOCHS = (50, 200)


def planted(n: int, p: int, k: int, seed: int) -> Array:
    """Return samples of unit norm that are sparse combinations of k atoms, with noise."""
    rng = np.random.default_rng(seed)
    atoms = normalize(rng.standard_normal((k, p)))
    code = rng.standard_normal((n, k)) * (rng.random((n, k)) < 0.3)
    return normalize(code @ atoms + 0.05 * rng.standard_normal((n, p)))


def toy_gaps(n_seeds: int) -> dict[str, dict[str, list[float]]]:
    """Return stationarity gaps after some epochs, medians over seeds."""
    gaps: dict[str, dict[str, list[float]]] = {}
    for estimator in ESTIMATORS:
        gaps[estimator] = {}
        for surrogate in SURROGATES:
            runs = [_toy_gaps(estimator, surrogate, seed) for seed in range(n_seeds)]
            gaps[estimator][surrogate] = [median(at) for at in zip(*runs, strict=True)]
            print(estimator, surrogate, gaps[estimator][surrogate], flush=True)
    return gaps


def _toy_gaps(estimator: str, surrogate: str, seed: int) -> list[float]:
    X = planted(300, 60, 10, seed)
    return [
        DictionaryLearning(
            10, reduction=3, code_estimator=estimator, surrogate=surrogate, batch_size=10,
            n_epochs=n_epochs, random_state=seed,
        ).fit(X).stationarity_gap(X)
        for n_epochs in EPOCHS
    ]  # fmt: skip


def planted_objectives() -> dict[str, list[float]]:
    """Return objectives after 20 epochs with exact codes."""
    objectives = {}
    for surrogate in SURROGATES:
        objectives[surrogate] = []
        for seed in range(3):
            X = planted(2000, 40, 12, seed)
            model = DictionaryLearning(
                12, alpha=0.05, reduction=2, code_estimator="exact", surrogate=surrogate,
                n_epochs=20, random_state=seed,
            )  # fmt: skip
            objectives[surrogate].append(model.fit(X).objective(X))
    print(objectives, flush=True)
    return objectives


def scene_objectives() -> list[dict[str, Any]]:
    """Return objectives on held-out patches every half epoch."""
    train, test = indian_pines()
    rows = []
    for estimator in ("averaged", "exact", "masked"):
        for surrogate in SURROGATES if estimator != "masked" else ("online",):
            model = DictionaryLearning(
                100, code_estimator=estimator, surrogate=surrogate, n_epochs=2,
                record_every=train.shape[0] // 2, random_state=0,
            )  # fmt: skip
            history = model.fit(train, validation=test).history_
            rows.append({
                "code_estimator": estimator,
                "surrogate": surrogate,
                "epochs": [n / train.shape[0] for n in history["n_samples_seen"]],
                "objectives": history["objective"],
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/surrogates.json"))
    options = parser.parse_args()
    result = {
        "machine": facts(),
        "toy": {"seeds": options.seeds, "epochs": EPOCHS, "gaps": toy_gaps(options.seeds)},
        "planted": planted_objectives(),
        "Indian Pines": scene_objectives(),
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
