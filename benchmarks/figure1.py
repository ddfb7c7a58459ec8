"""The paper's Figure 1: the objective on test patches against time, for all algorithms and peers.

    python -m benchmarks.figure1 [--scenes aviris_scenes.npy] [--data "Indian Pines"] [--only SOMF]

16 × 16 patches with all channels, normalised, in memory; k = 100, λ = 0.1, batches of 50. Test
patches come from another part of each scene. For NMF patches are scaled but not centred, λ = 0.

- Indian Pines, which tensorly ships: 11,700 patches of 51,200 features.
- The scenes of a file of shape (scene, row, column, channel), if there is one.

All methods start from the same atoms and see the same samples in the same order; each seed has its
own. Compute time is that of learning alone. Wall time includes the loading of minibatches. CPU time
is the time of all threads for learning; other processes disturb it least. The test objective is
computed afterwards, on copies of the atoms.

Every run is written to the results when it is done, and is not repeated by the next call, so the
script may be interrupted. A run during which other processes used more than a tenth of the machine
is repeated by the next call, and the less disturbed of the two is kept. `--minutes 0` only draws
the results.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning, MiniBatchNMF

from benchmarks.curves import (
    SPAMS_MINIBATCHES,
    Curve,
    Evaluator,
    Learner,
    ScikitLearner,
    SomfLearner,
    SpamsLearner,
    follow,
    initial_atoms,
)
from benchmarks.machine import facts
from benchmarks.scenes import ALPHA, BATCH, K, aviris_scenes, in_memory, indian_pines
from benchmarks.settings import PAPER
from somf import NMF, DictionaryLearning, MatrixFactorization
from somf.data import Source, as_source
from somf.penalties import CodePenalty
from somf.typing import Array

SEEDS = 3
"""Seeds of a method, at most."""

EPOCHS = 2
"""Epochs of a method, at most."""

CLOSE = (0.01, 0.005, 0.002)
"""Relative distances from the best objective for dictionary learning."""

TOLERANCES = {"Indian Pines": CLOSE, "Scenes": CLOSE, "Indian Pines, NMF": (0.2, 0.1, 0.05)}
"""Relative distances from the best objective, of which the time is measured."""

MOST_OTHERS = 0.1
"""The share of the machine that other processes may use during a run."""

OMF = "OMF, r = 1"
"""The label of the method without subsampling."""

SOMF = "SOMF, r = 4"
"""The label of the paper's method at the default r."""

SPAMS = "SPAMS"
"""The label of SPAMS."""

SCIKIT_LEARN = "scikit-learn"
"""The label of scikit-learn."""

PEERS = (SPAMS, SCIKIT_LEARN)
"""The labels of other libraries."""

STYLES = {
    OMF: ("black", "-"),
    "ICML 2016 (masked), r = 4": ("tab:blue", "-"),
    SOMF: ("tab:red", "-"),
    "SOMF, r = 8": ("tab:orange", "-"),
    "SOMF, r = 12": ("goldenrod", "-"),
    "SOMF, r = 24": ("yellowgreen", "-"),
    "SOMF, r = auto": ("deeppink", "-."),
    "exact codes, r = 4": ("tab:green", "--"),
    "incremental, r = 4": ("tab:purple", "--"),
    SPAMS: ("tab:brown", ":"),
    SCIKIT_LEARN: ("0.45", ":"),
}
"""Colour and line style of each method, in the order of legend and tables."""


@dataclass(frozen=True)
class Method:
    """A method: a library with its settings.

    Attributes
    ----------
    begin : callable
        Takes the samples, initial atoms (k, p) and a seed; returns the learner.
    n_epochs : float
        Epochs, at most; slow methods get fewer.
    n_seeds : int
        Seeds, at most.
    at_once : int
        Samples per call.
    """

    begin: Callable[[Source, Array, int], Learner]
    n_epochs: float = EPOCHS
    n_seeds: int = SEEDS
    at_once: int = BATCH


def ours(kind: type[MatrixFactorization], alpha: float, **setting: Any) -> Method:
    """Return an algorithm of this library; that of the paper unless the setting says otherwise."""

    def begin(source: Source, init: Array, seed: int) -> Learner:
        params = PAPER | setting
        model = kind(len(init), alpha=alpha, init=init, batch_size=BATCH, **params)
        return SomfLearner(model, source, seed)

    return Method(begin)


def begin_spams(source: Source, init: Array, seed: int) -> Learner:  # noqa: ARG001 (one signature for all methods)
    """Return SPAMS with initial atoms."""
    return SpamsLearner(source, init, ALPHA, BATCH)


def begin_scikit_learn(source: Source, init: Array, seed: int) -> Learner:
    """Return scikit-learn's dictionary learning with initial atoms."""
    model = MiniBatchDictionaryLearning(
        len(init), alpha=ALPHA, batch_size=BATCH, dict_init=init, fit_algorithm="cd",
        random_state=seed,
    )  # fmt: skip
    return ScikitLearner(model, source, init)


