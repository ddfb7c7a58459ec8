"""Where a fit ends, by the atoms that it starts from.

    python -m benchmarks.initial_atoms [--seeds 3]

- NMF without a penalty: random directions, samples, and NNDSVD of a sample of the data; the error
  ‖X − AD‖ / ‖X‖ on held-out samples. Five epochs at r = 1, v = 0.76, batches of 256 samples.
- NMF with λ = 0.02: the same, and the objective on held-out samples of norm 1.
- Dictionary learning with λ = 0.1: random directions, samples, and samples chosen by k-means++ out
  of 1,000 or 20 k, if that is more; the objective on held-out samples of norm 1. Three epochs at
  r = 1, v = 0.85, batches of 100.

Data: digits, 8 × 8 × 3 patches of two photographs (centred for dictionary learning), pixels of
Indian Pines, sums of 15 planted parts, and Poisson counts (CSR) of 20 planted parts.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import load_digits, load_sample_images
from sklearn.preprocessing import normalize

from benchmarks.machine import write_results
from benchmarks.scenes import indian_pines_cube
from somf import NMF, DictionaryLearning, ImagePatches
from somf.typing import Array

PENALTY = 0.02
"""λ of NMF with a penalty."""

N_ATOMS = 64
"""Atoms of dictionary learning."""

Found: TypeAlias = dict[str, list[float]]
"""For each kind of initial atoms, the error or objective with every seed."""


def photographs(centred: bool) -> Array:
    """Return 20,000 random patches of two photographs."""
    rng, parts = np.random.default_rng(0), []
    for image in load_sample_images().images:
        patches = ImagePatches(image / 255, 8, center=centred, scale=False)
        parts.append(patches.rows(np.sort(rng.permutation(patches.shape[0])[:10_000])))
    return np.concatenate(parts).astype(np.float32)


def planted() -> Array:
    """Return sums of 15 non-negative parts, and noise."""
    rng = np.random.default_rng(0)
    codes = rng.gamma(0.5, size=(8000, 15)) * (rng.random((8000, 15)) < 0.4)
    noise = 0.3 * np.abs(rng.standard_normal((8000, 300)))
    return (codes @ rng.gamma(0.3, size=(15, 300)) + noise).astype(np.float32)


def counts() -> sp.csr_array:
    """Return Poisson counts of 20 parts; the samples differ in their totals."""
    rng = np.random.default_rng(0)
    parts = normalize(rng.gamma(0.15, size=(20, 765)), norm="l1")
    codes = normalize(rng.gamma(0.3, size=(20_000, 20)), norm="l1")
    rates = codes @ parts * rng.lognormal(5, 0.5, (20_000, 1))
    return sp.csr_array(rng.poisson(rates).astype(np.float32))


def data(centred: bool) -> dict[str, tuple[Any, int]]:
    """Return all samples, in random order, with the number of atoms of NMF."""
    spectra = indian_pines_cube().reshape(-1, 200).astype(np.float32)
    found = {
        "digits": (load_digits().data.astype(np.float32), 16),
        "photographs": (photographs(centred), 32),
        "pixels": (spectra, 10),
        "planted": (planted(), 15),
        "counts, CSR": (counts(), 20),
    }
    rng = np.random.default_rng(1)
    return {name: (X[rng.permutation(X.shape[0])], k) for name, (X, k) in found.items()}


def chosen_by_kmeans(X: Any, k: int, seed: int) -> Array:
    """Return samples chosen by k-means++ out of some."""
    some = X[np.random.default_rng(seed).permutation(X.shape[0])[: max(1000, 20 * k)]]
    dense = some.toarray() if sp.issparse(some) else some
    return np.asarray(kmeans_plusplus(dense, k, random_state=seed)[0])


def nmf(X: Any, k: int, alpha: float, init: str, seed: int) -> float:
    """Return the relative error, or with a penalty the objective, on held-out samples."""
    n_test = X.shape[0] // 10
    train, test = X[n_test:], X[:n_test]
    model = NMF(k, alpha=alpha, init=init, reduction=1, learning_rate=0.76, batch_size=256,
                n_epochs=5, tol=0.0, random_state=seed).fit(train)  # fmt: skip
    objective = model.objective(test)
    if alpha > 0:
        return objective
    return float(np.sqrt(2 * objective * n_test / (test * test).sum()))


def dictionary_learning(X: Any, k: int, init: str, seed: int) -> float:
    """Return the objective on held-out samples."""
    n_test = X.shape[0] // 10
    train, test = X[n_test:], X[:n_test]
    atoms = chosen_by_kmeans(train, k, seed) if init == "k-means++" else init
    model = DictionaryLearning(k, alpha=0.1, init=atoms, reduction=1, learning_rate=0.85,
                               batch_size=100, n_epochs=3, tol=0.0, random_state=seed)  # fmt: skip
    return model.fit(train).objective(test)


def measure(inits: tuple[str, ...], n_seeds: int, fit: Callable[..., float], *args: Any) -> Found:
    """Return what fits with every seed find from each kind of initial atoms."""
    found = {init: [fit(*args, init, seed) for seed in range(n_seeds)] for init in inits}
    print({init: f"{np.mean(x):.5f}" for init, x in found.items()}, flush=True)
    return found


def main() -> None:
    """Measure, print, write."""
    output = Path("benchmarks/results/initial_atoms.json")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=output)
    options = parser.parse_args()
    n_seeds = options.seeds
    results: dict[str, dict[str, Found]] = {"nmf": {}, "penalised": {}, "dictionary": {}}
    for name, (X, k) in data(centred=False).items():
        print(name)
        inits = ("random", "samples", "nndsvd")
        results["nmf"][name] = measure(inits, n_seeds, nmf, X, k, 0.0)
        results["penalised"][name] = measure(inits, n_seeds, nmf, normalize(X), k, PENALTY)
    for name, (X, _) in data(centred=True).items():
        print(name)
        inits = ("random", "samples", "k-means++")
        results["dictionary"][name] = measure(
            inits, n_seeds, dictionary_learning, normalize(X), N_ATOMS
        )
    write_results(options.output, results)


if __name__ == "__main__":
    main()
