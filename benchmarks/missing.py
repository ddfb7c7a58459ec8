"""Unknown entries: error and time against peers, on planted matrices and on ratings.

    python -m benchmarks.missing [--seeds 3] [--ratings u::v::r file]

1. Planted matrices of rank 5 (2,000 × 200, noise of a tenth), 10 to 99 per cent of them unknown:
   the error on unknown entries, next to iterative SVD, alternating least squares, and
   scikit-learn's imputers.
2. Ratings of the size of MovieLens 1M (6,040 × 3,952, a million of them), planted, or from a file:
   RMSE on a tenth of them that is held out, next to alternating least squares with weighted
   regularisation. λ of both is chosen on another tenth.
3. The time of an epoch per known entry, next to that of the same data without unknown entries.
4. Rules for the statistics of the dictionary update, on the planted ratings, in plain NumPy.

All times are CPU seconds of one thread.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from benchmarks.machine import write_results
from somf import DictionaryLearning, MatrixFactorization
from somf.data import Offsets, as_source
from somf.kernels.cpu.threads import threads
from somf.typing import Array, Ints

SHAPE, RANK, NOISE = (2000, 200), 5, 0.1
"""The planted matrices."""

SHARES = (0.1, 0.5, 0.9, 0.99)
"""Which part of them is unknown."""

N_RATINGS = 1_000_000
"""Ratings that are planted."""

RATINGS_SHAPE = (6040, 3952)
"""People and things."""

EPOCH_SHAPE, EPOCH_ATOMS = (4000, 1000), (10, 30)
"""The data of the measurement of time, and numbers of atoms."""

PLANTED_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Values of λ to choose from, for planted matrices."""

RIDGES = {"somf": (0.01, 0.02, 0.05, 0.1, 0.2), "ALS": (0.02, 0.05, 0.1, 0.15)}
"""Values of λ to choose from."""


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


@njit(cache=True)
def _half_step(
    indptr: Ints, indices: Ints, data: Array, factors: Array, ridge: float, out: Array
) -> None:
    """Solve the ridge regression of every row on the factors of its entries."""
    k = factors.shape[1]
    for i in range(len(indptr) - 1):
        G, g = np.zeros((k, k)), np.zeros(k)
        for entry in range(indptr[i], indptr[i + 1]):
            f = factors[indices[entry]]
            for a in range(k):
                g[a] += data[entry] * f[a]
                for b in range(a + 1):
                    G[a, b] += f[a] * f[b]
        for a in range(k):
            for b in range(a):
                G[b, a] = G[a, b]
            G[a, a] += ridge * max(indptr[i + 1] - indptr[i], 1)
        out[i] = np.linalg.solve(G, g)


def alternate(
    X: sp.csr_array, k: int, ridge: float, n_sweeps: int, seed: int
) -> tuple[Array, Array]:
    """Return the factors of alternating least squares with weighted regularisation.

    Zhou, Wilkinson, Schreiber and Pan (2008).
    """
    columns = X.tocsc()
    things = 0.1 * np.random.default_rng(seed).standard_normal((X.shape[1], k))
    people = np.zeros((X.shape[0], k))
    for _ in range(n_sweeps):
        _half_step(X.indptr, X.indices, X.data, things, ridge, people)
        _half_step(columns.indptr, columns.indices, columns.data, people, ridge, things)
    return people, things


class Ratings:
    """Ratings in three parts: to learn from, to choose λ by, and to be judged by.

    Parameters
    ----------
    row, column : ndarray of int of shape (m,)
    rating : ndarray of shape (m,)
    seed : int
    """

    def __init__(self, row: Ints, column: Ints, rating: Array, seed: int) -> None:
        part = np.random.default_rng(seed).integers(10, size=len(rating))
        self.known, self.choice, self.test = (
            sp.coo_array(
                (rating[which], (row[which], column[which])),
                shape=(row.max() + 1, column.max() + 1),
            )
            for which in (part > 1, part == 0, part == 1)
        )
        self.X = self.known.tocsr()
        self.offsets = Offsets.learn(as_source(self.X), np.arange(self.X.shape[0]))
        self.of_people = self.offsets.of_samples(self.X)
        self.left = sp.csr_array(self.offsets.subtracted(self.X.tocsc(), np.ones(self.X.nnz)))

    def rmse(self, people: Array, things: Array, part: sp.coo_array) -> float:
        """Return the root mean squared error of factors, with offsets."""
        predicted = self.offsets.features[part.col] + self.of_people[part.row]
        predicted = predicted + (people[part.row] * things[part.col]).sum(axis=1)
        return float(np.sqrt(np.mean((part.data - predicted) ** 2)))


