"""How long an iteration takes, how long it would at least have to take, and how peers compare.

    python -m benchmarks.speed [--rounds 7] [--seeds 3] [--no-peers]

Data: Indian Pines, 11,700 patches × 51,200 features in float32, k = 100, λ = 0.1, batches of 50.

1. Seconds per iteration by stage, for r = 1, 4, 12 and every code estimator, next to the floor: the
   BLAS calls that an iteration cannot avoid, on arrays of the same shape, with BLAS's own threads;
   and once more with rows shared out among the threads, as somf does it, which is faster.
   Configurations take turns; medians over rounds, with the spread (the quartiles).
2. The same for sparse PCA, NMF, elastic-net atoms and sparse data at r = 4.
3. scikit-learn and SPAMS for one epoch from the same initial atoms, and when somf reaches what
   they have reached, judged by one evaluator on the same held-out patches. The time to take samples
   out of X counts for everybody. Other atoms and another order for each of several seeds.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs
from sklearn.decomposition import MiniBatchDictionaryLearning

from benchmarks.curves import (
    SPAMS_MINIBATCHES,
    Curve,
    Evaluator,
    ScikitLearner,
    SomfLearner,
    SpamsLearner,
    follow,
    initial_atoms,
)
from benchmarks.machine import facts
from benchmarks.scenes import in_memory, indian_pines
from somf import NMF, DictionaryLearning, ImagePatches, MatrixFactorization, SparsePCA
from somf.algorithm.solver import Solver
from somf.data import Loader, Source, as_source, epoch_order
from somf.kernels import kernels_for
from somf.kernels.cpu.threads import pool_for, threads
from somf.penalties import CodePenalty
from somf.training.start import start
from somf.typing import Array

K, ALPHA, BATCH = 100, 0.1, 50
REDUCTIONS = (1, 4, 12)
ESTIMATORS = ("masked", "averaged", "exact")
STAGES = ("load", "mask", "regression", "codes", "surrogate", "dictionary", "other")


class Watch(Protocol):
    """Looks on while methods run."""

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """Look on whenever ``owner.name``, which is part of a stage, runs."""
        ...


class Stopwatch:
    """Adds up the time that is spent in some methods."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """Count the time inside ``owner.name`` as that of a stage."""
        method = getattr(owner, name)

        def timed(*args: Any) -> Any:
            begin = perf_counter()
            result = method(*args)
            self.seconds[stage] += perf_counter() - begin
            return result

        setattr(owner, name, timed)


class Run:
    """A fit that is advanced a few iterations at a time."""

    def __init__(
        self,
        X: Any,
        reduction: float,
        code_estimator: str,
        k: int = K,
        batch_size: int = BATCH,
        kind: Callable[..., MatrixFactorization] = DictionaryLearning,
    ) -> None:
        self.batch_size = batch_size
        model = kind(k, alpha=ALPHA, reduction=reduction, code_estimator=code_estimator)
        source = as_source(X)
        config = model._config().for_features(source.shape[1])
        ids = np.arange(source.shape[0])
        self.state = start(config, source, ids, seed=0, is_finite=True)
        self.solver = Solver(config, self.state)
        self.loader = Loader(source, self.state.D.dtype, self.state.permutation)
        self.order = epoch_order(ids, 0, 0)
        self.solver.kernels = SimpleNamespace(**vars(self.solver.kernels))  # can be watched
        self.stopwatch = Stopwatch()
        self.watch(self.stopwatch)

    def watch(self, watch: Watch) -> None:
        """Let every stage be watched."""
        solver = self.solver
        for owner, name, stage in (
            (self.loader, "load", "load"),
            (solver.masks, "draw", "mask"),
            (solver.regression, "estimate" if solver.reduction > 1 else "of_subset", "regression"),
            (solver.kernels, "solve_codes", "codes"),
            (solver.surrogate, "add", "surrogate"),
            (solver.dictionary, "update", "dictionary"),
            (solver.gram_cache, "dictionary_changed", "dictionary"),
        ):
            watch.watch(owner, name, stage)

    def advance(self, n_iter: int) -> dict[str, float]:
        """Do some iterations; return milliseconds per iteration of every stage and in all."""
        self.stopwatch.seconds.clear()
        begin = perf_counter()
        for _ in range(n_iter):
            at = (self.state.n_iter * self.batch_size) % (len(self.order) - self.batch_size)
            batch = self.order[at : at + self.batch_size]
            self.solver.step(self.loader.load(batch), batch)
        total = perf_counter() - begin
        seconds = {stage: self.stopwatch.seconds[stage] for stage in STAGES}
        seconds["other"] = total - sum(seconds.values())
        return {stage: 1e3 * s / n_iter for stage, s in (seconds | {"total": total}).items()}


def floors(p: int, reduction: float, code_estimator: str) -> Callable[[], tuple[float, float]]:
    """Return a function that times the BLAS calls of one iteration, in milliseconds.

    Once as plain calls with BLAS's own threads, once with rows shared out among single-threaded
    calls. One call at a time, several times in a row: taking turns, the thread pools of NumPy's and
    SciPy's BLAS would get into each other's way, which is not unavoidable.
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
            rows = (slice(0, n_rows),)
            return lambda: pool.run(lambda t: [call(s) for s in pool.static_chunks(rows, t)])

        with threads(None):
            pool = pool_for(2**60)
            everything = [share(n_rows, call) for n_rows, call in calls]
            everything.append(lambda: kernels_for("cpu").accumulate(B, X, code, 0.9))
            return sum(median(timed(call) for _ in range(9)) for call in everything)

    return lambda: (1e3 * plain(), 1e3 * shared())


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begin = perf_counter()
    call()
    return perf_counter() - begin