def begin_scikit_learn_nmf(source: Source, init: Array, seed: int) -> Learner:
    """Return scikit-learn's NMF with initial atoms.

    By default it forgets 30 % per epoch, but `partial_fit` takes every minibatch for an epoch; so
    the factor is converted to one per minibatch.
    """
    forget_factor = 0.7 ** (BATCH / source.shape[0])
    model = MiniBatchNMF(
        len(init), batch_size=BATCH, init="custom", forget_factor=forget_factor, random_state=seed
    )
    return ScikitLearner(model, source, init)


DICTIONARY_LEARNING = {
    OMF: ours(DictionaryLearning, ALPHA, reduction=1),
    "ICML 2016 (masked), r = 4": ours(
        DictionaryLearning, ALPHA, reduction=4, code_estimator="masked"
    ),
    SOMF: ours(DictionaryLearning, ALPHA, reduction=4),
    "SOMF, r = 8": ours(DictionaryLearning, ALPHA, reduction=8),
    "SOMF, r = 12": ours(DictionaryLearning, ALPHA, reduction=12),
    "SOMF, r = 24": ours(DictionaryLearning, ALPHA, reduction=24),
    "SOMF, r = auto": ours(DictionaryLearning, ALPHA, reduction="auto", code_estimator="auto"),
    "exact codes, r = 4": ours(DictionaryLearning, ALPHA, reduction=4, code_estimator="exact"),
    "incremental, r = 4": ours(DictionaryLearning, ALPHA, reduction=4, surrogate="incremental"),
    SPAMS: Method(begin_spams, at_once=SPAMS_MINIBATCHES * BATCH),
    SCIKIT_LEARN: Method(begin_scikit_learn, n_epochs=1, n_seeds=1),
}
"""The methods for dictionary learning."""

NMF_METHODS = {
    OMF: ours(NMF, 0.0, reduction=1),
    SOMF: ours(NMF, 0.0, reduction=4),
    "SOMF, r = 12": ours(NMF, 0.0, reduction=12),
    "SOMF, r = auto": ours(NMF, 0.0, reduction="auto", code_estimator="auto"),
    SCIKIT_LEARN: Method(begin_scikit_learn_nmf, n_epochs=0.2, n_seeds=1),
}
"""The methods for NMF."""


@dataclass(frozen=True)
class Experiment:
    """Data, a problem, and the methods that solve it.

    Attributes
    ----------
    data : callable
        Returns sources of training and test samples.
    penalty : CodePenalty
        The penalty of the test objective.
    methods : dict of Method
    n_epochs : int
        Epochs until curves are flat.
    """

    data: Callable[[], tuple[Source, Source]]
    penalty: CodePenalty
    methods: dict[str, Method]
    n_epochs: int = EPOCHS


def experiments(scenes: Path | None) -> dict[str, Experiment]:
    """Return all experiments whose data is available."""
    sparse, positive = CodePenalty(ALPHA, 1.0, False), CodePenalty(0.0, 1.0, True)
    found = {"Indian Pines": Experiment(indian_pines, sparse, DICTIONARY_LEARNING)}
    if scenes is not None:
        found["Scenes"] = Experiment(lambda: aviris_scenes(scenes), sparse, DICTIONARY_LEARNING)
    found["Indian Pines, NMF"] = Experiment(
        lambda: indian_pines(center=False), positive, NMF_METHODS
    )
    return found


class Results:
    """The file of all runs, written after each of them.

    Parameters
    ----------
    path : Path
        Runs that it already holds are kept; they must be from the same processor.
    """

    def __init__(self, path: Path) -> None:
        self.path, machine = path, facts()
        self.content: dict[str, Any] = {"machine": machine, "k": K, "batch": BATCH, "data": {}}
        if path.exists():
            self.content = json.loads(path.read_text())
            before = self.content["machine"]["cpu"]
            if before != machine["cpu"]:
                raise SystemExit(f"{path} is from another machine ({before}). Move it away first.")

    def begin(self, name: str, train: Source, test: Source) -> None:
        """Add an experiment, unless it is there."""
        shapes = {"train": train.shape, "test": test.shape}
        self.content["data"].setdefault(name, shapes | {"runs": {}})

    def others(self, name: str, seed: int, method: str) -> float:
        """Return the share of the machine that others used during a run; infinity without a run."""
        runs = self.content["data"].get(name, {}).get("runs", {})
        return float(runs.get(method, {}).get(str(seed), {}).get("others", np.inf))

    def add(self, name: str, seed: int, method: str, curve: Curve) -> None:
        """Add a run and write the file, unless it holds a run that was disturbed less."""
        if curve.others > self.others(name, seed, method):
            return
        columns = {key: xs for key, xs in asdict(curve).items() if isinstance(xs, list)}
        rounded: dict[str, Any] = {k: [float(f"{x:.7g}") for x in xs] for k, xs in columns.items()}
        rounded["others"] = round(curve.others, 4)
        runs = self.content["data"][name]["runs"]
        runs.setdefault(method, {})[str(seed)] = rounded
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")


