"""Unknown entries: error and time against peers, on planted matrices and on ratings.

    python -m benchmarks.missing [--seeds 3] [--ratings ml-100k.dat …] [--only planted …]

1. Planted matrices of rank 5 (2,000 × 200, noise of a tenth), 10 to 99 per cent of them unknown:
   the error on unknown entries, next to iterative SVD, alternating least squares, and
   scikit-learn's imputers.
2. Ratings, see `benchmarks.ratings`, and rules for the statistics of the dictionary update.
3. The time of an epoch per known entry, next to that of the same data without unknown entries,
   and to that of a sweep of alternating least squares. Where it goes: `benchmarks.missing_stages`.
4. Lost values of a hyperspectral scene.

All times are CPU seconds of one thread.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.machine import write_results
from benchmarks.missing_stages import measure_stages
from benchmarks.ratings import (
    FIRST_SEED,
    Ratings,
    alternate,
    measure_ratings,
    measure_rules,
    planted_ratings,
    read_ratings,
)
from somf import DictionaryLearning, ImagePatches, MatrixFactorization
from somf.kernels.cpu.threads import threads
from somf.typing import Array

SHAPE, RANK, NOISE = (2000, 200), 5, 0.1
"""The planted matrices."""

SHARES = (0.1, 0.5, 0.9, 0.99)
"""Which part of them is unknown."""

RATINGS = {0.6: (20,), 0.85: (10, 20, 40)}
"""Numbers of factors that are learned, by standard deviation of the noise of ratings; ten are
planted."""

EPOCHS = (((4000, 1000), 10), ((4000, 1000), 30), ((800, 10_000), 10))
"""The data of the measurement of time, and numbers of atoms."""

PLANTED_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Values of λ to choose from, for planted matrices."""


def planted(share: float, seed: int) -> tuple[Array, Array]:
    """Return a matrix of low rank, and the same with noise and with NaN where it is unknown."""
    rng = np.random.default_rng(seed)
    n, p = SHAPE
    truth = rng.standard_normal((n, RANK)) @ rng.standard_normal((RANK, p)) / np.sqrt(RANK)
    seen = truth + NOISE * rng.standard_normal(SHAPE)
    seen[rng.random(SHAPE) < share] = np.nan
    return truth, seen


def somf_imputes(X: Array, seed: int, ridge: float) -> Array:
    """Return X filled in by ridge codes on five atoms."""
    model = MatrixFactorization(
        RANK, alpha=ridge, l1_ratio=0.0, missing="nan", n_threads=1, random_state=seed
    )
    filled: Array = model.fit(X).impute(X)
    return filled


def chosen(imputes: Callable[..., Array]) -> Callable[[Array, int], tuple[Array, float]]:
    """Let λ be chosen by some of the known entries; only the last fit is timed."""

    def impute(X: Array, seed: int) -> tuple[Array, float]:
        hidden = ~np.isnan(X) & (np.random.default_rng(seed).random(X.shape) < 0.05)
        Y = np.where(hidden, np.nan, X)
        errors = [
            np.square((imputes(Y, seed, ridge) - X)[hidden]).mean() for ridge in PLANTED_RIDGES
        ]
        return timed(imputes, X, seed, PLANTED_RIDGES[int(np.argmin(errors))])

    return impute


def timed(impute: Callable[..., Array], *arguments: Any) -> tuple[Array, float]:
    """Return what a function returns, and its CPU seconds."""
    begin = time.process_time()
    found = impute(*arguments)
    return found, time.process_time() - begin


def iterative_svd(X: Array, seed: int) -> Array:  # noqa: ARG001 (the same for all)
    """Return X filled in by its best approximation of rank five, again and again."""
    unknown = np.isnan(X)
    filled = np.where(unknown, 0.0, X)
    for _ in range(100):
        U, s, Vt = np.linalg.svd(filled, full_matrices=False)
        new = np.where(unknown, (U[:, :RANK] * s[:RANK]) @ Vt[:RANK], X)
        change = np.linalg.norm(new - filled) / np.linalg.norm(new)
        filled = new
        if change < 1e-4:
            break
    return filled


