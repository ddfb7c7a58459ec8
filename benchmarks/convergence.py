"""Which settings reach a stationary point, as the paper's theorem says, how fast, and which stall.

    python -m benchmarks.convergence [--output docs/convergence.png]

1. Small problems and many epochs, in double precision: a planted dictionary, patches of a
   photograph, patches of Indian Pines. Every code estimator, both surrogates, r = 1, 3, 10 and
   "auto", several v. Measured on the training data after 1, 2, 4, … epochs: the stationarity gap,
   relative to the objective; the objective; the distance of the atoms from the last ones of OMF
   (r = 1, same surrogate, same v, same initial atoms). Medians over seeds.
2. The objective after the first two epochs, on held-out samples and on training samples: patches of
   photographs with fewer features per mask than atoms (p = 768, k = 256, r = 12), and a sparse
   text-like matrix (p = 20,000, k = 50, r = 3).
3. Both surrogates on Indian Pines (11,700 patches of 51,200 features, k = 100, λ = 0.1, r = 4): the
   objective on another part of the scene along two epochs, one seed.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from benchmarks.machine import write_results
from benchmarks.scenes import ALPHA, K, indian_pines, indian_pines_cube
from benchmarks.settings import PAPER, PAPER_WEIGHTS
from somf import DictionaryLearning, ImagePatches
from somf.typing import Array

REDUCTIONS = (1, 3, 10, "auto")
"""The values of r."""

ESTIMATORS = ("masked", "averaged", "exact")
"""The code estimators, which differ for r > 1."""

SURROGATES = ("online", "incremental")
"""The surrogates."""

RATES = (0.8, 0.92, 0.99)
"""The values of v, with the first seed."""

RATE = 0.92
"""The default v, with all seeds."""

BATCH = 25
"""Samples in a minibatch."""

FLOOR = 1e-12
"""Relative gaps below this are rounding errors."""

Setting = tuple[str, str, Any, float]
"""Surrogate, code estimator, r, v."""


def planted() -> tuple[Array, dict[str, Any]]:
    """Return sparse combinations of 20 random atoms of 200 features, with noise, of unit norm."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 200))
    code = rng.standard_normal((500, 20)) * (rng.random((500, 20)) < 0.2)
    X = code @ atoms + rng.standard_normal((500, 200)) * 0.3
    return X / np.linalg.norm(X, axis=1, keepdims=True), {"n_components": 20, "alpha": 0.1}


def photograph() -> tuple[Array, dict[str, Any]]:
    """Return 500 colour patches of a photograph, 16 × 16 × 3."""
    from sklearn.datasets import load_sample_image

    patches = ImagePatches(load_sample_image("china.jpg"), 16, stride=4)
    return _some(patches, 500), {"n_components": 64, "alpha": 0.1}


def aviris() -> tuple[Array, dict[str, Any]]:
    """Return 500 patches of Indian Pines, 3 × 3 × 200."""
    patches = ImagePatches(np.asarray(indian_pines_cube(), dtype=np.float32), 3)
    return _some(patches, 500), {"n_components": 32, "alpha": 0.02}


def _some(patches: ImagePatches, n: int) -> Array:
    ids = np.random.default_rng(0).choice(patches.shape[0], n, replace=False)
    return patches.rows(np.sort(ids)).astype(np.float64)


PROBLEMS = {"planted": (planted, 256), "photograph": (photograph, 64), "Indian Pines": (aviris, 64)}
"""Data, and the number of epochs that is affordable."""


def settings(rates: tuple[float, ...]) -> Iterator[Setting]:
    """Yield all settings that differ; without subsampling all code estimators are the same."""
    for surrogate in SURROGATES:
        for r in REDUCTIONS:
            for estimator in ESTIMATORS if r != 1 else ("exact",):
                has_rate = surrogate == "online" or (estimator == "averaged" and r != 1)
                for v in rates if has_rate and r != "auto" else (RATE,):
                    yield surrogate, estimator, r, v