def summary(values: list[float]) -> dict[str, float]:
    """Return median and quartiles."""
    low, middle, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"median": middle, "low": low, "high": high}


def ratio(times: dict[str, list[float]], floor: str) -> dict[str, float]:
    """Return how many times its floor an iteration takes."""
    return summary([a / b for a, b in zip(times["total"], times[floor], strict=True)])


def measure_iterations(X: Any, n_rounds: int, n_iter: int) -> list[dict[str, Any]]:
    """Return the times of all configurations and their floors, measured in turns."""
    p = X.shape[1]
    cases = [(r, e) for r in REDUCTIONS for e in (ESTIMATORS if r > 1 else ("masked",))]
    runs = {case: Run(X, *case) for case in cases}
    floor = {case: floors(p, *case) for case in cases}
    times: dict[Any, dict[str, list[float]]] = {c: defaultdict(list) for c in cases}
    with threads(None):
        for case in cases:
            runs[case].advance(5)  # compile, and leave the first large steps behind
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
    runs = {name: Run(data, 4, "averaged", kind=kind) for name, (data, kind) in cases.items()}
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


def fit_somf(
    source: Source, init: Array, evaluate: Evaluator, seed: int, reduction: float
) -> Curve:
    """Return the curve of one epoch."""
    model = DictionaryLearning(K, alpha=ALPHA, reduction=reduction, init=init)
    n, learner = source.shape[0], SomfLearner(model, source, seed)
    # The curve is convex, and a straight line between looks that are far apart would be late.
    return follow(learner, evaluate, n, n, BATCH, seed, growth=1.12)


def fit_scikit_learn(source: Source, init: Array, evaluate: Evaluator, seed: int) -> Curve:
    """Return where one epoch begins and ends."""
    model = MiniBatchDictionaryLearning(
        K, alpha=ALPHA, batch_size=BATCH, dict_init=init, fit_algorithm="cd", random_state=seed
    )
    n = source.shape[0]
    return follow(ScikitLearner(model, source, init), evaluate, n, n, BATCH, seed, growth=None)


def fit_spams(source: Source, init: Array, evaluate: Evaluator, seed: int) -> Curve:  # noqa: ARG001 (like the others)
    """Return where one epoch begins and ends, in one call: SPAMS draws samples by itself."""
    everything, learner = np.arange(source.shape[0]), SpamsLearner(source, init, ALPHA, BATCH)
    X = learner.load(everything)
    curve = Curve([0], [0.0], [0.0], [0.0], [evaluate(init)])
    begin, cpu_before = perf_counter(), process_time()
    learner.learn(X, everything)
    curve.wall_seconds.append(perf_counter() - begin)
    curve.cpu_seconds.append(process_time() - cpu_before)
    curve.compute_seconds.append(curve.wall_seconds[-1])
    curve.n_samples.append(len(everything))
    curve.objective.append(evaluate(learner.components))
    return curve


