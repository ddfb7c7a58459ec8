"""How well runs of cNMF's factorization agree, by scikit-learn and by somf, on several data sets.

    pip install '.[cnmf]'
    python -m benchmarks.agreement [--data "blood cells" …] [--programs 10 18] [--runs 20]

`benchmarks.cnmf` runs the whole pipeline once. Here only the factorizations are run, as cNMF calls
them, on fewer cells and with more seeds: the silhouette of ten runs is computed for many random
sets of ten of them, since it depends on which ones they are. Data are counts of which genes are
scaled to unit variance: two kinds of cells that are resampled from real ones (see
`benchmarks.datasets`), and simulated cells of known programs. The CPU seconds are those of one
thread.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.decomposition import non_negative_factorization
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from benchmarks.cnmf import error_of
from benchmarks.datasets import resampled_cells
from benchmarks.machine import write_results
from somf.integrations.gene_programs import factorize
from somf.typing import Array

N_CELLS = 4000
"""Cells of every data set."""

SET = 10
"""Runs of which a silhouette is computed."""

N_SETS = 12
"""Random sets of runs."""


def simulated_cells(n_cells: int) -> Array:
    """Return counts of 2,000 genes in cells of ten types, with four activities and dropout.

    A cell has the program of its type and, each with a chance of a quarter, those of activities.
    Counts are negative binomial, and small ones are often lost.
    """
    rng = np.random.default_rng(3)
    n_types, n_activities, n_genes = 10, 4, 2000
    k = n_types + n_activities
    base = rng.lognormal(-1, 1.3, n_genes)
    is_marker = rng.random((k, n_genes)) < 0.08
    programs = base * np.where(is_marker, rng.lognormal(1.5, 0.7, (k, n_genes)), 1.0)
    programs /= programs.sum(axis=1, keepdims=True)
    kinds = rng.choice(n_types, size=n_cells, p=rng.dirichlet(np.full(n_types, 3.0)))
    usages = np.zeros((n_cells, k))
    usages[np.arange(n_cells), kinds] = 1
    is_active = rng.random((n_cells, n_activities)) < 0.25
    usages[:, n_types:] = is_active * rng.uniform(0.1, 0.6, (n_cells, n_activities))
    usages /= usages.sum(axis=1, keepdims=True)
    mean = usages @ programs * rng.lognormal(np.log(2500), 0.4, (n_cells, 1))
    counts = rng.poisson(rng.gamma(3.0, mean / 3.0))
    counts[rng.random(counts.shape) < 0.3 * np.exp(-0.3 * mean)] = 0
    return np.asarray(counts)


DATA: dict[str, Callable[[], Array]] = {
    "blood cells": lambda: resampled_cells(N_CELLS),
    "blood cells, noisier": lambda: resampled_cells(N_CELLS, seed=7, dispersion=1.5),
    "simulated cells": lambda: simulated_cells(N_CELLS),
}
"""Counts, by the name of the data."""


def scaled(counts: Array) -> sp.csr_matrix:
    """Return counts of genes that are present, scaled to unit variance, as cNMF does it."""
    present = counts[:, counts.any(axis=0)].astype(np.float64)
    return sp.csr_matrix((present / present.std(axis=0, ddof=1)).astype(np.float32))


def spectra_of_scikit_learn(X: Any, k: int, seed: int) -> Array:
    """Return the spectra of a run, with the arguments that cNMF gives."""
    _, spectra, _ = non_negative_factorization(
        X, n_components=k, init="random", solver="cd", tol=1e-4, max_iter=1000, random_state=seed
    )
    return np.asarray(spectra)


LIBRARIES: dict[str, Callable[[Any, int, int], Array]] = {
    "somf": lambda X, k, seed: factorize(X, k, random_state=seed)[0],
    "scikit-learn": spectra_of_scikit_learn,
}
"""What returns the spectra of a run."""


def silhouette(spectra: Array) -> float:
    """Return cNMF's silhouette of runs.

    Parameters
    ----------
    spectra : ndarray of shape (n_runs, k, n_genes)
    """
    rows = spectra.reshape(-1, spectra.shape[2])
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = KMeans(n_clusters=spectra.shape[1], n_init=10, random_state=1).fit_predict(rows)
    return float(silhouette_score(rows, labels))


def summary(X: Any, spectra: Array, seconds: float) -> dict[str, Any]:
    """Return what some runs cost and reach.

    Parameters
    ----------
    X : csr_matrix of shape (n_cells, n_genes)
    spectra : ndarray of shape (n_runs, k, n_genes)
    seconds : float
        CPU seconds of a run.
    """
    rng = np.random.default_rng(0)
    sets = [rng.choice(len(spectra), SET, replace=False) for _ in range(N_SETS)]
    return {
        "runs": len(spectra),
        "cpu seconds of a run": seconds,
        "silhouettes": [silhouette(spectra[chosen]) for chosen in sets],
        "errors": [error_of(sp.csr_array(X), run.astype(np.float64)) for run in spectra],
    }


def measure(X: Any, k: int, n_runs: int, library: str) -> dict[str, Any]:
    """Return the summary of some runs, with the seeds that cNMF would draw."""
    seeds = np.random.RandomState(1).randint(1, 2**31 - 1, size=n_runs)
    begin = process_time()
    spectra = np.array([LIBRARIES[library](X, k, int(seed)) for seed in seeds])
    return summary(X, spectra, (process_time() - begin) / n_runs)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--programs", type=int, nargs="+", default=[10, 18])
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/agreement.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of scikit-learn, about convergence
    known = json.loads(options.output.read_text()) if options.output.exists() else {}
    result: dict[str, Any] = {"cells": N_CELLS, "data": known.get("data", {})}
    factorize(resampled_cells(100), 3)  # compiles
    with threadpool_limits(1):
        for name in options.data:
            X = scaled(DATA[name]())
            for k in options.programs:
                found = result["data"].setdefault(name, {}).setdefault(str(k), {})
                for library in options.libraries:
                    found[library] = measure(X, k, options.runs, library)
                    print(name, k, library, np.mean(found[library]["silhouettes"]), flush=True)
                    write_results(options.output, result)


if __name__ == "__main__":
    main()