def follow(
    X: Array, params: dict[str, Any], setting: Setting, seed: int, epochs: tuple[int, ...]
) -> tuple[dict[str, list[float]], Array]:
    """Return iterations, relative gaps and objectives after some epochs, and the atoms then."""
    surrogate, estimator, r, v = setting
    model = DictionaryLearning(
        **params,
        reduction=r,
        code_estimator=estimator,  # type: ignore[arg-type] # one of ESTIMATORS
        surrogate=surrogate,  # type: ignore[arg-type] # one of SURROGATES
        learning_rate=v,
        batch_size=BATCH,
        code_tol=1e-6,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {"n_iter": [], "gap": [], "objective": []}
    atoms = []
    for epoch in range(1, epochs[-1] + 1):
        order = rng.permutation(len(X))
        model.partial_fit(X[order], sample_ids=order)
        if epoch in epochs:
            objective = model.objective(X, tol=1e-8)
            found["n_iter"].append(model.n_iter_)
            found["objective"].append(objective)
            gap = model.stationarity_gap(X, tol=1e-10) / objective
            found["gap"].append(max(gap, FLOOR))
            atoms.append(model.components_)
    return found, np.array(atoms)


def distance(atoms: Array, others: Array) -> float:
    """Return the relative distance of two dictionaries, up to the order and signs of atoms."""
    cosine = atoms @ others.T
    rows, columns = linear_sum_assignment(-np.abs(cosine))
    signs = np.where(cosine[rows, columns] < 0, -1.0, 1.0)
    apart = atoms[rows] - signs[:, None] * others[columns]
    return float(np.linalg.norm(apart) / np.linalg.norm(others))


def slope(n_iter: list[float], gap: list[float]) -> float:
    """Return the exponent of the gap as a power of the iterations, over the second half."""
    late = slice(len(n_iter) // 2, None)
    return float(np.polyfit(np.log(n_iter[late]), np.log(gap[late]), 1)[0])


def converge(name: str, most_epochs: int, seeds: int) -> list[dict[str, Any]]:
    """Return one row per setting on one problem."""
    load, n_epochs = PROBLEMS[name]
    X, params = load()
    epochs = tuple(2**i for i in range(min(n_epochs, most_epochs).bit_length()))
    runs: dict[Setting, list[dict[str, list[float]]]] = {}
    for seed in range(seeds):
        solutions: dict[tuple[str, float], Array] = {}
        for setting in settings(RATES if seed == 0 else (RATE,)):
            surrogate, _, r, v = setting
            run, atoms = follow(X, params, setting, seed, epochs)
            if r == 1:
                solutions[surrogate, v] = atoms[-1]
            solution = solutions[surrogate, v if surrogate == "online" else RATE]
            run["distance"] = [distance(D, solution) for D in atoms]
            runs.setdefault(setting, []).append(run)
    rows = []
    for (surrogate, estimator, r, v), found in runs.items():
        row: dict[str, Any] = {"surrogate": surrogate, "estimator": estimator, "r": r, "v": v}
        row["seeds"] = len(found)
        for column in found[0]:
            row[column] = [
                median(values) for values in zip(*(f[column] for f in found), strict=True)
            ]
        row["worst gap"] = max(f["gap"][-1] for f in found)
        row["slope"] = slope(row["n_iter"], row["gap"])
        rows.append(row)
        print(
            f"{name:<13}{surrogate:<12}{estimator:<9} r={r:<5} v={v:<5}"
            f" gap {row['gap'][0]:.1e} → {row['gap'][-1]:.1e} ~ t^{row['slope']:+.2f}"
            f"  objective {row['objective'][-1]:.6f}  from OMF {row['distance'][-1]:.3f}",
            flush=True,
        )
    return rows


def photographs() -> tuple[Array, Array]:
    """Return patches of the left and of the right parts of two photographs."""
    from sklearn.datasets import load_sample_images

    images = load_sample_images().images
    left = [ImagePatches(image[:, :480], 16, stride=4) for image in images]
    right = [ImagePatches(image[:, 480:], 16, stride=8) for image in images]
    parts = [[p.rows(np.arange(p.shape[0])) for p in side] for side in (left, right)]
    train, test = (np.concatenate(part).astype(np.float32) for part in parts)
    return train, test


def text() -> tuple[Any, Any]:
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
    return X[:11_000], X[11_000:]


FIRST_EPOCHS: dict[str, tuple[Any, int, int]] = {
    "photographs": (photographs, 256, 12),
    "text": (text, 50, 3),
}
"""Data, k and r of the second part."""


def first_settings(r: int) -> dict[str, dict[str, Any]]:
    """Return the settings that are compared in the first epochs."""
    return {
        "r = 1": {"reduction": 1},
        "r = 1, v = 0.8": {"reduction": 1, "learning_rate": 0.8},
        f"masked, r = {r}": {"reduction": r, "code_estimator": "masked"},
        f"averaged, r = {r}": {"reduction": r},
        f"exact, r = {r}": {"reduction": r, "code_estimator": "exact"},
        "auto": {"reduction": "auto", "code_estimator": "auto"},
    }


def early(name: str, n_epochs: int, seeds: int) -> dict[str, dict[str, Any]]:
    """Return objectives on held-out and on training samples after each of the first epochs."""
    load, k, r = FIRST_EPOCHS[name]
    train, test = load()
    n = train.shape[0]
    some = train[np.random.default_rng(0).choice(n, 1000, replace=False)]
    found: dict[str, dict[str, Any]] = {}
    for words, setting in first_settings(r).items():
        runs = []
        for seed in range(seeds):
            params = PAPER | setting
            model = DictionaryLearning(k, alpha=0.1, batch_size=50, random_state=seed, **params)
            rng, run = np.random.default_rng(seed), []
            for _ in range(n_epochs):
                order = rng.permutation(n)
                model.partial_fit(train[order], sample_ids=order)
                run.append((model.objective(test, tol=1e-4), model.objective(some, tol=1e-4)))
            runs.append(run)
        held_out, learned = np.median(runs, axis=0).T
        found[words] = {
            "held out": held_out.tolist(),
            "spread": float(np.ptp([run[-1][0] for run in runs])),
            "learned from": learned.tolist(),
        }
        print(f"{name:<13}{words:<18}", *held_out.round(5), learned.round(5), flush=True)
    return found


def compare_surrogates() -> list[dict[str, Any]]:
    """Return objectives on held-out patches of Indian Pines every half epoch."""
    train, test = indian_pines()
    rows = []
    for estimator in ("averaged", "exact", "masked"):
        for surrogate in SURROGATES if estimator != "masked" else ("online",):
            model = DictionaryLearning(
                K, alpha=ALPHA, reduction=4, code_estimator=estimator, surrogate=surrogate,
                batch_size=50, n_epochs=2, tol=0.0, record_every=train.shape[0] // 2,
                random_state=0, **PAPER_WEIGHTS,
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


COLOURS = {"masked": "tab:red", "averaged": "tab:blue", "exact": "tab:green"}
"""The colour of each code estimator in the figure."""

STYLES = {1: "-", 3: "--", 10: ":", "auto": "-."}
"""The line style of each r in the figure."""


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw gaps and distances against iterations, a row per problem."""
    import matplotlib.pyplot as plt

    columns = [("online", "gap"), ("incremental", "gap"), ("incremental", "distance")]
    titles = {"gap": "stationarity gap / objective", "distance": "distance to the atoms of OMF"}
    problems = result["problems"]
    figure, axes = plt.subplots(
        len(problems), 3, figsize=(11, 3.1 * len(problems)), squeeze=False, layout="constrained"
    )
    for row, (name, runs) in zip(axes, problems.items(), strict=True):
        for axis, (surrogate, what) in zip(row, columns, strict=True):
            for run in runs:
                is_omf, is_auto = run["r"] == 1, run["r"] == "auto"
                if (
                    (run["surrogate"], run["v"]) != (surrogate, RATE)
                    or ((is_omf or is_auto) and what == "distance")
                    or (is_auto and run["estimator"] != "averaged")  # all three are OMF
                ):
                    continue
                colour = "black" if is_omf else COLOURS[run["estimator"]]
                words = "r = 1" if is_omf else f"{run['estimator']}, r = {run['r']}"
                axis.loglog(
                    run["n_iter"],
                    run[what],
                    STYLES[run["r"]],
                    color="tab:orange" if is_auto else colour,
                    label="r = auto" if is_auto else words,
                    marker=".",
                )
            axis.set_title(f"{name}, {surrogate}: {titles[what]}", fontsize=8)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("iterations")
    axes[0, 0].legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure, print, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--epochs", type=int, default=256, help="at most this many")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("docs/convergence.png"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/convergence.json"))
    options = parser.parse_args()
    result: dict[str, Any] = {"seeds": options.seeds}
    result["problems"] = {n: converge(n, options.epochs, options.seeds) for n in options.problems}
    n_epochs = min(2, options.epochs)
    result["first epochs"] = {n: early(n, n_epochs, options.seeds) for n in FIRST_EPOCHS}
    result["surrogates"] = compare_surrogates()
    write_results(options.json, result)
    draw(result, options.output)


if __name__ == "__main__":
    main()