def least_squares(X: Array, seed: int, ridge: float) -> Array:
    """Return X filled in by alternating least squares with weighted regularisation."""
    rows, columns = np.nonzero(~np.isnan(X))
    known = sp.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    people, things = alternate(known, RANK, ridge, 20, seed)
    return np.where(np.isnan(X), people @ things.T, X)


def by_neighbours(X: Array, seed: int) -> Array:  # noqa: ARG001
    """Return X filled in by scikit-learn's `KNNImputer`."""
    from sklearn.impute import KNNImputer

    return np.asarray(KNNImputer(keep_empty_features=True).fit_transform(X))


def by_regressions(X: Array, seed: int) -> Array:
    """Return X filled in by scikit-learn's `IterativeImputer`, with twenty features for each."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    imputer = IterativeImputer(
        n_nearest_features=20, max_iter=5, random_state=seed, keep_empty_features=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged
        return np.asarray(imputer.fit_transform(X))


IMPUTERS: dict[str, Callable[[Array, int], tuple[Array, float]]] = {
    "somf": chosen(somf_imputes),
    "iterative SVD": partial(timed, iterative_svd),
    "ALS": chosen(least_squares),
    "KNNImputer": partial(timed, by_neighbours),
    "IterativeImputer": partial(timed, by_regressions),
}
"""Ways to fill in unknown entries."""


def measure_planted(n_seeds: int) -> dict[str, Any]:
    """Return relative errors on unknown entries, and seconds, by share and imputer."""
    found: dict[str, Any] = {}
    for share in SHARES:
        rows = found[str(share)] = {name: {"errors": [], "seconds": []} for name in IMPUTERS}
        for seed in range(n_seeds):
            truth, X = planted(share, seed)
            unknown = np.isnan(X)
            for name, impute in IMPUTERS.items():
                filled, seconds = impute(X, seed)
                rows[name]["seconds"].append(seconds)
                left = np.linalg.norm((filled - truth)[unknown])
                rows[name]["errors"].append(float(left / np.linalg.norm(truth[unknown])))
        print(share, {name: np.mean(row["errors"]).round(4) for name, row in rows.items()})
    return found


def measure_epochs() -> dict[str, Any]:
    """Return seconds of an epoch for each known entry, relative to data without unknown ones.

    λ is as much smaller as fewer entries are known, so that codes are about equally dense.
    """
    found: dict[str, Any] = {}
    for (n, p), k in EPOCHS:
        rng = np.random.default_rng(0)
        factors = rng.standard_normal((n, k)), rng.standard_normal((k, p))
        X = factors[0] @ factors[1]
        X = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
        base, rows, sweeps = _epoch(X, k, "error", 1.0) / X.size, {}, {}
        for share in (0.01, 0.1, 0.5, 0.9):
            unknown = rng.random(X.shape) < share
            Y, n_known = np.where(unknown, np.float32(np.nan), X), X.size - unknown.sum()
            rows[str(share)] = _epoch(Y, k, "nan", 1 - share) / n_known / base
            if share >= 0.5:
                ridge = _epoch(Y, k, "nan", 1 - share, l1_ratio=0.0) / n_known
                Z = sp.csr_array(np.where(unknown, 0, X))
                sweeps[str(share)] = [1e9 * ridge, 1e9 * _sweep(Z, k) / n_known]
        Z = sp.vstack([sp.csr_array(np.where(rng.random(X.shape) < 0.01, X, 0)) for _ in range(9)])
        Z = Z.tocsr()
        rows["0.99, sparse"] = _epoch(Z, k, "absent", 0.01) / Z.nnz / base
        ridge = _epoch(Z, k, "absent", 0.01, l1_ratio=0.0) / Z.nnz
        sweeps["0.99, sparse"] = [1e9 * ridge, 1e9 * _sweep(Z, k) / Z.nnz]
        found[f"{p}, {k}"] = {"nanoseconds": 1e9 * base, "ratios": rows, "sweeps": sweeps}
        print(p, k, found[f"{p}, {k}"], flush=True)
    return found


def _epoch(X: Any, k: int, missing: str, known: float, l1_ratio: float = 1.0) -> float:
    """Return the CPU seconds of an epoch, without what a fit does once: the second and third."""

    def seconds(n_epochs: int) -> float:
        model = MatrixFactorization(
            k,
            alpha=0.1 * known,
            l1_ratio=l1_ratio,
            missing=missing,
            reduction=1,
            n_epochs=n_epochs,
            tol=0,
            n_threads=1,
            random_state=0,
        )
        begin = time.process_time()
        model.fit(X)
        return time.process_time() - begin

    seconds(1)  # compiles
    return float(np.median([seconds(3) - seconds(1) for _ in range(3)])) / 2


def _sweep(X: sp.csr_array, k: int) -> float:
    """Return the CPU seconds of a sweep of alternating least squares, likewise."""

    def seconds(n_sweeps: int) -> float:
        return timed(alternate, X, k, 0.1, n_sweeps, 0)[1]

    return float(np.median([seconds(3) - seconds(1) for _ in range(3)])) / 2


def measure_inpainting() -> dict[str, float]:
    """Return the PSNR of lost values of a hyperspectral scene, as in the example."""
    from examples import inpainting

    scene = inpainting.load_scene(60, 8)
    is_lost = inpainting.damage(scene.shape, np.random.default_rng(0))
    damaged = np.where(is_lost, np.nan, scene)
    mean, deviation = np.nanmean(damaged, axis=(0, 1)), np.nanstd(damaged, axis=(0, 1))
    image = (damaged - mean) / deviation
    patches = ImagePatches(
        image, 8, inpainting.STRIDE, center=False, scale=False, no_data="missing"
    )
    model = DictionaryLearning(
        40, alpha=0.1, reduction=4, missing="nan", n_epochs=5, random_state=0
    )
    filled = {
        "mean of the band": np.zeros_like(image),
        "near pixels": inpainting.from_pixels(image),
        "near bands": inpainting.from_bands(image),
        "somf": inpainting.put_together(model.fit(patches).impute(patches), patches),
    }
    found = {
        name: inpainting.psnr(np.where(is_lost, Y * deviation + mean, scene), scene, is_lost)
        for name, Y in filled.items()
    }
    print(found, flush=True)
    return {"lost": float(is_lost.mean())} | {name: float(x) for name, x in found.items()}


def measure_all_ratings(
    make: Callable[[Any, int], Ratings], counts: dict[Any, tuple[int, ...]], n_seeds: int
) -> dict[str, Any]:
    """Return RMSE and seconds by kind of ratings and number of factors."""
    found: dict[str, Any] = {}
    for kind, numbers in counts.items():
        ratings = [make(kind, seed) for seed in range(FIRST_SEED, FIRST_SEED + n_seeds)]
        name = kind.stem if isinstance(kind, Path) else kind
        found |= {f"{name}, {k}": measure_ratings(ratings, k) for k in numbers}
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--ratings", type=Path, nargs="+", default=[], help="files with lines person::thing::rating"
    )
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/missing.json"))
    parser.add_argument("--only", nargs="+", help="parts to measure again; others are kept")
    options = parser.parse_args()
    with threads(1):
        measures: dict[str, Callable[[], Any]] = {
            "planted": lambda: measure_planted(options.seeds),
            "ratings": lambda: measure_all_ratings(planted_ratings, RATINGS, options.seeds),
            "files": lambda: measure_all_ratings(
                read_ratings, dict.fromkeys(options.ratings, (10, 20, 40)), options.seeds
            ),
            "rules": lambda: measure_rules(planted_ratings(0.85, 0)),
            "epochs": measure_epochs,
            "stages": measure_stages,
            "inpainting": measure_inpainting,
        }
        result = json.loads(options.output.read_text()) if options.only else {}
        for name in options.only or measures:
            result[name] = measures[name]()
    write_results(options.output, {name: result[name] for name in measures if name in result})


if __name__ == "__main__":
    main()
