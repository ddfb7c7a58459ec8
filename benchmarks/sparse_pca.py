"""Sparse atoms: how much they explain at the density of scikit-learn's.

    python -m benchmarks.sparse_pca [--seeds 3] [--data digits]

scikit-learn's `MiniBatchSparsePCA` learns atoms with two weights of its penalty, all else as it
comes. `SparsePCA` of somf is asked for the densities that come out. Its time includes the search
for λ. The error is ‖X − CV‖ / ‖X‖ with codes C by least squares on the atoms V of either, so that
penalties on codes do not count; that of PCA is the least that any atoms can have. Data are centred
before, since scikit-learn centres.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits
from sklearn.decomposition import MiniBatchSparsePCA

from benchmarks.contenders import seconds_of
from benchmarks.datasets import photograph_patches, wide
from benchmarks.machine import write_results
from somf import SparsePCA
from somf.typing import Array

RESULTS = Path(__file__).parent / "results" / "sparse_pca.json"
"""Where results are written."""


def simulated_maps() -> Array:
    """Return 300 scans of 13,440 voxels: twelve smooth maps, and noise of twice their size."""
    rng, shape = np.random.default_rng(0), (24, 28, 20)
    smooth = [gaussian_filter(rng.standard_normal(shape), 2.5) for _ in range(12)]
    maps = np.stack([np.maximum(z - np.quantile(z, 0.9), 0).ravel() for z in smooth])
    maps /= maps.max(axis=1, keepdims=True)
    return rng.standard_normal((300, 12)) @ maps + 0.5 * rng.standard_normal((300, maps.shape[1]))


DATA: dict[str, tuple[Callable[[], Any], int, tuple[float, float]]] = {
    "digits": (lambda: load_digits().data, 20, (1.0, 10.0)),
    "crops of photographs": (lambda: photograph_patches(16, 1000), 20, (0.1, 0.4)),
    "simulated maps": (simulated_maps, 12, (1.0, 3.0)),
    "channels of Indian Pines": (lambda: wide().train, 10, (2.0, 5.0)),
}
"""Data, the number of atoms, and two weights of scikit-learn's penalty."""


def error(X: Array, atoms: Array) -> float:
    """Return the relative error of samples with codes by least squares."""
    codes = np.linalg.lstsq(atoms.T, X.T, rcond=None)[0].T
    return float(np.linalg.norm(X - codes @ atoms) / np.linalg.norm(X))


def learned(model: Any, X: Array) -> dict[str, float]:
    """Return density and error of the atoms that a model learns, and how long it takes."""
    times = seconds_of(lambda: model.fit(X))
    atoms = np.asarray(model.components_, dtype=np.float64)
    return {
        "density": float(np.mean(atoms != 0)),
        "error": error(X, atoms),
        "cpu_seconds": times.cpu,
    }


def measure(name: str, n_seeds: int) -> dict[str, Any]:
    """Return what both libraries learn of a data set."""
    load, k, alphas = DATA[name]
    X = np.asarray(load(), dtype=np.float64)
    X -= X.mean(axis=0)
    SparsePCA(k, alpha=0.1, n_epochs=1).fit(X)  # compiles
    squares = np.square(np.linalg.svd(X, compute_uv=False))
    fits = []
    for alpha in alphas:
        runs: dict[str, list[dict[str, float]]] = {"scikit-learn": [], "somf": []}
        for seed in range(n_seeds):
            peer = learned(MiniBatchSparsePCA(k, alpha=alpha, random_state=seed), X)
            ours = learned(SparsePCA(k, atom_density=peer["density"], random_state=seed), X)
            runs["scikit-learn"].append(peer)
            runs["somf"].append(ours)
            print(name, alpha, seed, peer, ours, flush=True)
        fits.append({"alpha": alpha, "libraries": runs})
    least = float(np.sqrt(squares[k:].sum() / squares.sum()))
    return {"shape": X.shape, "k": k, "error of PCA": least, "fits": fits}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = json.loads(options.output.read_text())["data"] if options.output.exists() else {}
    for name in options.data:
        found[name] = measure(name, options.seeds)
        write_results(options.output, {"data": found})


if __name__ == "__main__":
    main()
