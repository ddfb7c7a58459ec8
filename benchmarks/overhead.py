"""What an iteration costs that computes next to nothing.

    python -m benchmarks.overhead [--rounds 7]

16 samples of 20 features and 4 atoms, float32, from memory, on one thread: most of the time is
spent outside of arithmetic. The time is that of the processor (other processes do not count), of a
fit of 3,000 iterations minus a fit of 100, so that the start of a fit does not count either. Kinds
of fits take turns; medians over rounds with quartiles.
"""

import argparse
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.machine import write_results
from benchmarks.settings import ONE_EPOCH, PAPER_WEIGHTS
from benchmarks.summaries import summary
from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA

BATCH, N_FEATURES, N_ATOMS = 16, 20, 4
"""The size of an iteration."""

LONG, SHORT = 3000, 100
"""Iterations of the two fits whose times are subtracted."""


def samples(n_iterations: int) -> Any:
    """Return random samples of norm 1."""
    X = np.random.default_rng(0).standard_normal((BATCH * n_iterations, N_FEATURES))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def fits() -> dict[str, tuple[MatrixFactorization, bool]]:
    """Return models by name, and whether their data is sparse."""
    common: dict[str, Any] = {
        "batch_size": BATCH,
        "init": "samples",
        "random_state": 0,
        "n_threads": 1,
    } | ONE_EPOCH
    fixed = {"alpha": 0.1} | PAPER_WEIGHTS | common
    return {
        "dictionary learning, defaults": (DictionaryLearning(N_ATOMS, alpha=0.1, **common), False),
        "dictionary learning, r = 1": (DictionaryLearning(N_ATOMS, reduction=1, **fixed), False),
        "r = 4, masked codes": (
            DictionaryLearning(N_ATOMS, reduction=4, code_estimator="masked", **fixed),
            False,
        ),
        "r = 4, averaged codes": (
            DictionaryLearning(N_ATOMS, reduction=4, code_estimator="averaged", **fixed),
            False,
        ),
        "CSR data, r = 1": (DictionaryLearning(N_ATOMS, reduction=1, **fixed), True),
        "NMF, r = 1": (NMF(N_ATOMS, reduction=1, **fixed), False),
        "sparse PCA, r = 1": (SparsePCA(N_ATOMS, reduction=1, **fixed), False),
    }


def cpu_seconds(model: MatrixFactorization, X: Any) -> float:
    """Return the time of the processor that a fit takes."""
    begin = process_time()
    model.fit(X)
    return process_time() - begin


def measure(n_rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds per iteration, by kind of fit."""
    dense = {n: np.abs(samples(n)) for n in (LONG, SHORT)}
    sparse = {n: sp.csr_array(np.where(X > 0.3, X, 0)) for n, X in dense.items()}
    kinds, found = fits(), {}
    for model, is_sparse in kinds.values():  # compile
        model.fit((sparse if is_sparse else dense)[SHORT])
    micros: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(n_rounds):
        for name, (model, is_sparse) in kinds.items():
            X = sparse if is_sparse else dense
            seconds = cpu_seconds(model, X[LONG]) - cpu_seconds(model, X[SHORT])
            micros[name].append(1e6 * seconds / (LONG - SHORT))
    for name, values in micros.items():
        found[name] = summary(values)
        print(f"{name:<32}{found[name]['median']:7.1f} µs", flush=True)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/overhead.json"))
    options = parser.parse_args()
    write_results(options.output, {"fits": measure(options.rounds)})


if __name__ == "__main__":
    main()