def run(method: Method, source: Source, evaluate: Evaluator, seed: int, n_epochs: float) -> Curve:
    """Return the curve of a method, after a short run that compiles its kernels."""
    init = initial_atoms(source, K, seed)
    few = as_source(source.rows(np.arange(2 * BATCH)))
    for some, epochs in ((few, 2), (source, n_epochs)):
        n = some.shape[0]
        learner = method.begin(some, init, seed)
        curve = follow(learner, evaluate, n, round(epochs * n), method.at_once, seed)
    return curve


def measure(
    results: Results, name: str, experiment: Experiment, wanted: list[tuple[int, str]], end: float
) -> None:
    """Do the missing runs among (seed, method) pairs; start none after the time `end`."""
    to_do = [case for case in wanted if results.others(name, *case) > MOST_OTHERS]
    to_do.sort(key=lambda case: results.others(name, *case) < np.inf)  # missing runs first
    if not to_do or monotonic() > end:
        return
    train, test = experiment.data()
    results.begin(name, train, test)
    source, evaluate = as_source(in_memory(train)), Evaluator(test, experiment.penalty)
    for seed, label in to_do:
        if monotonic() > end:
            return
        method = experiment.methods[label]
        n_epochs = min(method.n_epochs, experiment.n_epochs)
        curve = run(method, source, evaluate, seed, n_epochs)
        results.add(name, seed, label, curve)
        print(
            f"{name}, {label}, seed {seed}: {curve.objective[-1]:.6g} after "
            f"{curve.compute_seconds[-1]:.1f} s ({curve.wall_seconds[-1]:.1f} s with loading; "
            f"others had {curve.others:.0%} of the machine)",
            flush=True,
        )


def draw(content: dict[str, Any], path: Path) -> None:
    """Plot medians and ranges over seeds for every experiment that was measured."""
    from matplotlib import pyplot as plt

    data = {name: content["data"][name] for name in TOLERANCES if name in content["data"]}
    figure, axes = plt.subplots(
        1, len(data), figsize=(1 + 5.2 * len(data), 4.8), layout="constrained", squeeze=False
    )
    for ax, (name, experiment) in zip(axes[0], data.items(), strict=True):
        start, best, first = np.inf, np.inf, np.inf
        runs = experiment["runs"]
        for method in (method for method in STYLES if method in runs):
            curves = [Curve(**run) for run in runs[method].values()]
            times = np.median([curve.cpu_seconds for curve in curves], axis=0)[1:]
            objectives = np.array([curve.objective for curve in curves])
            start, best = min(start, objectives[0, 0]), min(best, objectives.min())
            first = min(first, times[objectives[0, 1:] < start].min(initial=np.inf))
            color, line = STYLES[method]
            low, middle, high = np.quantile(objectives[:, 1:], (0, 0.5, 1), axis=0)
            ax.plot(times, middle, line, color=color, linewidth=1.6, label=method)
            ax.fill_between(times, low, high, color=color, alpha=0.15, linewidth=0)
        for tolerance in TOLERANCES[name]:
            level = best * (1 + tolerance)
            ax.axhline(level, color="0.75", linewidth=0.7, zorder=0)
            label = f"best + {tolerance:.1%} "
            ax.text(1, level, label, transform=ax.get_yaxis_transform(), ha="right", va="bottom",
                    fontsize=7, color="0.4")  # fmt: skip
        ax.set(xscale="log", xlabel="CPU seconds of both threads", title=name)
        if first < np.inf:  # before that, objectives are above the initial one
            ax.set_xlim(left=first / 2)
        ax.set_ylim(best - 0.03 * (start - best), start + 0.05 * (start - best))
        ax.grid(alpha=0.3, which="both", axis="x", linewidth=0.4)
    axes[0, 0].set_ylabel("objective on test patches")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Do the missing runs, then draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, help="more scenes (.npy)")
    parser.add_argument("--data", nargs="+", help="experiments; all of them by default")
    parser.add_argument("--only", nargs="+", help="methods; all of them by default")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--minutes", type=float, default=60, help="start no run after these")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/figure1.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figure1.png"))
    options = parser.parse_args()
    end = monotonic() + 60 * options.minutes
    results = Results(options.output)
    for name, experiment in experiments(options.scenes).items():
        if options.data is None or name in options.data:
            wanted = [
                (seed, label)
                for seed in range(options.seeds)
                for label, method in experiment.methods.items()
                if seed < method.n_seeds and (options.only is None or label in options.only)
            ]
            measure(results, name, experiment, wanted, end)
    draw(results.content, options.figure)


if __name__ == "__main__":
    main()
