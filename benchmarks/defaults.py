"""Measurements behind the defaults: batch size, `code_tol`, code estimator, blocks per mask.

    python -m benchmarks.defaults [--scenes ../shared/data/aviris_scenes.npy]

Five kinds of data: AVIRIS patches (Indian Pines), patches of another AVIRIS scene if its file
exists, patches of a photograph, a sparse text-like matrix, a planted dictionary. One setting varies
at a time. Every fit has the same compute time. The result is the objective on held-out samples,
relative to that of the defaults: below 0 is better. Medians over seeds.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.machine import write_results
from benchmarks.scenes import indian_pines
from somf import DictionaryLearning, ImagePatches
from somf.algorithm import masks
from somf.callbacks import Progress

SETTINGS: dict[str, tuple[Any, ...]] = {
    "batch_size": (20, 50, 100, 200),
    "code_tol": (1e-1, 1e-2, 1e-3, 1e-4),
    "code_estimator": ("averaged", "masked", "exact"),
    "reduction": (1, 2, 4, 8, 12),
    "blocks per mask": (1, 2, 4, 8),
    "learning_rate": (0.8, 0.92, 0.99),
}
"""The values of each setting."""

Data = tuple[Any, Any, dict[str, Any]]
"""Training samples, test samples, and the parameters `n_components` and `alpha`."""


def aviris() -> Data:
    """Return patches of Indian Pines."""
    train, test = indian_pines()
    return train, test, {"n_components": 100, "alpha": 0.1}


def scenes(path: Path) -> Data:
    """Return patches of an airport; test patches come from its last rows."""
    scene = np.load(path, mmap_mode="r")[0]
    train = ImagePatches(scene[:75], 16)
    return train, ImagePatches(scene[75:], (16, 16), 4), {"n_components": 100, "alpha": 0.1}


def photograph() -> Data:
    """Return colour patches of a photograph that scikit-learn ships."""
    from sklearn.datasets import load_sample_image

    image = load_sample_image("china.jpg")
    train = ImagePatches(image[:, :480], 16, stride=2)
    return train, ImagePatches(image[:, 480:], 16, stride=8), {"n_components": 256, "alpha": 0.1}


def text() -> Data:
    """Return documents of Zipf-distributed words from 50 topics, of unit norm, as CSR."""
    rng = np.random.default_rng(0)
    n, p, n_topics = 12_000, 20_000, 50
    topics = rng.permuted(np.tile(1.0 / np.arange(1, p + 1), (n_topics, 1)), axis=1)
    cumulative = np.cumsum(topics / topics.sum(axis=1, keepdims=True), axis=1)
    rows, columns = [], []
    for i in range(n):
        chosen = rng.choice(n_topics, 2)
        words = [np.searchsorted(cumulative[t], rng.random(60)) for t in chosen]
        columns.append(np.minimum(np.concatenate(words), p - 1))
        rows.append(np.full(120, i))
    ones = np.ones(n * 120, dtype=np.float32)
    X = sp.csr_array((ones, (np.concatenate(rows), np.concatenate(columns))), shape=(n, p))
    X = sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    return X[:11_000], X[11_000:], {"n_components": 50, "alpha": 0.1}


def planted() -> Data:
    """Return sparse combinations of random atoms with noise."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((100, 5000), dtype=np.float32) / np.sqrt(5000)
    code = rng.standard_normal((12_000, 100), dtype=np.float32) * (rng.random((12_000, 100)) < 0.1)
    X = code @ atoms + rng.standard_normal((12_000, 5000), dtype=np.float32) * 0.005
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X[:11_000], X[11_000:], {"n_components": 100, "alpha": 0.1}


def fit(data: Data, seconds: float, seed: int, **setting: Any) -> float:
    """Return the held-out objective after some seconds of compute time."""
    train, test, params = data

    def is_over(progress: Progress) -> bool:
        return progress.compute_seconds > seconds

    masks.BLOCKS_PER_MASK = setting.pop("blocks per mask", 2)
    model = DictionaryLearning(
        **params, **setting, n_epochs=1000, callbacks=is_over, random_state=seed
    )
    return model.fit(train).objective(test, tol=1e-4)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, default=Path("../shared/data/aviris_scenes.npy"))
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/defaults.json"))
    options = parser.parse_args()
    sources: dict[str, Callable[[], Any]] = {
        "Indian Pines": aviris,
        "photograph": photograph,
        "text": text,
        "planted": planted,
    }
    if options.scenes.exists():
        sources["airport"] = lambda: scenes(options.scenes)
    result: dict[str, Any] = {"seconds": options.seconds, "data": {}}
    for name, source in sources.items():
        data = source()
        fit(data, 0.1, 0)  # compile

        def objective(data: Any = data, **setting: Any) -> float:
            runs = [fit(data, options.seconds, s, **setting) for s in range(options.seeds)]
            return median(runs)

        default = objective()
        rows: dict[str, dict[str, float]] = {}
        for setting, values in SETTINGS.items():
            rows[setting] = {str(v): objective(**{setting: v}) / default - 1 for v in values}
            cells = "  ".join(f"{v}: {change:+.2%}" for v, change in rows[setting].items())
            print(f"{name:<14}{setting:<17}{cells}", flush=True)
        result["data"][name] = {"objective": default, "relative change": rows}
    write_results(options.output, result)


if __name__ == "__main__":
    main()
