"""Few features: photographs and pixels, fit and transform, against SPAMS and scikit-learn.

    python -m benchmarks.everyday [--rounds 5] [--no-scikit-learn]

Data, float32, rows of norm 1: 55,400 patches of 10 × 10 × 3 of two photographs (λ = 0.1), and 9,400
pixels of Indian Pines with 200 bands (λ = 0.02).

- Fit: one epoch at r = 1 with the same batches and the same initial atoms, and the objective on
  held-out samples. SPAMS draws its samples itself.
- Transform: the codes of all samples on the atoms that somf has learned, and the largest relative
  duality gap of these codes. SPAMS runs its LARS, scikit-learn its default, also LARS.
- NMF: non-negative codes without a penalty of the pixels on their atoms, against scikit-learn's
  coordinate descent.

Libraries take turns; medians over rounds with quartiles. scikit-learn runs once, since it takes up
to a hundred times as long. All use all cores.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.curves import Evaluator
from benchmarks.datasets import photograph_patches, scene_pixels
from benchmarks.machine import write_results
from benchmarks.settings import ONE_EPOCH, PAPER_WEIGHTS
from benchmarks.summaries import summary
from somf import NMF, DictionaryLearning
from somf.data import as_source
from somf.kernels import reference
from somf.kernels.cpu.cores import available_cores
from somf.penalties import CodePenalty
from somf.typing import Array

N_HELD_OUT = 3000
"""Samples that no library learns from."""


@dataclass(frozen=True)
class Case:
    """A problem: samples, k, batch size, λ."""

    name: str
    X: Array
    test: Array
    k: int
    batch_size: int
    alpha: float


def cases() -> list[Case]:
    """Return the problems; held-out samples are chosen at random."""
    order = np.random.default_rng(1).permutation
    photos, spectra = photograph_patches(10, 29_200), scene_pixels()[: 9400 + N_HELD_OUT]
    photos, spectra = photos[order(len(photos))], spectra[order(len(spectra))]
    photo = photos[N_HELD_OUT:], photos[:N_HELD_OUT]
    pixel = spectra[N_HELD_OUT:], spectra[:N_HELD_OUT]
    return [
        Case("photographs, k = 64", *photo, 64, 50, 0.1),
        Case("photographs, k = 256", *photo, 256, 256, 0.1),
        Case("pixels, k = 64", *pixel, 64, 50, 0.02),
    ]


class Somf:
    """Our own estimator."""

    def __init__(self, case: Case) -> None:
        self.model = DictionaryLearning(
            case.k,
            alpha=case.alpha,
            reduction=1,
            batch_size=case.batch_size,
            random_state=0,
            **PAPER_WEIGHTS,
            **ONE_EPOCH,
        )
        self.model.init = case.X[: case.k]

    def fit(self, case: Case) -> Array:
        """Return the atoms after one epoch."""
        return self.model.fit(case.X).components_

    def transform(self, case: Case, atoms: Array) -> Array:
        """Return the codes of all samples."""
        del atoms  # they are its own
        return self.model.transform(case.X)


class Spams:
    """SPAMS, on as many threads as there are cores."""

    def __init__(self, case: Case) -> None:
        import spams  # noqa: F401 (not part of what is timed)

        self.settings = {"lambda1": case.alpha, "mode": 2, "numThreads": available_cores()}

    def fit(self, case: Case) -> Array:
        """Return the atoms after one epoch."""
        import spams

        D: Array = spams.trainDL(
            np.asfortranarray(case.X.T),
            D=np.asfortranarray(case.X[: case.k].T),
            batchsize=case.batch_size,
            iter=-(-len(case.X) // case.batch_size),
            modeD=0,
            verbose=False,
            **self.settings,
        )
        return D.T

    def transform(self, case: Case, atoms: Array) -> Array:
        """Return the codes of all samples."""
        import spams

        code = spams.lasso(case.X.T, D=np.asfortranarray(atoms.T), **self.settings)
        return np.asarray(code.T.toarray(), dtype=np.float32)


class ScikitLearn:
    """scikit-learn."""

    def __init__(self, case: Case) -> None:
        from sklearn.decomposition import MiniBatchDictionaryLearning

        self.model = MiniBatchDictionaryLearning(
            case.k,
            alpha=case.alpha,
            transform_algorithm="lasso_lars",
            batch_size=case.batch_size,
            max_iter=1,
            dict_init=case.X[: case.k],
            random_state=0,
            n_jobs=available_cores(),
        )

    def fit(self, case: Case) -> Array:
        """Return the atoms after one epoch."""
        atoms: Array = self.model.fit(case.X).components_
        return atoms

    def transform(self, case: Case, atoms: Array) -> Array:
        """Return the codes of all samples."""
        self.model.components_ = np.asarray(atoms)
        code: Array = self.model.transform(case.X)
        return code


def gap(case: Case, atoms: Array, code: Array) -> float:
    """Return the largest relative duality gap of codes, computed in float64."""
    X, D, code = (np.asarray(A, dtype=np.float64) for A in (case.X, atoms.T, code))
    G, penalty = D.T @ D, CodePenalty(case.alpha, 1.0, False)
    objective, gaps = zip(
        *(
            reference.objective_and_gap(G, b, s, penalty, a)
            for b, s, a in zip(X @ D, (X * X).sum(axis=1), code, strict=True)
        ),
        strict=True,
    )
    return float(np.max(np.divide(gaps, objective)))


def measure(case: Case, n_rounds: int, with_scikit_learn: bool) -> dict[str, Any]:
    """Return the seconds of all libraries, which take turns, and how good their results are."""
    ours = Somf(case)
    evaluate = Evaluator(as_source(case.test), CodePenalty(case.alpha, 1.0, False))
    libraries = {"somf": ours, "SPAMS": Spams(case)}
    if with_scikit_learn:
        libraries["scikit-learn"] = ScikitLearn(case)
    small = replace(case, X=case.X[:1000])
    for library in libraries.values():  # compile, load
        library.transform(small, library.fit(small))
    atoms = ours.fit(case)
    result: dict[str, Any] = {"shape": case.X.shape, "k": case.k, "batch": case.batch_size}
    for task in ("fit", "transform"):
        seconds: dict[str, list[float]] = defaultdict(list)
        quality: dict[str, float] = {}
        for number in range(n_rounds):
            for name, library in libraries.items():
                if name == "scikit-learn" and number > 0:
                    continue
                begin = perf_counter()
                found = library.fit(case) if task == "fit" else library.transform(case, atoms)
                seconds[name].append(perf_counter() - begin)
                if number == 0 and task == "fit":
                    quality[name] = evaluate(found)
                elif number == 0:
                    quality[name] = gap(case, atoms, found)
        result[task] = table_of(seconds, quality, "objective" if task == "fit" else "gap")
    return result


def table_of(
    seconds: dict[str, list[float]], quality: dict[str, float], name: str
) -> dict[str, Any]:
    """Return seconds, quality, and how many times as long as somf each library takes."""
    return {
        library: {
            "seconds": summary(times),
            name: quality[library],
            "times somf": summary([a / b for a, b in zip(times, seconds["somf"], strict=False)]),
        }
        for library, times in seconds.items()
    }


def measure_nmf(case: Case, n_rounds: int, k: int = 20) -> dict[str, Any]:
    """Return the seconds of non-negative codes without a penalty, and their error."""
    from sklearn import decomposition

    X = np.abs(case.X)
    model = NMF(
        k,
        alpha=0.0,
        reduction=1,
        batch_size=50,
        n_epochs=2,
        tol=0.0,
        init="samples",
        code_tol=1e-6,
        random_state=0,
        **PAPER_WEIGHTS,
    ).fit(X)
    peer = decomposition.NMF(k, init="random", solver="cd", tol=1e-6, max_iter=2000, random_state=0)
    peer.fit(X[:50])
    peer.components_ = np.asarray(model.components_, dtype=X.dtype)
    calls: dict[str, Callable[[], Array]] = {
        "somf": lambda: model.transform(X),
        "scikit-learn": lambda: peer.transform(X),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    errors: dict[str, float] = {}
    for _ in range(n_rounds):
        for name, call in calls.items():
            begin = perf_counter()
            code = call()
            seconds[name].append(perf_counter() - begin)
            errors[name] = float(np.linalg.norm(X - code @ model.components_) / np.linalg.norm(X))
    return {"shape": X.shape, "k": k, "transform": table_of(seconds, errors, "relative error")}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-scikit-learn", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/everyday.json"))
    options = parser.parse_args()
    problems, results = cases(), {}
    for case in problems:
        results[case.name] = measure(case, options.rounds, not options.no_scikit_learn)
        print_case(case.name, results[case.name])
    results["pixels, NMF codes"] = measure_nmf(problems[-1], options.rounds)
    print_case("pixels, NMF codes", results["pixels, NMF codes"])
    write_results(options.output, {"cases": results})


def print_case(name: str, result: dict[str, Any]) -> None:
    """Print the seconds and the quality of all libraries."""
    for task in ("fit", "transform"):
        for library, row in result.get(task, {}).items():
            *_, (what, value), (_, factor) = row.items()
            print(
                f"{name:<22}{task:<10}{library:<13}{row['seconds']['median']:8.2f} s"
                f"  {factor['median']:6.2f} × somf   {what} {value:.3g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
