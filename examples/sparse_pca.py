"""Sparse PCA of patches of a photograph, next to PCA.

A principal component is a wave over the whole patch. A sparse atom is a spot at one place.
Codes are dense in both.

    python examples/sparse_pca.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA

from somf import ImagePatches, SparsePCA
from somf.plotting import plot_atoms


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn sparse components, and draw them beside principal components."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    image = load_sample_image("flower.jpg").mean(axis=2).astype(np.float32)
    patches = ImagePatches(image, options.patch_size, stride=options.stride)
    model = SparsePCA(options.components, alpha=0.01, n_epochs=options.epochs, random_state=0)
    model.fit(patches)
    X = patches.rows(np.arange(patches.shape[0]))
    pca = PCA(options.components, random_state=0).fit(X)

    names = ("sparse components", "principal components")
    models = (model, pca)
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
    for name, each, ax in zip(names, models, axes, strict=True):
        atoms = each.components_
        filled = np.mean(np.abs(atoms) > 1e-3 * np.abs(atoms).max(axis=1, keepdims=True))
        codes = each.transform(X)
        error = np.linalg.norm(X - each.inverse_transform(codes)) / np.linalg.norm(X)
        print(f"{name}: {filled:.0%} of their entries matter, relative error {error:.3f}")
        plot_atoms(atoms, patches.patch_shape, ax=ax)
        ax.set_title(f"{name}: {filled:.0%} filled")
    figure.savefig(options.output / "sparse_pca.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: sparse_pca.png")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--components", type=int, default=36, help="number of components")
    parser.add_argument("--patch-size", type=int, default=12, help="pixels along a side")
    parser.add_argument("--stride", type=int, default=4, help="pixels between patches")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the patches, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
