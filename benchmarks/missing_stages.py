"""Where the time of an epoch goes if entries are unknown, by stage, for each known entry.

The kernels and the loader are timed one by one, so that a fit takes a little longer than otherwise.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from somf import MatrixFactorization
from somf.data.loader import Loader
from somf.kernels.cpu import kernels
from somf.typing import Array

SIZES = ((4000, 1000), (2000, 4000))
"""Samples and features; if they are sparse, five times as many samples."""

ATOMS, SHARES = (10, 20, 40), (0.0, 0.5, 0.9, 0.99)
"""Numbers of atoms, and which part is unknown."""

STAGES = {
    "load": "load",
    "correlate": "products",
    "squared_norms": "products",
    "observe": "products",
    "gram": "Gram matrices",
    "weighted_grams": "Gram matrices",
    "solve_codes": "codes",
    "pairs": "C of features",
    "accumulate": "products",
    "atom_norms": "dictionary",
    "update_atoms": "dictionary",
    "update_atoms_by_feature": "dictionary",
}
"""What is timed, and the stage that it belongs to."""


def measure_stages() -> dict[str, Any]:
    """Return nanoseconds by stage, number of features, number of atoms and share."""
    found: dict[str, Any] = {}
    for n, p in SIZES:
        for k in ATOMS:
            for share in SHARES:
                X, missing, n_known = data(n, p, k, share)
                row = stages(X, k, missing, 1 - share)
                found[f"{p}, {k}, {share}"] = {name: 1e9 * s / n_known for name, s in row.items()}
                print(p, k, share, {name: round(1e9 * s / n_known, 1) for name, s in row.items()})
    return found


def data(n: int, p: int, k: int, share: float) -> tuple[Any, str, int]:
    """Return samples of rank k, what is unknown of them, and how many entries are known."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, p))
    X = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
    if share == 0:
        return X, "error", X.size
    if share > 0.95:
        draws = [sp.csr_array(np.where(rng.random(X.shape) < share, 0, X)) for _ in range(5)]
        Z = sp.vstack(draws).tocsr()
        return Z, "absent", Z.nnz
    Y = np.where(rng.random(X.shape) < share, np.float32(np.nan), X)
    return Y, "nan", int(X.size - np.isnan(Y).sum())


def stages(X: Any, k: int, missing: str, known: float) -> dict[str, float]:
    """Return the CPU seconds of the second and third epoch by stage, and of all, for each epoch."""

    def seconds(n_epochs: int) -> dict[str, float]:
        model = MatrixFactorization(
            k,
            alpha=0.1 * known,
            missing=missing,
            reduction=1,
            n_epochs=n_epochs,
            tol=0,
            n_threads=1,
            random_state=0,
        )
        with timers(k) as spent:
            begin = time.process_time()
            model.fit(X)
            spent["all"] = time.process_time() - begin
        return spent

    seconds(1)  # compiles
    long, short = seconds(3), seconds(1)
    return {name: (long[name] - short[name]) / 2 for name in long}


@contextmanager
def timers(k: int) -> Iterator[dict[str, float]]:
    """Give the CPU seconds by stage, which are added up as long as the context lasts."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            begin = time.process_time()
            result = call(*arguments, **options)
            spent[_stage(name, arguments[0], k)] += time.process_time() - begin
            return result

        return run

    with ExitStack() as patches:
        for name in STAGES:
            owner = Loader if name == "load" else kernels
            patches.enter_context(patch.object(owner, name, timed(name, getattr(owner, name))))
        yield spent


def _stage(name: str, first: Array, k: int) -> str:
    """Return the stage of a call; C of features has triangles, wider than B and C."""
    return "C of features" if name == "accumulate" and first.shape[1] > k else STAGES[name]
