"""Choose the number of atoms and alpha on held-out samples, by grid search.

Objectives for different alpha cannot be compared: a smaller penalty gives a smaller objective. The
error at the same number of atoms per sample can be compared. The grid search records the held-out
error and the number of atoms that a held-out sample uses, for each pair of parameters, and the
figure shows one against the other. For a single alpha, grid search with `score`, which is minus the
objective, is enough.

    python examples/model_selection.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import normalize

from somf import DictionaryLearning
from somf.typing import Array


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, print, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    X = normalize(load_digits().data)[: options.samples]
    grid = {"n_components": options.components, "alpha": options.alpha}
    search = GridSearchCV(
        DictionaryLearning(n_epochs=options.epochs, random_state=0),
        grid,
        scoring={"objective": held_out_objective, "error": held_out_error, "atoms": atoms_in_use},
        refit=False,
        cv=3,
    )
    results = search.fit(X).cv_results_
    columns = zip(
        *(results[f"param_{name}"] for name in ("alpha", "n_components")),
        *(results[f"mean_test_{name}"] for name in ("objective", "error", "atoms")),
        strict=True,
    )
    print("alpha    k  objective  error  atoms per sample   (all on held-out samples)")
    for alpha, k, objective, error, atoms in columns:
        print(f"{alpha:5.3g} {k:4d}  {-objective:9.4f}  {-error:5.3f}  {atoms:6.1f}")

    figure = plt.figure(figsize=(7, 4.5), layout="constrained")
    ax = figure.add_subplot()
    for k in options.components:
        chosen = results["param_n_components"] == k
        atoms, error = results["mean_test_atoms"][chosen], -results["mean_test_error"][chosen]
        ax.plot(atoms, error, marker="o", label=f"{k} atoms")
        for alpha, x, y in zip(results["param_alpha"][chosen], atoms, error, strict=True):
            ax.annotate(f"{alpha:g}", (x, y), textcoords="offset points", xytext=(5, 4))
    ax.set_xlabel("atoms in use per held-out sample; at the dots: alpha")
    ax.set_ylabel("relative error on held-out samples")
    ax.legend()
    figure.savefig(options.output / "model_selection.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: model_selection.png")


def held_out_objective(model: DictionaryLearning, X: Array, y: Any = None) -> float:  # noqa: ARG001
    """Return minus the objective, which can compare numbers of atoms for one alpha."""
    return model.score(X)


def held_out_error(model: DictionaryLearning, X: Array, y: Any = None) -> float:  # noqa: ARG001
    """Return minus the relative error of the reconstructions."""
    error = X - model.inverse_transform(model.transform(X))
    return float(-np.linalg.norm(error) / np.linalg.norm(X))


def atoms_in_use(model: DictionaryLearning, X: Array, y: Any = None) -> float:  # noqa: ARG001
    """Return the mean number of atoms per sample."""
    return float(np.count_nonzero(model.transform(X)) / len(X))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--samples", type=int, default=1797, help="digits to use, at most")
    parser.add_argument("--components", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.2])
    parser.add_argument("--epochs", type=int, default=100, help="passes over the digits, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
