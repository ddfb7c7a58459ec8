"""What a newcomer writes with somf, scikit-learn and SPAMS, and the held-out objective meanwhile.

Libraries keep their defaults, apart from k, λ and the seed. The clock runs only while a library
fits. Atoms are judged afterwards, by the same code for all libraries.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn import decomposition
from sklearn.exceptions import ConvergenceWarning

import somf
from benchmarks.datasets import Dataset, Problem
from benchmarks.summaries import first_time
from somf.callbacks import Progress
from somf.typing import Array

SPAMS_EPOCHS = 5
"""Epochs of SPAMS, which has no rule when to stop."""

SPAMS_LEAST_ITERATIONS = 100
"""The least number of iterations of SPAMS, for data of few minibatches."""

HORIZONS = (64, 8, 1)
"""The first 1/64, 1/8 and all of a fit of somf are followed, each at equally many points."""

POINTS = 16
"""Points of a curve until each of these horizons."""


@dataclass
class Run:
    """Times and held-out objectives of one fit; the last ones are those of its result.

    Attributes
    ----------
    wall_seconds, cpu_seconds : list of float
        Since the call of `fit`; CPU seconds are those of all threads.
    objective : list of float
    density : float
        The share of the entries of atoms that are not zero.
    """

    wall_seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    density: float = 1.0

    def add(self, times: "Times", objective: float) -> None:
        """Append a point."""
        self.wall_seconds.append(times.wall)
        self.cpu_seconds.append(times.cpu)
        self.objective.append(objective)

    def add_later(self, whole: "Run") -> None:
        """Append the points of a longer fit that come after those of this one."""
        until = self.cpu_seconds[-1]
        points = zip(whole.wall_seconds, whole.cpu_seconds, whole.objective, strict=True)
        for wall, cpu, objective in points:
            if cpu > until:
                self.add(Times(wall, cpu), objective)

    def seconds_to(self, target: float, clock: str) -> float | None:
        """Return when an objective was first reached."""
        return first_time(getattr(self, clock), self.objective, target)


class Times(NamedTuple):
    """Wall seconds, and CPU seconds of all threads."""

    wall: float
    cpu: float


class Clock:
    """The time since its creation."""

    def __init__(self) -> None:
        self._wall, self._cpu = perf_counter(), process_time()

    def read(self) -> Times:
        """Return the times until now."""
        return Times(perf_counter() - self._wall, process_time() - self._cpu)


def seconds_of(fit: Callable[[], object]) -> Times:
    """Return the times of a call, without its warnings about convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clock = Clock()
        fit()
        return clock.read()


class Judge:
    """The objective of somf on held-out samples.

    Its `model` was fitted to a few samples, so that all kernels are compiled before they are timed.
    """

    def __init__(self, data: Dataset) -> None:
        self.model, self.test = estimator(data, 0), data.test
        self.is_sparse_pca = data.problem == "SparsePCA"
        self.model.fit(data.train[: max(1000, 3 * data.k)])

    def __call__(self, atoms: Array) -> float:
        """Return the objective of atoms (k, p)."""
        # Where only the direction of an atom counts, the best one is on the boundary of the ball.
        if self.is_sparse_pca:
            norms = np.abs(atoms).sum(axis=1, keepdims=True)
            atoms = atoms / np.where(norms > 0, norms, 1.0)
        elif self.model.alpha == 0:
            norms = np.linalg.norm(atoms, axis=1, keepdims=True)
            atoms = atoms / np.where(norms > 0, norms, 1.0)
        self.model.components_ = np.ascontiguousarray(atoms, dtype=np.float32)
        return self.model.objective(self.test, tol=1e-5)


Contender: TypeAlias = Callable[[Dataset, int, Judge], Run]
"""A library: fits to a data set with a seed."""


def estimator(data: Dataset, seed: int, **params: Any) -> somf.MatrixFactorization:
    """Return what a newcomer writes with somf."""
    kind: type[somf.MatrixFactorization] = getattr(somf, data.problem)
    return kind(data.k, alpha=data.alpha, random_state=seed, **params)


def fit_somf(
    data: Dataset, seed: int, judge: Judge, most_seconds: float = math.inf, **params: Any
) -> Run:
    """Fit with somf; the same fit, repeated with held-out samples, gives the objectives.

    Parameters
    ----------
    data : Dataset
    seed : int
    judge : Judge
    most_seconds : float
        CPU seconds after which the fit is ended.
    **params : object
        Of the estimator, instead of its defaults.
    """
    times: dict[int, Times] = {}

    def note(progress: Progress) -> bool:
        times[progress.n_iter] = clock.read()
        return times[progress.n_iter].cpu > most_seconds

    model, clock = estimator(data, seed, callbacks=note, **params), Clock()
    whole = seconds_of(lambda: model.fit(data.train))
    run = Run(density=_density(model.components_))
    for n_iter, objective in _followed(data, seed, model.n_samples_seen_, params):
        if n_iter in times and n_iter < model.n_iter_:
            run.add(times[n_iter], objective)
    run.add(whole, judge(model.components_))
    return run


