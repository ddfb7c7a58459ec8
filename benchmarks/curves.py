"""The test objective against time: somf and its peers, from the same atoms, with the same clocks.

A learner goes through minibatches. `follow` copies its atoms from time to time. The objective of
these copies is computed after the learner is done, by the same code for all learners, so that the
evaluation does not disturb the timing.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, Protocol

import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning, MiniBatchNMF
from sklearn.exceptions import ConvergenceWarning

from benchmarks.machine import seconds_of_others
from benchmarks.summaries import first_time
from somf import MatrixFactorization
from somf.algorithm.solver import Solver
from somf.data import Loader, Source, as_source
from somf.estimators.config import check_params
from somf.inference.coding import Coder
from somf.kernels import kernels_for
from somf.kernels.cpu.threads import threads
from somf.penalties import CodePenalty
from somf.training.samples import Samples
from somf.training.start import start
from somf.typing import Array, Ints

SPAMS_MINIBATCHES = 16
"""Minibatches per call of SPAMS. Each call copies its state; with 8 that costs 10 %."""


class Learner(Protocol):
    """A library that learns atoms from minibatches."""

    @property
    def components(self) -> Array:
        """The current atoms (k, p)."""
        ...

    def working(self) -> AbstractContextManager[object]:
        """Return the context in which it learns."""
        ...

    def load(self, ids: Ints) -> Any:
        """Return samples in the layout that `learn` expects."""
        ...

    def learn(self, X: Any, ids: Ints) -> None:
        """Learn from samples."""
        ...


class SomfLearner:
    """An estimator of this library, split into loading and learning."""

    def __init__(self, model: MatrixFactorization, source: Source, seed: int) -> None:
        config = check_params(vars(model)).for_features(source.shape[1])
        with threads(None):
            self.state = start(
                config, source, Samples.alone(source.shape[0]), seed=seed, is_finite=True
            )
        self.solver = Solver(config, self.state)
        self.loader = Loader(source, self.state.D.dtype, self.state.permutation)

    @property
    def components(self) -> Array:
        """The atoms (k, p), features in the order of the data."""
        return self.state.components

    def working(self) -> AbstractContextManager[object]:
        """Return the context in which one thread pool does all the work."""
        return threads(None)

    def load(self, ids: Ints) -> Any:
        """Return a minibatch, features in the order of the blocks."""
        return self.loader.load(ids)

    def learn(self, X: Any, ids: Ints) -> None:
        """Do one iteration."""
        self.solver.step(X, ids)


class ScikitLearner:
    """MiniBatchDictionaryLearning or MiniBatchNMF, one minibatch at a time."""

    def __init__(
        self, model: MiniBatchDictionaryLearning | MiniBatchNMF, source: Source, init: Array
    ) -> None:
        self.model, self.source, self.init = model, source, init

    @property
    def components(self) -> Array:
        """The atoms (k, p)."""
        return np.array(getattr(self.model, "components_", self.init))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Return a context without its warnings about convergence."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield

    def load(self, ids: Ints) -> Array:
        """Return a minibatch."""
        return self.source.rows(ids)

    def learn(self, X: Array, ids: Ints) -> None:  # noqa: ARG002 (part of the protocol)
        """Do one iteration."""
        start = {}
        if isinstance(self.model, MiniBatchNMF) and not hasattr(self.model, "components_"):
            # NMF gets its initial atoms here; it validates W, but does not use it.
            start = {"W": np.ones((len(X), len(self.init)), X.dtype), "H": self.init.copy()}
        self.model.partial_fit(X, **start)


class SpamsLearner:
    """trainDL of SPAMS, a few minibatches at a time."""

    def __init__(self, source: Source, init: Array, alpha: float, batch_size: int) -> None:
        self.source, self.D = source, np.asfortranarray(init.T)
        self.model: dict[str, Any] | None = None
        self.settings = {
            "lambda1": alpha, "mode": 2, "modeD": 0, "batchsize": batch_size, "numThreads": 2,
            "verbose": False, "return_model": True,
        }  # fmt: skip

    @property
    def components(self) -> Array:
        """The atoms (k, p)."""
        return self.D.T

    def working(self) -> AbstractContextManager[object]:
        """Return a context that changes nothing."""
        return nullcontext()

    def load(self, ids: Ints) -> Array:
        """Return samples as columns, without a copy."""
        return self.source.rows(ids).T

    def learn(self, X: Array, ids: Ints) -> None:
        """Learn once from each of some minibatches."""
        import spams

        n_iter = -(-len(ids) // self.settings["batchsize"])
        self.D, self.model = spams.trainDL(
            X, D=self.D, model=self.model, iter=n_iter, **self.settings
        )


def initial_atoms(source: Source, k: int, seed: int) -> Array:
    """Return k samples (k, p), the initial atoms of all learners."""
    chosen = np.random.default_rng(seed).permutation(source.shape[0])[:k]
    return source.rows(chosen)


class Evaluator:
    """The objective on held-out samples, computed in the same way for all learners.

    Parameters
    ----------
    test : Source
    penalty : CodePenalty
    tol : float
        Relative duality gap of the codes.
    """

    def __init__(self, test: Source, penalty: CodePenalty, tol: float = 1e-5) -> None:
        ids = np.arange(test.shape[0])
        self.loader, self.ids = Loader(as_source(test.rows(ids)), np.dtype(np.float32)), ids
        self.penalty, self.tol = penalty, tol

    def __call__(self, components: Array) -> float:
        """Return the objective of atoms (k, p)."""
        D = np.ascontiguousarray(components.T, dtype=np.float32)
        with threads(None):
            coder = Coder(kernels_for("cpu"), D, self.penalty, self.tol)
            return coder.objective(self.loader, self.ids)


@dataclass
class Curve:
    """Times and objectives of a learner at several moments.

    Attributes
    ----------
    n_samples : list of int
        Samples seen.
    compute_seconds : list of float
        Time spent on learning, without loading.
    wall_seconds : list of float
        The same with loading.
    cpu_seconds : list of float
        CPU time of all threads for learning, which other processes disturb less.
    objective : list of float
        On the test samples.
    others : float
        The share of the machine that other processes used meanwhile.
    """

    n_samples: list[int]
    compute_seconds: list[float]
    wall_seconds: list[float]
    cpu_seconds: list[float]
    objective: list[float]
    others: float = 0.0

    def seconds_to(self, target: float, clock: str = "compute_seconds") -> float | None:
        """Return when an objective was first reached, by linear interpolation."""
        return first_time(getattr(self, clock), self.objective, target)


def follow(
    learner: Learner,
    evaluate: Evaluator,
    n: int,
    n_samples: int,
    batch_size: int,
    seed: int,
    growth: float | None = 1.15,
) -> Curve:
    """Run a learner over samples, and return its curve.

    Parameters
    ----------
    learner : Learner
    evaluate : Evaluator
    n : int
        Samples of an epoch; each epoch has a new order.
    n_samples : int
        Samples in all epochs.
    batch_size : int
    seed : int
        Of the order of samples.
    growth : float, optional
        Samples seen at a point of the curve, relative to the point before. None: there is one
        point at the start and one at the end.
    """
    curve, atoms = Curve([0], [0.0], [0.0], [0.0], []), [learner.components]
    seen, compute, wall, cpu = 0, 0.0, 0.0, 0.0
    others_before, start = seconds_of_others(), perf_counter()
    with learner.working():
        for ids in batches(n, n_samples, batch_size, seed):
            begin = perf_counter()
            X = learner.load(ids)
            loaded, cpu_before = perf_counter(), process_time()
            learner.learn(X, ids)
            end, cpu_after = perf_counter(), process_time()
            seen, cpu = seen + len(ids), cpu + cpu_after - cpu_before
            compute, wall = compute + end - loaded, wall + end - begin
            is_due = growth is not None and seen >= growth * curve.n_samples[-1]
            if is_due or seen == n_samples:
                curve.n_samples.append(seen)
                curve.compute_seconds.append(compute)
                curve.wall_seconds.append(wall)
                curve.cpu_seconds.append(cpu)
                atoms.append(learner.components)
    elapsed = (perf_counter() - start) * (os.cpu_count() or 1)
    curve.others = (seconds_of_others() - others_before) / elapsed
    curve.objective = [evaluate(components) for components in atoms]
    return curve


def batches(n: int, n_samples: int, batch_size: int, seed: int) -> Iterator[Ints]:
    """Yield minibatches until they have `n_samples` samples.

    Every epoch has another order, for all algorithms, as when Figure 1 was measured. In `fit` all
    epochs have the same one, which is better for somf.
    """
    for epoch in range(-(-n_samples // n)):
        order = np.random.default_rng((seed, epoch)).permutation(n)[: n_samples - epoch * n]
        yield from np.split(order, range(batch_size, len(order), batch_size))
