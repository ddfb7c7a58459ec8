"""One epoch of scikit-learn and of SPAMS, and when somf reaches the same objective."""

from collections import defaultdict
from dataclasses import asdict
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
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
from benchmarks.scenes import ALPHA, BATCH, K
from benchmarks.settings import PAPER
from benchmarks.summaries import extent
from somf import DictionaryLearning, ImagePatches
from somf.data import Source, as_source
from somf.penalties import CodePenalty
from somf.typing import Array

REDUCTIONS = (1, 4, 12)
"""The reductions of somf that are compared with peers."""


def fit_somf(
    source: Source, init: Array, evaluate: Evaluator, seed: int, reduction: float
) -> Curve:
    """Return the curve of one epoch."""
    model = DictionaryLearning(
        K, alpha=ALPHA, reduction=reduction, batch_size=BATCH, init=init, **PAPER
    )
    n, learner = source.shape[0], SomfLearner(model, source, seed)
    # The curve is convex: with points far apart, linear interpolation would give too late a time.
    return follow(learner, evaluate, n, n, BATCH, seed, growth=1.12)


def fit_scikit_learn(source: Source, init: Array, evaluate: Evaluator, seed: int) -> Curve:
    """Return the first and the last point of one epoch."""
    model = MiniBatchDictionaryLearning(
        K, alpha=ALPHA, batch_size=BATCH, dict_init=init, fit_algorithm="cd", random_state=seed
    )
    n = source.shape[0]
    return follow(ScikitLearner(model, source, init), evaluate, n, n, BATCH, seed, growth=None)


def fit_spams(source: Source, init: Array, evaluate: Evaluator, seed: int) -> Curve:  # noqa: ARG001 (one signature for all peers)
    """Return the first and the last point of one epoch, in one call: SPAMS draws the samples."""
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
    """Return the first and the last point of one epoch, in the calls that Figure 1 makes."""
    n, learner = source.shape[0], SpamsLearner(source, init, ALPHA, BATCH)
    return follow(learner, evaluate, n, n, SPAMS_MINIBATCHES * BATCH, seed, growth=None)


PEERS = {
    "SPAMS": fit_spams,
    f"SPAMS, in calls of {SPAMS_MINIBATCHES} minibatches": fit_spams_in_pieces,
    "scikit-learn": fit_scikit_learn,
}
"""The other libraries, and how one epoch of each is run."""


def measure_peers(X: Array, test: ImagePatches, n_seeds: int) -> dict[str, Any]:
    """Return one epoch of each peer, and when somf reaches the same objective."""
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
    """Return an epoch of a peer, and when somf reaches it, if it does so with every seed."""
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


def print_peers(result: dict[str, Any]) -> None:
    """Print when somf reaches the objective of each peer."""
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