def _followed(
    data: Dataset, seed: int, n_seen: int, params: dict[str, Any]
) -> list[tuple[int, float]]:
    """Return iterations and held-out objectives of a fit that sees so many samples."""
    found: dict[int, float] = {}
    for part in HORIZONS:
        horizon = math.ceil(n_seen / part)

        def is_over(progress: Progress, horizon: int = horizon) -> bool:
            return progress.n_samples_seen >= horizon

        # Passes over all samples change the objective much from one to the next.
        every = max(1, min(horizon // POINTS, data.train.shape[0]))
        model = estimator(data, seed, record_every=every, callbacks=is_over, **params)
        history = model.fit(data.train, validation=data.test).history_
        found |= dict(zip(map(int, history["n_iter"]), history["objective"], strict=True))
    return sorted(found.items())


def fit_dictionary_scikit(data: Dataset, seed: int, judge: Judge) -> Run:
    """Fit MiniBatchDictionaryLearning, whose callback sees the atoms."""
    seen: list[tuple[Times, Array]] = []

    def note(variables: dict[str, Any]) -> None:
        if math.log(variables["i"] + 1, 1.3) >= len(seen):
            seen.append((clock.read(), variables["dictionary"].copy()))

    model = decomposition.MiniBatchDictionaryLearning(
        data.k, alpha=data.alpha, callback=note, random_state=seed
    )
    clock = Clock()
    whole = seconds_of(lambda: model.fit(data.train))
    run = Run(density=_density(model.components_))
    for times, atoms in (*seen, (whole, model.components_)):
        run.add(times, judge(atoms))
    return run


def fit_nmf_scikit(data: Dataset, seed: int, judge: Judge) -> Run:
    """Fit NMF of scikit-learn."""
    return _fit_in_iterations(decomposition.NMF(data.k, random_state=seed), data, judge)


def fit_minibatch_nmf_scikit(data: Dataset, seed: int, judge: Judge) -> Run:
    """Fit MiniBatchNMF."""
    return _fit_in_iterations(decomposition.MiniBatchNMF(data.k, random_state=seed), data, judge)


def fit_sparse_pca_scikit(data: Dataset, seed: int, judge: Judge) -> Run:
    """Fit MiniBatchSparsePCA, whose objective is another one; λ is its default."""
    model = decomposition.MiniBatchSparsePCA(data.k, random_state=seed)
    whole = seconds_of(lambda: model.fit(data.train))
    run = Run(density=_density(model.components_))
    run.add(whole, judge(model.components_))
    return run


def _fit_in_iterations(model: Any, data: Dataset, judge: Judge) -> Run:
    """Fit, and fit again with fewer iterations, which gives the points of the curve before."""
    whole = seconds_of(lambda: model.fit(data.train))
    atoms, run = model.components_, Run(density=_density(model.components_))
    for n_iter in _earlier(int(model.n_iter_)):
        model.set_params(max_iter=n_iter)
        times = seconds_of(lambda: model.fit(data.train))
        run.add(times, judge(model.components_))
    run.add(whole, judge(atoms))
    return run


class Spams:
    """trainDL of SPAMS with the λ and the constraints of the problem.

    Parameters
    ----------
    batch_size : int
    """

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def __call__(self, data: Dataset, seed: int, judge: Judge) -> Run:
        """Fit for some epochs, and for fewer iterations, which gives the points before."""
        n = data.train.shape[0]
        train = data.train if isinstance(data.train, np.ndarray) else data.train.toarray()
        X = np.asfortranarray(train[np.random.default_rng(seed).permutation(n)].T)
        total = max(math.ceil(SPAMS_EPOCHS * n / self.batch_size), SPAMS_LEAST_ITERATIONS)
        run = Run()
        for n_iter in (*_earlier(total), total):
            clock = Clock()
            D = self.learn(X, data, n_iter)
            run.add(clock.read(), judge(D.T))
            run.density = _density(D)
        return run

    def learn(self, X: Array, data: Dataset, n_iter: int) -> Array:
        """Return the atoms (p, k) of samples (p, n), of which the first are the initial atoms."""
        import spams

        D: Array = spams.trainDL(
            X,
            D=X[:, : data.k].copy(order="F"),
            lambda1=data.alpha,
            iter=n_iter,
            batchsize=self.batch_size,
            posAlpha=data.problem == "NMF",
            posD=data.problem == "NMF",
            verbose=False,
        )
        return D


def _earlier(total: int) -> list[int]:
    """Return an 81st, a 27th, a ninth and a third of a number of iterations."""
    return sorted({total // 3**i for i in range(1, 5)} - {0})


def _density(atoms: Array) -> float:
    return float(np.count_nonzero(atoms) / atoms.size)


SPAMS: dict[str, Contender] = {f"SPAMS, batches of {size}": Spams(size) for size in (50, 256, 512)}
"""SPAMS has no default for the size of minibatches that its users agree on."""

PEERS: dict[Problem, dict[str, Contender]] = {
    "DictionaryLearning": {"scikit-learn": fit_dictionary_scikit, **SPAMS},
    "NMF": {
        "scikit-learn NMF": fit_nmf_scikit,
        "scikit-learn MiniBatchNMF": fit_minibatch_nmf_scikit,
        **SPAMS,
    },
    "SparsePCA": {"scikit-learn": fit_sparse_pca_scikit},
}
"""The libraries that solve each problem. SPAMS has no atoms in the ℓ1 ball."""