def planted_ratings(seed: int) -> Ratings:
    """Return ratings from 1 to 5: popular things, busy people, offsets, ten factors and noise."""
    rng = np.random.default_rng(seed)
    n, p = RATINGS_SHAPE
    busy, popular = rng.lognormal(0, 1.1, n), np.arange(1, p + 1) ** -0.8
    pairs = [rng.choice(len(w), 2 * N_RATINGS, p=w / w.sum()) for w in (busy, popular)]
    names = rng.permutation(np.unique(pairs[0] * p + pairs[1]))[:N_RATINGS]
    row, column = names // p, names % p
    factors = [rng.standard_normal((m, 10)) for m in RATINGS_SHAPE]
    rating = 3.6 + 0.4 * rng.standard_normal(n)[row] + 0.5 * rng.standard_normal(p)[column]
    sizes = np.linspace(1, 0.3, 10)
    rating += 0.22 * (factors[0][row] * factors[1][column] * sizes).sum(axis=1)
    rating += 0.85 * rng.standard_normal(len(row))
    return Ratings(row, column, np.clip(np.round(rating), 1, 5), seed)


def read_ratings(path: Path, seed: int) -> Ratings:
    """Return the ratings of a file with lines ``person::thing::rating::time``."""
    table = np.array([line.split("::")[:3] for line in path.read_text().splitlines()], dtype=float)
    row, column = (np.unique(table[:, i], return_inverse=True)[1] for i in (0, 1))
    return Ratings(row, column, table[:, 2], seed)


def measure_ratings(ratings: list[Ratings], counts: tuple[int, ...]) -> dict[str, Any]:
    """Return RMSE and seconds of the λ that is best on the second part, by number of factors."""
    found: dict[str, Any] = {}
    for k in counts:
        rows: dict[str, Any] = {name: {"errors": [], "seconds": []} for name in RIDGES}
        for seed, data in enumerate(ratings):
            for name, fit in (("somf", ridge_codes), ("ALS", weighted_least_squares)):
                trials = []
                for ridge in RIDGES[name]:
                    begin = time.process_time()
                    factors = fit(data.left, k, ridge, seed)
                    seconds = time.process_time() - begin
                    trials.append((data.rmse(*factors, data.choice), seconds, factors))
                _, seconds, factors = min(trials, key=lambda trial: trial[0])
                rows[name]["errors"].append(data.rmse(*factors, data.test))
                rows[name]["seconds"].append(seconds)
            nothing = [np.zeros((m, 1)) for m in data.X.shape]
            rows.setdefault("offsets", []).append(data.rmse(*nothing, data.test))
        found[str(k)] = rows
        print(k, rows, flush=True)
    return found


def ridge_codes(X: sp.csr_array, k: int, ridge: float, seed: int) -> tuple[Array, Array]:
    """Return codes and atoms of somf."""
    model = MatrixFactorization(
        k,
        alpha=ridge,
        l1_ratio=0.0,
        missing="absent",
        surrogate="incremental",
        init="random",
        batch_size=300,
        reduction=1,
        n_epochs=5,
        tol=0,
        n_threads=1,
        random_state=seed,
    ).fit(X)
    return model.transform(X), model.components_.T


def weighted_least_squares(X: sp.csr_array, k: int, ridge: float, seed: int) -> tuple[Array, Array]:
    """Return the factors of ten sweeps of alternating least squares."""
    return alternate(X, k, ridge, 10, seed)


