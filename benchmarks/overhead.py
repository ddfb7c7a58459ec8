"""What an iteration costs that computes next to nothing.

    python -m benchmarks.overhead [--rounds 7]

16 samples of 20 features and 4 atoms, float32, from memory, on one thread: most of the time is
spent outside of arithmetic. The time is that of the processor (other processes do not count), of a
fit of 3,000 iterations minus a fit of 100, so that the start of a fit does not count either. Kinds
of fits take turns; medians over rounds with quartiles. What compiled kernels take of it is measured
in one more round, with a clock around each of them.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, process_time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.machine import write_results
from benchmarks.settings import ONE_EPOCH, PAPER_WEIGHTS
from benchmarks.summaries import summary
from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.kernels.cpu.regions import region

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


class KernelClock:
    """Adds up the time inside compiled functions that Python calls, once it is created."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        modules = [module for name, module in sys.modules.items() if name.startswith("somf.")]
        regions = {
            id(value): value
            for module in modules
            for value in vars(module).values()
            if getattr(value, "__qualname__", "").startswith(region.__name__ + ".")
        }
        for run in regions.values():
            for cell in run.__closure__:
                if hasattr(cell.cell_contents, "py_func"):
                    cell.cell_contents = self._timed(cell.cell_contents)
        for module in modules:
            for name, value in list(vars(module).items()):
                if hasattr(value, "py_func"):
                    setattr(module, name, self._timed(value))

    def _timed(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            begin = perf_counter_ns()
            result = compiled(*arguments)
            self.nanoseconds += perf_counter_ns() - begin
            return result

        return run


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
    clock = KernelClock()
    for name, (model, is_sparse) in kinds.items():
        inside = []
        for n in (LONG, SHORT):
            clock.nanoseconds = 0
            model.fit((sparse if is_sparse else dense)[n])
            inside.append(clock.nanoseconds)
        kernels = 1e-3 * (inside[0] - inside[1]) / (LONG - SHORT)
        found[name] = summary(micros[name]) | {"kernels": kernels}
        print(f"{name:<32}{found[name]['median']:7.1f} µs, {kernels:.1f} in kernels", flush=True)
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
