"""How close codes come to the density that was requested.

    python -m benchmarks.density [--output benchmarks/results/density.json]

`alpha="auto"` finds λ in a small trial fit before the real one. After the real fit, the codes of
1,000 of its samples have a slightly different density. This measures the density for each one
requested, on real data and on planted codes of a known density. One seed.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.machine import write_results
from benchmarks.scenes import indian_pines
from benchmarks.settings import PAPER
from somf import DictionaryLearning
from somf.data import as_source
from somf.typing import Array

DENSITIES = (0.05, 0.1, 0.2, 0.3)
"""The densities that are requested."""

FITS: dict[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    "Indian Pines": (100, ((4, 1), (12, 1))),
    "digits": (50, ((1, 1), (1, 20), (4, 1), (4, 20))),
    "planted, 10 % dense": (40, ((1, 1), (4, 10))),
}
"""Data: number of atoms, and pairs of reduction and epochs."""


def planted() -> Array:
    """Return combinations of 40 random atoms, a tenth of the coefficients not zero, and noise."""
    rng = np.random.default_rng(0)
    atoms = normalize(rng.standard_normal((40, 200)))
    code = rng.standard_normal((5000, 40)) * (rng.random((5000, 40)) < 0.1)
    return normalize(code @ atoms + 0.03 * rng.standard_normal((5000, 200)))


def measure(X: Any, k: int, reduction: int, n_epochs: int) -> dict[str, float]:
    """Return the density of codes for each density that is requested."""
    source = as_source(X)
    picked = np.random.default_rng(0).permutation(source.shape[0])[:1000]
    result = {}
    for density in DENSITIES:
        model = DictionaryLearning(
            k, alpha="auto", code_density=density, reduction=reduction, n_epochs=n_epochs,
            tol=0.0, batch_size=50, random_state=0, **PAPER,
        )  # fmt: skip
        codes = model.fit(X).transform(source.rows(picked))
        result[str(density)] = float(np.mean(codes != 0))
    return result


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/density.json"))
    options = parser.parse_args()
    data = {
        "Indian Pines": indian_pines()[0],
        "digits": normalize(load_digits().data),
        "planted, 10 % dense": planted(),
    }
    rows = []
    for name, (k, fits) in FITS.items():
        for reduction, n_epochs in fits:
            found = measure(data[name], k, reduction, n_epochs)
            rows.append({"data": name, "k": k, "reduction": reduction, "epochs": n_epochs,
                         "densities": found})  # fmt: skip
            print(name, f"r = {reduction}, {n_epochs} epochs", found, flush=True)
    write_results(options.output, {"fits": rows})


if __name__ == "__main__":
    main()