def measure_epochs() -> dict[str, Any]:
    """Return seconds of an epoch for each known entry, relative to data without unknown ones."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for k in EPOCH_ATOMS:
        X = rng.standard_normal((EPOCH_SHAPE[0], k)) @ rng.standard_normal((k, EPOCH_SHAPE[1]))
        X = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
        base, rows = _epoch(X, k, "error"), {}
        for share in (0.01, 0.1, 0.5, 0.9):
            Y = np.where(rng.random(X.shape) < share, np.float32(np.nan), X)
            rows[str(share)] = _epoch(Y, k, "nan") / (1 - share) / base
        Y = sp.csr_array(np.where(rng.random(X.shape) < 0.01, X, 0))
        rows["0.99, sparse"] = _epoch(Y, k, "absent") / 0.01 / base
        found[str(k)] = rows
        print(k, rows, flush=True)
    return found


def _epoch(X: Any, k: int, missing: str) -> float:
    model = DictionaryLearning(
        k, missing=missing, reduction=1, n_epochs=1, n_threads=1, random_state=0
    )
    model.fit(X)  # compiles
    times = []
    for _ in range(3):
        begin = time.process_time()
        model.fit(X)
        times.append(time.process_time() - begin)
    return float(np.median(times))


def measure_rules(data: Ratings, k: int = 10, n_epochs: int = 5) -> dict[str, list[float]]:
    """Return the RMSE after every epoch of rules for the statistics of the dictionary update.

    Ridge codes of minibatches; a row of D solves a ridge regression by its statistics.
    """
    found = {}
    for name, rule in RULES.items():
        rng = np.random.default_rng(0)
        D = rng.standard_normal((data.X.shape[1], k)) / 10
        state: dict[str, Array] = {}
        errors = []
        for _ in range(n_epochs):
            for batch in np.array_split(rng.permutation(data.X.shape[0]), 20):
                X = data.left[batch]
                codes = _ridge_codes(X, D, 5.0)
                D = rule(state, D, X, codes)
            errors.append(data.rmse(_ridge_codes(data.left, D, 5.0), D, data.test))
        found[name] = errors
        print(name, np.round(errors, 4), flush=True)
    return found


def _ridge_codes(X: sp.csr_array, D: Array, ridge: float) -> Array:
    codes = np.zeros((X.shape[0], D.shape[1]))
    _half_step_plain(X.indptr, X.indices, X.data, D, ridge, codes)
    return codes


@njit(cache=True)
def _half_step_plain(
    indptr: Ints, indices: Ints, data: Array, factors: Array, ridge: float, out: Array
) -> None:
    k = factors.shape[1]
    for i in range(len(indptr) - 1):
        F = factors[indices[indptr[i] : indptr[i + 1]]]
        G = F.T @ F + ridge * np.eye(k)
        out[i] = np.linalg.solve(G, F.T @ data[indptr[i] : indptr[i + 1]])


KEEP = 0.95
"""What a statistic keeps of its past in an iteration; a minibatch is a twentieth of an epoch."""


def exact(state: dict[str, Array], D: Array, X: sp.csr_array, codes: Array) -> Array:
    """Update rows by a matrix C for every feature."""
    p, k = D.shape
    pairs = (codes[:, :, None] * codes[:, None]).reshape(len(codes), -1)
    pattern = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    state["B"] = KEEP * state.get("B", 0) + X.T @ codes
    state["C"] = KEEP * state.get("C", 0) + pattern.T @ pairs
    return np.linalg.solve(state["C"].reshape(p, k, k) + 5.0 * np.eye(k), state["B"][:, :, None])[
        :, :, 0
    ]


def shared(state: dict[str, Array], D: Array, X: sp.csr_array, codes: Array) -> Array:
    """Update rows by one matrix C, and B in proportion to how often a feature is known."""
    counts = np.bincount(X.indices, minlength=len(D))
    state["n"] = KEEP * state.get("n", 0) + counts
    state["B"] = KEEP * state.get("B", 0) + X.T @ codes
    state["C"] = KEEP * state.get("C", 0) + codes.T @ codes / len(codes)
    total = KEEP * state.get("m", np.zeros(())) + 1.0
    state["m"] = total
    C, k = state["C"] / total, D.shape[1]
    grams = state["n"][:, None, None] * C + 5.0 * np.eye(k)
    return np.linalg.solve(grams, state["B"][:, :, None])[:, :, 0]


def imputed(state: dict[str, Array], D: Array, X: sp.csr_array, codes: Array) -> Array:
    """Update rows by one matrix C, with predictions in the place of unknown entries."""
    residual = X.copy()
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    residual.data = X.data - (codes[rows] * D[X.indices]).sum(axis=1)
    gram = codes.T @ codes
    state["B"] = KEEP * state.get("B", 0) + residual.T @ codes + D @ gram
    state["C"] = KEEP * state.get("C", 0) + gram
    return np.linalg.solve(state["C"] + 5.0 * np.eye(len(gram)), state["B"].T).T


RULES = {
    "a matrix C for every feature": exact,
    "one C, a clock for every feature": shared,
    "predictions for unknown entries": imputed,
}
"""Rules for the statistics of the dictionary update."""


def _all_ratings(path: Path | None, n_seeds: int) -> Iterator[Ratings]:
    for seed in range(n_seeds):
        yield planted_ratings(seed) if path is None else read_ratings(path, seed)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ratings", type=Path, help="a file of MovieLens; else they are planted")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/missing.json"))
    options = parser.parse_args()
    with threads(1):
        ratings = list(_all_ratings(options.ratings, options.seeds))
        result = {
            "planted": measure_planted(options.seeds),
            "ratings": measure_ratings(ratings, (10, 20)),
            "rules": measure_rules(ratings[0]),
            "epochs": measure_epochs(),
        }
    write_results(options.output, result)


if __name__ == "__main__":
    main()
