"""How long an iteration takes, its lower bound, and how long peers take.

    python -m benchmarks.speed [--rounds 7] [--seeds 3] [--no-peers]

Data: Indian Pines, 11,700 patches × 51,200 features in float32, k = 100, λ = 0.1, batches of 50.

1. Milliseconds per iteration by stage, for r = 1, 4, 12 and every code estimator, next to the
   floor: the BLAS calls that an iteration cannot avoid, on arrays of the same shape, with BLAS's
   own threads. The shared floor is the same with rows split between threads, as somf does it.
   Configurations take turns; medians over rounds, with quartiles.
2. The same for sparse PCA, NMF, elastic-net atoms and sparse data at r = 4.
3. scikit-learn and SPAMS for one epoch from the same initial atoms, and when somf reaches the same
   objective on held-out patches (`benchmarks.peers`). The time to read samples from X counts for
   all of them. Each seed has its own initial atoms and its own order of samples.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs

from benchmarks.machine import write_results
from benchmarks.peers import REDUCTIONS, measure_peers, print_peers
from benchmarks.scenes import ALPHA, BATCH, K, in_memory, indian_pines
from benchmarks.stages import STAGES, StagedFit
from benchmarks.summaries import summary, timed
from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.kernels import kernels_for
from somf.kernels.cpu.cores import available_cores
from somf.kernels.cpu.threads import threads
from somf.typing import Array

ESTIMATORS = ("masked", "averaged", "exact")
"""The code estimators, which differ for r > 1."""


def floors(p: int, reduction: float, code_estimator: str) -> Callable[[], tuple[float, float]]:
    """Return a function that times the BLAS calls of one iteration, in milliseconds.

    The first time is that of plain calls with BLAS's own threads, the second that of
    single-threaded calls on a share of the rows each. A call is repeated several times before the
    next one is timed: alternating calls would make the thread pools of NumPy's and SciPy's BLAS
    compete, which an implementation can avoid.
    """
    rng = np.random.default_rng(0)
    q = round(p / reduction)
    seen = p if code_estimator == "exact" else q
    D, B = (rng.standard_normal((p, K), dtype=np.float32) for _ in range(2))
    X, code = (rng.standard_normal((BATCH, m), dtype=np.float32) for m in (p, K))
    C = rng.standard_normal((K, K), dtype=np.float32)
    gemm = get_blas_funcs("gemm", (B,))
    calls: list[tuple[int, Callable[[slice], object]]] = [
        (q, lambda s: D[s].T @ D[s]),
        (seen, lambda s: X[:, s] @ D[s]),
        (q, lambda s: D[s] @ C),
    ]

    def plain() -> float:
        update = partial(gemm, 1.0, code.T, X.T, beta=0.9, c=B.T, trans_b=True, overwrite_c=True)
        products = [partial(call, slice(0, n_rows)) for n_rows, call in calls]
        return sum(median(timed(call) for _ in range(9)) for call in (*products, update))

    def shared() -> float:
        def share(n_rows: int, call: Callable[[slice], object]) -> Callable[[], object]:
            edges = np.linspace(0, n_rows, count + 1).astype(int).tolist()
            parts = [slice(a, b) for a, b in pairwise(edges)]
            return lambda: list(pool.map(call, parts))

        count = available_cores()
        with threads(None), ThreadPoolExecutor(count) as pool:
            everything = [share(n_rows, call) for n_rows, call in calls]
            everything.append(lambda: kernels_for("cpu").accumulate(B, X, code, 0.9))
            return sum(median(timed(call) for _ in range(9)) for call in everything)

    return lambda: (1e3 * plain(), 1e3 * shared())


def ratio(times: dict[str, list[float]], floor: str) -> dict[str, float]:
    """Return the time of an iteration divided by its floor."""
    return summary([a / b for a, b in zip(times["total"], times[floor], strict=True)])


def measure_iterations(X: Any, n_rounds: int, n_iter: int) -> list[dict[str, Any]]:
    """Return the times of all configurations and their floors; configurations take turns."""
    p = X.shape[1]
    cases = [(r, e) for r in REDUCTIONS for e in (ESTIMATORS if r > 1 else ("masked",))]
    runs = {case: StagedFit(X, *case) for case in cases}
    floor = {case: floors(p, *case) for case in cases}
    times: dict[Any, dict[str, list[float]]] = {c: defaultdict(list) for c in cases}
    with threads(None):
        for case in cases:
            runs[case].advance(5)  # compile, and pass the first large steps
    for _ in range(n_rounds):
        for case in cases:
            for name, milliseconds in zip(("floor", "shared floor"), floor[case](), strict=True):
                times[case][name].append(milliseconds)
            with threads(None):
                for stage, milliseconds in runs[case].advance(n_iter).items():
                    times[case][stage].append(milliseconds)
    return [
        {
            "reduction": r,
            "code_estimator": e if r > 1 else "all the same",
            "milliseconds": {stage: summary(values) for stage, values in times[r, e].items()},
            "ratio": ratio(times[r, e], "floor"),
            "ratio to the shared floor": ratio(times[r, e], "shared floor"),
        }
        for r, e in cases
    ]


def measure_variants(X: Array, n_rounds: int, n_iter: int) -> dict[str, Any]:
    """Return milliseconds per iteration of other problems than dictionary learning, at r = 4."""
    dense, positive = X[:2000], np.abs(X[:2000])
    sparse = sp.csr_array(np.where(positive > np.quantile(positive[:50], 0.95), X[:2000], 0))
    cases = {
        "dictionary learning": (dense, DictionaryLearning),
        "sparse PCA": (dense, SparsePCA),
        "NMF": (positive, NMF),
        "elastic-net atoms": (dense, partial(MatrixFactorization, atom_l1_ratio=0.5, l1_ratio=0.0)),
        "5 % sparse data": (sparse, DictionaryLearning),
    }
    runs = {name: StagedFit(data, 4, "averaged", kind=kind) for name, (data, kind) in cases.items()}
    times: dict[str, list[dict[str, float]]] = defaultdict(list)
    with threads(None):
        for run in runs.values():
            run.advance(5)
        for _ in range(n_rounds):
            for name, run in runs.items():
                times[name].append(run.advance(n_iter))
    plain = [t["total"] for t in times["dictionary learning"]]
    return {
        name: {
            "milliseconds": {stage: summary([t[stage] for t in rounds]) for stage in rounds[0]},
            "times dictionary learning": summary(
                [t["total"] / p for t, p in zip(rounds, plain, strict=True)]
            ),
        }
        for name, rounds in times.items()
    }


def print_iterations(rows: list[dict[str, Any]]) -> None:
    """Print milliseconds per iteration."""
    columns = (*STAGES, "total", "floor", "shared floor")
    print("r   estimator    " + "".join(f"{c:>13}" for c in columns) + "   ratios")
    for row in rows:
        times = row["milliseconds"]
        ratios = (row["ratio"], row["ratio to the shared floor"])
        print(
            f"{row['reduction']:<4}{row['code_estimator']:<13}"
            + "".join(f"{times[c]['median']:>13.2f}" for c in columns)
            + "".join(f"   {x['median']:.2f} ({x['low']:.2f} to {x['high']:.2f})" for x in ratios)
        )


def print_variants(variants: dict[str, Any]) -> None:
    """Print how other problems compare with dictionary learning."""
    print()
    for name, row in variants.items():
        times, factor = row["milliseconds"], row["times dictionary learning"]
        stages = ", ".join(f"{s} {times[s]['median']:.1f}" for s in STAGES)
        print(f"{name:<20}{times['total']['median']:>7.1f} ms, {factor['median']:.2f} × ({stages})")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=10, help="in a row, per round")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--seeds", type=int, default=3, help="of the comparison with peers")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/speed.json"))
    options = parser.parse_args()
    train, test = indian_pines()
    X = in_memory(train)
    result: dict[str, Any] = {"shape": X.shape, "k": K, "alpha": ALPHA, "batch": BATCH}
    result["iterations"] = measure_iterations(X, options.rounds, options.iterations)
    print_iterations(result["iterations"])
    result["variants"] = measure_variants(X, options.rounds, options.iterations)
    print_variants(result["variants"])
    if not options.no_peers:
        result |= measure_peers(X, test, options.seeds)
        print_peers(result)
    write_results(options.output, result)


if __name__ == "__main__":
    main()
