"""Decompose handwritten digits into strokes with non-negative matrix factorization.

Atoms and codes are non-negative, so strokes of ink can only be added. Atoms are then parts of
digits, and the code of a digit lists its strokes.

    python examples/digits_nmf.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from somf import NMF
from somf.inference.usage import usage_of
from somf.plotting import plot_atoms, plot_reconstructions, plot_usage


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn strokes, draw them, and draw digits with their reconstructions."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    X = normalize(load_digits().data)
    model = NMF(
        options.components,
        alpha=0.01,
        init="random",  # atoms that start from digits stay close to digits
        n_epochs=options.epochs,
        random_state=0,
    )
    codes = model.fit_transform(X)

    error = np.linalg.norm(X - model.inverse_transform(codes)) / np.linalg.norm(X)
    order = usage_of(codes).order
    print(
        f"{len(X)} digits, {len(model.components_)} strokes\n"
        f"A digit consists of {np.count_nonzero(codes) / len(codes):.1f} strokes\n"
        f"Relative error: {error:.3f}"
    )
    figure = plt.figure(figsize=(12, 5.5), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.2))
    shape = (8, 8)
    strokes = plot_atoms(model, shape, order=order, ax=figure.add_subplot(grid[:, 0]))
    strokes.set_title("strokes, most used first")
    plot_reconstructions(model, X, shape, n_samples=10, ax=figure.add_subplot(grid[0, 1]))
    plot_usage(codes, ax=figure.add_subplot(grid[1, 1]))
    figure.savefig(options.output / "digits_nmf.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: digits_nmf.png")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--components", type=int, default=36, help="number of strokes")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the digits, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
