"""Measurements behind the defaults: weights of the past, batch sizes, reductions.

    python -m benchmarks.defaults [--scenes ../shared/data/aviris_scenes.npy] [--study batches]

The data sets of `benchmarks.datasets`, and patches of AVIRIS scenes if their file exists. A study
varies one or two settings. Its fits last for a fixed number of epochs, and the objective on
held-out samples is measured eight times per epoch, on one thread. The study "defaults" is a fit
with nothing but defaults. Results of other studies are kept.
"""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import somf
from benchmarks.datasets import DATASETS, Dataset, scenes
from benchmarks.machine import facts
from somf.algorithm.solver import Solver
from somf.callbacks import Progress
from somf.typing import Matrix

EVERYTHING: dict[str, Any] = {"reduction": 1, "code_estimator": "exact"}
"""Iterations that look at all features."""

WAYS: tuple[dict[str, Any], ...] = (
    EVERYTHING,
    *({"reduction": r, "code_estimator": "exact"} for r in (2, 4, 8)),
    *({"reduction": r, "code_estimator": "masked"} for r in (4, 12)),
    {"reduction": "auto"},
)
"""Ways to subsample."""

STUDIES: dict[str, list[dict[str, Any]]] = {
    "weights": [
        EVERYTHING | {"learning_rate": v, "batch_size": 50} for v in (0.76, 0.85, 0.92, "auto")
    ],
    "reductions": [
        way | {"batch_size": size} for way in WAYS for size in (25, 50, 100, 200, 400, "auto")
    ],
    "defaults": [{}],
}
"""The settings that are compared."""

EPOCHS = {
    "digits": 20,
    "small images": 40,
    "photographs, k = 64": 8,
    "photographs, k = 256": 5,
    "pixels": 20,
    "patches": 8,
    "text": 10,
    "counts": 8,
    "planted": 8,
    "long and thin": 3,
    "short and wide": 40,
    "scenes": 4,
}
"""Epochs of a fit, by data set."""

RECORDS = 8
"""Measurements of the held-out objective per epoch."""

PROBE_STUDIES: dict[str, dict[str, Any]] = {
    "probes": {"reductions": (2, 4, 12), "iterations": (96,)},
    "later probes": {"reductions": (3, 12), "iterations": (24, 96, 384, 1536)},
}
"""Reductions at which the extra cost of masked codes is measured, and when."""

PROBE_BATCH = 100
"""Samples of a minibatch of these fits."""


def follow(data: Dataset, setting: dict[str, Any]) -> dict[str, Any]:
    """Return the held-out objectives of a fit, the seconds until then, and the setting."""
    params = dict(setting)
    if params:
        params |= {"n_epochs": EPOCHS[data.name], "tol": 0.0}
    n = data.train.shape[0]
    model = estimator(data, record_every=max(1, n // RECORDS), n_threads=1, **params)
    history = model.fit(data.train, validation=data.test).history_
    return {
        "data": data.name,
        "setting": setting,
        "epochs": [seen / n for seen in history["n_samples_seen"]],
        "samples": history["n_samples_seen"],
        "objective": history["objective"],
        "seconds": history["compute_seconds"],
    }


def estimator(data: Dataset, **params: Any) -> somf.MatrixFactorization:
    """Return the estimator of a data set, with a seed."""
    kind: type[somf.MatrixFactorization] = getattr(somf, data.problem)
    return kind(data.k, alpha=data.alpha, random_state=0, **params)


def extra_cost(data: Dataset, reduction: float, iteration: int) -> float | None:
    """Return the relative extra cost of masked codes in an iteration, None after the last."""
    found: list[float] = []

    def is_over(progress: Progress) -> bool:
        return progress.n_iter > iteration

    def iterate(solver: Solver, X: Matrix, *rest: Any) -> None:
        if solver.state.n_iter == iteration:
            found.append(solver.probe.extra_cost(X, 1e-3))
        original(solver, X, *rest)

    original = Solver._iterate
    Solver._iterate = iterate  # type: ignore[method-assign]
    try:
        estimator(
            data,
            reduction=reduction,
            code_estimator="masked",
            batch_size=PROBE_BATCH,
            tol=0.0,
            callbacks=is_over,
        ).fit(data.train)
    finally:
        Solver._iterate = original  # type: ignore[method-assign]
    return found[0] if found else None


def probes(
    data: Dataset, reductions: Sequence[float], iterations: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the extra cost of masked codes at several reductions and iterations."""
    return [
        {"data": data.name, "reduction": r, "iteration": iteration, "extra cost": cost}
        for r in reductions
        for iteration in iterations
        if r <= data.train.shape[1] and (cost := extra_cost(data, r, iteration)) is not None
    ]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, default=Path("../shared/data/aviris_scenes.npy"))
    parser.add_argument("--study", choices=[*STUDIES, *PROBE_STUDIES], nargs="+")
    parser.add_argument("--data", nargs="+", help="only these")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/defaults.json"))
    options = parser.parse_args()
    sources = dict(DATASETS)
    if options.scenes.exists():
        sources["scenes"] = partial(scenes, options.scenes)
    chosen = options.study or [*STUDIES, *PROBE_STUDIES]
    known = json.loads(options.output.read_text()) if options.output.exists() else {}
    studies = known.get("studies", {}) | {
        name: {"machine": facts() | {"threads": 1}, "runs": []} for name in chosen
    }
    for name in options.data or sources:
        data = sources[name]()
        for study in chosen:
            runs = studies[study]["runs"]
            with threadpool_limits(1):
                if study in STUDIES:
                    runs += [follow(data, setting) for setting in STUDIES[study]]
                elif data.alpha > 0:
                    runs += probes(data, **PROBE_STUDIES[study])
            print(f"{name}: {study} done", flush=True)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(as_lines(studies))
    print(f"In {options.output}")


def as_lines(studies: dict[str, Any]) -> str:
    """Return JSON with one line per run."""
    parts = []
    for name, study in studies.items():
        runs = ",\n".join("   " + json.dumps(run) for run in study["runs"])
        others = [
            f"   {json.dumps(key)}: {json.dumps(value)},"
            for key, value in study.items()
            if key != "runs"
        ]
        head = "\n".join(others)
        parts.append(f'  {json.dumps(name)}: {{\n{head}\n   "runs": [\n{runs}\n   ]\n  }}')
    return '{\n "studies": {\n' + ",\n".join(parts) + "\n }\n}\n"


if __name__ == "__main__":
    main()
