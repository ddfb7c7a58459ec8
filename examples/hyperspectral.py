"""Learn a dictionary of a hyperspectral scene, and draw it.

The AVIRIS scene Indian Pines shows 145 x 145 pixels of farmland in Indiana in 200 bands of light.
It has 16,900 patches of 16 x 16 pixels with 51,200 values each: 3.5 GB as a matrix. Patches are cut
out of the image of 17 MB when they are needed. The fit measures that a part of the values is enough
for an iteration, which makes learning fast.

    python examples/hyperspectral.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from somf import DictionaryLearning, ImagePatches
from somf.inference.usage import usage_of
from somf.optional import import_optional
from somf.plotting import plot_atoms, plot_history, plot_spectra
from somf.typing import Array

plt = import_optional("matplotlib.pyplot", "demo", "This example")
datasets = import_optional("tensorly.datasets", "demo", "This example")

N_TRAIN_COLUMNS = 105
"""Columns of the scene, from the left, that training patches come from."""

N_SPECTRA = 6
"""Atoms whose spectra are drawn."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, report, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    image, wavelengths = load_scene()

    # Neighbouring patches overlap, so test patches must come from another part of the scene.
    train = ImagePatches(image[:, :N_TRAIN_COLUMNS], options.patch_size)
    test = ImagePatches(image[:, N_TRAIN_COLUMNS:], options.patch_size, stride=3)
    gigabytes = np.prod(train.shape) * train.dtype.itemsize / 1e9
    print(
        f"Indian Pines: {image.shape[0]} x {image.shape[1]} pixels, {image.shape[2]} bands\n"
        f"  training: {train.shape[0]} patches of {train.shape[1]} values, "
        f"left {N_TRAIN_COLUMNS} columns ({gigabytes:.1f} GB as a matrix, which is never stored)\n"
        f"  test:     {test.shape[0]} patches, the other columns"
    )

    model = DictionaryLearning(
        options.components,
        alpha=0.1,
        n_epochs=options.epochs,
        record_every=600,
        verbose=1,
        random_state=0,
    )
    model.fit(train, validation=test)

    # The codes of the test patches show which atoms are used.
    usage = usage_of(model.transform(test))
    objective, seconds = model.history_["objective"], model.history_["compute_seconds"]
    print(
        f"Test objective: {objective[0]:.4f} with random patches as atoms, "
        f"{objective[-1]:.4f} after {seconds[-1]:.1f} s of learning\n"
        f"Codes of test patches: {usage.density:.1%} are not zero, "
        f"{usage.density * options.components:.1f} atoms per patch\n"
        f"Atoms in use: {options.components - usage.n_unused} of {options.components}"
    )

    pictures = {
        "atoms.png": draw_atoms(model.components_, train.patch_shape, usage.order, wavelengths),
        "curve.png": draw_curve(model),
    }
    for name, figure in pictures.items():
        figure.savefig(options.output / name, dpi=150)
        plt.close(figure)
    model.save(options.output / "model.somf")
    print(f"In {options.output}: {', '.join(pictures)}, and model.somf for somf.load")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the patches, at most")
    parser.add_argument("--components", type=int, default=100, help="number of atoms")
    parser.add_argument("--patch-size", type=int, default=16, help="pixels along a side")
    return parser.parse_args(arguments)


def load_scene() -> tuple[Array, Array]:
    """Return the scene, (145, 145, 200), and the wavelengths of its bands in micrometres."""
    scene = datasets.load_indian_pines()
    wavelengths = np.array(scene.ticks[1])
    wavelengths[170:172] = 2212.22, 2222.15  # in tensorly they are 48 nm too long
    return scene.tensor.astype(np.float32), wavelengths / 1000


def draw_atoms(
    components: Array, patch_shape: tuple[int, ...], order: Array, wavelengths: Array
) -> Any:
    """Draw the most used atoms: their pictures, and the spectra of the first few."""
    figure = plt.figure(figsize=(13, 6), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
    colors = plt.get_cmap("Dark2").colors[:N_SPECTRA]

    pictures = figure.add_subplot(grid[:, 0])
    plot_atoms(
        components, patch_shape, n_atoms=50, order=order, n_columns=5, colors=colors, ax=pictures
    )
    pictures.set_title("Atoms, most used first")
    thirds = np.array_split(wavelengths, 3)
    names = zip(("blue", "green", "red"), thirds, strict=True)
    key = ", ".join(f"{name}: {band[0]:.1f} to {band[-1]:.1f} µm" for name, band in names)
    pictures.text(0.5, -0.01, key, transform=pictures.transAxes, ha="center", va="top")

    spectra = figure.add_subplot(grid[0, 1])
    differences = figure.add_subplot(grid[1, 1], sharex=spectra)
    for ax in (spectra, differences):
        plot_spectra(
            components,
            patch_shape,
            n_atoms=N_SPECTRA,
            order=order,
            centered=ax is differences,
            wavelengths=wavelengths,
            colors=colors,
            ax=ax,
        )
        ax.spines[["top", "right"]].set_visible(False)
    spectra.set_title(f"Spectra of the first {N_SPECTRA}, in the colours of their frames")
    spectra.set_xlabel("")
    spectra.tick_params(labelbottom=False)
    differences.get_legend().remove()  # the same as that of the spectra
    differences.axhline(0, color="gray", linewidth=0.8, zorder=0)
    differences.set_xlabel("wavelength (µm)")
    return figure


def draw_curve(model: DictionaryLearning) -> Any:
    """Draw the test objective against time."""
    figure = plt.figure(figsize=(6.4, 4), layout="constrained")
    ax = figure.add_subplot()
    plot_history(model, ax=ax)
    ax.set_title(f"{model.n_components} atoms, {model.n_iter_} iterations")
    ax.set_ylabel("objective on test patches")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