def fit_spams_in_pieces(source: Source, init: Array, evaluate: Evaluator, seed: int) -> Curve:
    """Return where one epoch begins and ends, as Figure 1 goes through it."""
    n, learner = source.shape[0], SpamsLearner(source, init, ALPHA, BATCH)
    return follow(learner, evaluate, n, n, SPAMS_MINIBATCHES * BATCH, seed, growth=None)


PEERS = {
    "SPAMS": fit_spams,
    f"SPAMS, in calls of {SPAMS_MINIBATCHES} minibatches": fit_spams_in_pieces,
    "scikit-learn": fit_scikit_learn,
}


def measure_peers(X: Array, test: ImagePatches, n_seeds: int) -> dict[str, Any]:
    """Return one epoch of each peer, and when somf gets as far."""
    evaluate = Evaluator(test, CodePenalty(ALPHA, 1.0, False))
    source = as_source(X)
    starts = [initial_atoms(source, K, seed) for seed in range(n_seeds)]
    fit_somf(as_source(X[:200]), starts[0], evaluate, 0, 4)  # compile
    curves: dict[Any, list[Curve]] = defaultdict(list)
    for seed, init in enumerate(starts):
        for name, fit in PEERS.items():
            curves[name].append(fit(source, init, evaluate, seed))
        for r in REDUCTIONS:
            curves[r].append(fit_somf(source, init, evaluate, seed, r))
    return {
        "seeds": n_seeds,
        "initial objective": median(evaluate(init) for init in starts),
        "peers": {name: compare(curves, name) for name in PEERS},
        "curves": {r: asdict(curves[r][0]) for r in REDUCTIONS},
    }


def compare(curves: dict[Any, list[Curve]], name: str) -> dict[str, Any]:
    """Return an epoch of a peer, and when somf gets as far, where it does with every seed."""
    seconds = [curve.wall_seconds[-1] for curve in curves[name]]
    targets = [curve.objective[-1] for curve in curves[name]]
    result: dict[str, Any] = {"seconds": extent(seconds), "objective": extent(targets), "somf": {}}
    for r in REDUCTIONS:
        pairs = zip(curves[r], targets, strict=True)
        reached = [curve.seconds_to(target, "wall_seconds") for curve, target in pairs]
        done = [s for s in reached if s is not None]
        if len(done) == len(reached):
            sooner = [a / b for a, b in zip(seconds, done, strict=True)]
            result["somf"][r] = {"seconds": extent(done), "sooner": extent(sooner)}
    return result


def extent(values: list[float]) -> dict[str, float]:
    """Return median and extremes."""
    return {"median": median(values), "low": min(values), "high": max(values)}


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


def print_peers(result: dict[str, Any]) -> None:
    """Print how much sooner somf gets as far as its peers."""
    print(f"\nObjective on held-out patches: {result['initial objective']:.5f} at the start")
    for name, peer in result["peers"].items():
        seconds, objective = peer["seconds"]["median"], peer["objective"]["median"]
        print(f"{name}: {objective:.5f} after an epoch of {seconds:.1f} s")
        for r, reached in peer["somf"].items():
            sooner = reached["sooner"]
            print(
                f"  somf r={r} gets there in {reached['seconds']['median']:.2f} s, "
                f"{sooner['median']:.1f} ({sooner['low']:.1f} to {sooner['high']:.1f}) times sooner"
            )


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
    result: dict[str, Any] = {"machine": facts(), "shape": X.shape, "k": K, "batch": BATCH}
    result["iterations"] = measure_iterations(X, options.rounds, options.iterations)
    print_iterations(result["iterations"])
    result["variants"] = measure_variants(X, options.rounds, options.iterations)
    print_variants(result["variants"])
    if not options.no_peers:
        result |= measure_peers(X, test, options.seeds)
        print_peers(result)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
