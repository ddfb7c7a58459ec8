"""A fit taken apart into its stages, so that each can be timed or its memory measured."""

from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from benchmarks.scenes import ALPHA, BATCH, K
from benchmarks.settings import PAPER_WEIGHTS
from somf import DictionaryLearning, MatrixFactorization
from somf.algorithm.solver import Solver
from somf.data import Loader, as_source, epoch_order
from somf.estimators.config import check_params
from somf.training.samples import Samples
from somf.training.start import start

STAGES = ("load", "mask", "regression", "codes", "surrogate", "dictionary", "other")
"""The stages of an iteration, in their order; "other" is what is left of the total."""


class Probe(Protocol):
    """Measures something whenever a method runs."""

    def attach(self, owner: Any, name: str, stage: str) -> None:
        """Measure every call of ``owner.name``, which is part of a stage."""
        ...


class Stopwatch:
    """Adds up the seconds that are spent in the methods of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def attach(self, owner: Any, name: str, stage: str) -> None:
        """Count the time inside ``owner.name`` as that of a stage."""
        method = getattr(owner, name)

        def timed(*args: Any) -> Any:
            begin = perf_counter()
            result = method(*args)
            self.seconds[stage] += perf_counter() - begin
            return result

        setattr(owner, name, timed)


class StagedFit:
    """A fit that is advanced a few iterations at a time, with a stopwatch on every stage.

    Parameters
    ----------
    X : array, sparse matrix or Source of shape (n, p)
    reduction : float
    code_estimator : str
    k : int
    batch_size : int
    kind : callable
        The estimator class, or something that is called like one.
    """

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
        model = kind(
            k,
            alpha=ALPHA,
            reduction=reduction,
            code_estimator=code_estimator,
            batch_size=batch_size,
            **PAPER_WEIGHTS,
        )
        source = as_source(X)
        n, p = source.shape
        config = check_params(vars(model)).for_features(p).with_surrogate(n <= p)
        ids = np.arange(source.shape[0])
        self.state = start(config, source, Samples.alone(source.shape[0]), seed=0, is_finite=True)
        self.solver = Solver(config, self.state)
        self.loader = Loader(source, self.state.D.dtype, self.state.permutation)
        self.order = epoch_order(ids, 0, 0)
        # A namespace, unlike the kernels themselves, lets a probe replace its functions.
        self.solver.kernels = SimpleNamespace(**vars(self.solver.kernels))
        self.solver.surrogate.kernels = self.solver.kernels
        self.stopwatch = Stopwatch()
        self.attach(self.stopwatch)

    def attach(self, probe: Probe) -> None:
        """Attach a probe to every stage."""
        solver = self.solver
        for owner, name, stage in (
            (self.loader, "load", "load"),
            (solver.masks, "draw", "mask"),
            (solver.regression, "estimate" if solver.reduction > 1 else "of_subset", "regression"),
            (solver.kernels, "solve_codes", "codes"),
            (solver.kernels, "accumulate", "surrogate"),
            (solver.dictionary, "update", "dictionary"),
            (solver.gram_cache, "update", "dictionary"),
        ):
            probe.attach(owner, name, stage)

    def advance(self, n_iter: int) -> dict[str, float]:
        """Do some iterations; return milliseconds per iteration of every stage and in total."""
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
