"""Ratings: RMSE on a tenth that is held out, next to alternating least squares.

The data has the size of MovieLens 1M (6,040 × 3,952, a million ratings) and is planted, or it is
from a file. Both methods minimise the same objective: squared errors of known ratings, and λ times
the squared norms of both factors for every rating (weighted regularisation). λ and the number of
passes over the ratings are chosen on another tenth, for both. Alternating least squares has the
kernels of somf, and single precision, too.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from somf import MatrixFactorization
from somf.data import Offsets, as_source
from somf.kernels.cpu import kernels
from somf.kernels.observed import Observed, quadratics
from somf.penalties import CodePenalty
from somf.typing import Array, Ints

N_RATINGS = 1_000_000
"""Ratings that are planted."""

RATINGS_SHAPE = (6040, 3952)
"""People and things."""

RIDGES = (0.05, 0.08, 0.12, 0.2)
"""Values of λ to choose from."""

SCALE = 1e4
"""Codes are larger by its root than the factors of alternating least squares, and atoms smaller:
so these are inside of the ball. Only the product of both penalties counts."""

FIRST_SEED = 10
"""Of the ratings and their parts. Smaller ones were used while somf and this comparison were made.
"""


def half_step(entries: Observed, factors: Array, ridge: float) -> Array:
    """Return the ridge regression of every row on the factors of its entries."""
    everything = (slice(0, len(factors)),)
    parts = quadratics(kernels, entries, factors, everything, lambda: factors, per_entry=True)
    code = np.zeros((entries.shape[0], factors.shape[1]), factors.dtype)
    kernels.solve_codes(*parts, CodePenalty(ridge / 2, 0.0, False), 0.0, code)
    return code


def alternate(
    X: sp.csr_array, k: int, ridge: float, n_sweeps: int, seed: int
) -> tuple[Array, Array]:
    """Return the factors of alternating least squares with weighted regularisation.

    Zhou, Wilkinson, Schreiber and Pan (2008).
    """
    people_first, things_first = (_known(sp.csc_array(A)) for A in (X, X.T))
    rng = np.random.default_rng(seed)
    things = 0.1 * rng.standard_normal((X.shape[1], k)).astype(X.dtype)
    people = np.zeros((X.shape[0], k), X.dtype)
    for _ in range(n_sweeps):
        people = half_step(people_first, things, ridge)
        things = half_step(things_first, people, ridge)
    return people, things


def _known(X: sp.csc_array) -> Observed:
    ones = sp.csc_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    return Observed(X, X, ones, 0)


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
        left = self.offsets.subtracted(self.X.tocsc(), np.ones(self.X.nnz))
        self.left = sp.csr_array(left).astype(np.float32)

    def rmse(self, people: Array, things: Array, part: sp.coo_array) -> float:
        """Return the root mean squared error of factors, with offsets."""
        predicted = self.offsets.features[part.col] + self.of_people[part.row]
        predicted = predicted + (people[part.row] * things[part.col]).sum(axis=1)
        return float(np.sqrt(np.mean((part.data - predicted) ** 2)))


def planted_ratings(noise: float, seed: int) -> Ratings:
    """Return ratings from 1 to 5: popular things, busy people, offsets, ten factors and noise.

    Parameters
    ----------
    noise : float
        Its standard deviation.
    seed : int
    """
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
    rating += noise * rng.standard_normal(len(row))
    return Ratings(row, column, np.clip(np.round(rating), 1, 5), seed)


def read_ratings(path: Path, seed: int) -> Ratings:
    """Return the ratings of a file with lines ``person::thing::rating::time``."""
    table = np.array([line.split("::")[:3] for line in path.read_text().splitlines()], dtype=float)
    row, column = (np.unique(table[:, i], return_inverse=True)[1] for i in (0, 1))
    return Ratings(row, column, table[:, 2], seed)


def measure_ratings(ratings: list[Ratings], k: int) -> dict[str, Any]:
    """Return RMSE and seconds of the λ and the passes that are best on the second part."""
    rows: dict[str, Any] = {name: defaultdict(list) for name in METHODS}
    rows["offsets"] = []
    for seed, data in enumerate(ratings):
        for name, (fit, passes) in METHODS.items():
            trials = []
            for ridge, n_passes in product(RIDGES, passes):
                begin = time.process_time()
                factors = fit(data.left, k, ridge, n_passes, seed)
                seconds = time.process_time() - begin
                error = data.rmse(*factors, data.choice)
                trials.append((error, data.rmse(*factors, data.test), seconds, ridge, n_passes))
            _, error, *chosen = min(trials)
            for what, value in zip(
                ("errors", "seconds", "ridges", "passes"), (error, *chosen), strict=True
            ):
                rows[name][what].append(value)
        nothing = [np.zeros((m, 1)) for m in data.X.shape]
        rows["offsets"].append(data.rmse(*nothing, data.test))
    print(k, rows, flush=True)
    return rows


def somf_factors(
    X: sp.csr_array, k: int, ridge: float, n_epochs: int | None, seed: int
) -> tuple[Array, Array]:
    """Return codes and atoms of somf, which ends by itself if `n_epochs` is None."""
    end = {} if n_epochs is None else {"n_epochs": n_epochs, "tol": 0}
    model = MatrixFactorization(
        k,
        alpha=ridge / 2 / SCALE,
        alpha_per="entry",
        atom_alpha=ridge / 2 * SCALE,
        l1_ratio=0.0,
        missing="absent",
        init="random",
        n_threads=1,
        random_state=seed,
        **end,
    ).fit(X)
    return model.transform(X), model.components_.T


METHODS: dict[str, tuple[Callable[..., tuple[Array, Array]], tuple[int | None, ...]]] = {
    "somf": (somf_factors, (2, 4, 12)),
    "somf, to the end": (somf_factors, (None,)),
    "ALS": (alternate, (3, 5, 10, 20)),
}
"""What is compared, with the numbers of epochs and of sweeps to choose from. The first three epochs
are those of a stream, others are passes over all samples."""


def measure_rules(data: Ratings, k: int = 10, n_epochs: int = 5) -> dict[str, list[float]]:
    """Return the RMSE after every epoch of rules for the statistics of the dictionary update.

    Ridge codes of minibatches; a row of D solves a ridge regression by its statistics.
    """
    found, left = {}, data.left.astype(np.float64)
    for name, rule in RULES.items():
        rng = np.random.default_rng(0)
        D = rng.standard_normal((data.X.shape[1], k)) / 10
        state: dict[str, Array] = {}
        errors = []
        for _ in range(n_epochs):
            for batch in np.array_split(rng.permutation(data.X.shape[0]), 20):
                X = left[batch]
                codes = _ridge_codes(X, D, 5.0)
                D = rule(state, D, X, codes)
            errors.append(data.rmse(_ridge_codes(left, D, 5.0), D, data.test))
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


def imputed_by_clock(state: dict[str, Array], D: Array, X: sp.csr_array, codes: Array) -> Array:
    """Update rows likewise, by samples that know the feature, each feature at its own pace."""
    counts = np.bincount(X.indices, minlength=len(D))
    residual = X.copy()
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    residual.data = X.data - (codes[rows] * D[X.indices]).sum(axis=1)
    total = KEEP * state.get("m", np.zeros(())) + 1.0
    state["C"] = KEEP * state.get("C", 0) + codes.T @ codes / len(codes)
    state["n"], state["m"] = KEEP * state.get("n", 0) + counts, total
    C, n = state["C"] / total, state["n"][:, None]
    pace = counts[:, None] / np.maximum(n, 1)
    seen = D @ C + (residual.T @ codes) / np.maximum(counts, 1)[:, None]
    state["B"] = (1 - pace) * state.get("B", 0) + pace * seen
    grams = n[:, :, None] * C + 5.0 * np.eye(D.shape[1])
    return np.linalg.solve(grams, (n * state["B"])[:, :, None])[:, :, 0]


RULES = {
    "a matrix C for every feature": exact,
    "one C, a clock for every feature": shared,
    "predictions for unknown entries": imputed,
    "the same, a clock for every feature": imputed_by_clock,
}
"""Rules for the statistics of the dictionary update."""
