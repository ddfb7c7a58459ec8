"""Learn what a hyperspectral scene is made of, and show it.

The AVIRIS scene Indian Pines shows 145 x 145 pixels of farmland in Indiana in 200 bands of light.
The script learns from the left part of the scene, and measures on the right part:

1. Unmixing: every pixel as a mixture of few spectra, none of them negative (NMF).
2. A dictionary of patches of 8 x 8 pixels with 12,800 values each, and the right part of the scene
   put together again from the codes of its patches. They are cut out of the image when they are
   needed. As a matrix they would take forty times the memory of the image.

    python examples/hyperspectral.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from somf import NMF, DictionaryLearning, ImagePatches
from somf.data.channels import Channels
from somf.inference.usage import usage_of
from somf.optional import import_optional
from somf.plotting import plot_atoms, plot_spectra
from somf.report import write_report
from somf.typing import Array

plt = import_optional("matplotlib.pyplot", "demo", "This example")
datasets = import_optional("tensorly.datasets", "demo", "This example")

N_TRAIN_COLUMNS = 105
"""Columns of the scene, from the left, that are learned from."""

RED, GREEN, BLUE = 0.65, 0.55, 0.45
"""Wavelengths of the colours of pictures, in micrometres."""

RED_LIGHT, INFRARED = (0.62, 0.69), (0.76, 0.90)
"""Leaves absorb red light and reflect the infrared beside it: bands in micrometres."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, measure, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    scene, wavelengths = load_scene()
    height, width, n_bands = scene.shape
    print(f"Indian Pines: {height} x {width} pixels in {n_bands} bands, 0.4 to 2.5 µm")

    spectra = unmix(scene, wavelengths, options.spectra)
    model, test, again = learn_patches(scene, wavelengths, options)
    pictures = {
        "scene.png": draw_scene(scene, wavelengths, again),
        "spectra.png": draw_spectra(spectra, scene, wavelengths),
        "atoms.png": draw_atoms(model, test),
    }
    for name, figure in pictures.items():
        figure.savefig(options.output / name, dpi=150)
        plt.close(figure)
    spectra.save(options.output / "spectra.somf")
    model.save(options.output / "patches.somf")
    page = options.output / "report.html"
    write_report(model, page, data=test, data_name="Indian Pines, right part")
    print(
        f"In {options.output}: {', '.join(pictures)}, report.html, and spectra.somf and "
        "patches.somf for somf.load"
    )


def unmix(scene: Array, wavelengths: Array, n_spectra: int) -> NMF:
    """Learn spectra of which the pixels on the left are mixtures; tell what they are."""
    train = pixels(scene[:, :N_TRAIN_COLUMNS], wavelengths)
    test = pixels(scene[:, N_TRAIN_COLUMNS:], wavelengths)
    model = NMF(n_spectra, batch_size=256, n_epochs=30, random_state=0).fit(train)
    explained = model.measure(test, with_gap=False).explained_variance
    edges = red_edges(model.components_, wavelengths)
    green = int(np.argmax(edges))
    others = np.delete(edges, green)
    print(
        f"1. Unmixing, {model.history_['compute_seconds'][-1]:.1f} s: {n_spectra} spectra explain "
        f"{explained:.1%} of the variance of pixels that were not learned from.\n"
        f"   Spectrum {green} is that of green plants: it rises {edges[green]:.1f}-fold from red "
        "light to the infrared beside it.\n"
        f"   The others, of soil, dry plants and roofs, rise {others.max():.1f}-fold at most."
    )
    return model


def pixels(image: Array, wavelengths: Array) -> ImagePatches:
    """Return the pixels of an image as samples, as they are."""
    patches = ImagePatches(image, 1, center=False, scale=False)
    patches.channels = Channels(tuple(wavelengths), "µm")
    return patches


def red_edges(spectra: Array, wavelengths: Array) -> Array:
    """Return how many times brighter spectra are in the infrared than in red light."""
    infrared, red = (
        spectra[:, (low <= wavelengths) & (wavelengths <= high)].mean(axis=1)
        for low, high in (INFRARED, RED_LIGHT)
    )
    return np.asarray(infrared / np.maximum(red, 1e-6 * spectra.max()))


def learn_patches(
    scene: Array, wavelengths: Array, options: argparse.Namespace
) -> tuple[DictionaryLearning, ImagePatches, Array]:
    """Learn atoms of patches on the left; return them, the patches on the right, and these again.

    Neighbouring patches overlap, so test patches must come from another part of the scene.
    """
    train = ImagePatches(scene[:, :N_TRAIN_COLUMNS], options.patch_size)
    right = scene[:, N_TRAIN_COLUMNS:]
    test = ImagePatches(right, options.patch_size)
    for patches in (train, test):
        patches.channels = Channels(tuple(wavelengths), "µm")
    gigabytes = np.prod(train.shape) * train.dtype.itemsize / 1e9
    print(
        f"2. Patches: {train.shape[0]:,} of {train.shape[1]:,} values, {gigabytes:.1f} GB as a "
        "matrix, which is never stored"
    )
    model = DictionaryLearning(
        options.components, alpha=0.005, n_epochs=options.epochs, verbose=1, random_state=0
    )
    model.fit(train).set_params(verbose=0)
    codes = model.transform(test, sparse=True)
    again = test.reconstruct(codes, model.components_)
    seconds, density = model.history_["compute_seconds"][-1], usage_of(codes).density
    print(
        f"   {options.components} atoms after {seconds:.1f} s. A patch not learned from is "
        f"{density * options.components:.0f} numbers, its code, rather than {train.shape[1]:,}.\n"
        f"   From these codes, {explained_variance(right, again):.1%} of the variance of the right "
        "part of the scene is put together again."
    )
    return model, test, again


def explained_variance(image: Array, again: Array) -> float:
    """Return how much of the variance of pixels a reconstruction has."""
    missed = ((image - again) ** 2).sum(dtype=np.float64)
    return float(1 - missed / ((image - image.mean(axis=(0, 1))) ** 2).sum(dtype=np.float64))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--spectra", type=int, default=4, help="spectra to unmix pixels into")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the patches, at most")
    parser.add_argument("--components", type=int, default=100, help="atoms of patches")
    parser.add_argument("--patch-size", type=int, default=8, help="pixels along a side")
    return parser.parse_args(arguments)


def load_scene() -> tuple[Array, Array]:
    """Return the radiance of the scene, (145, 145, 200), and the wavelengths in micrometres.

    AVIRIS has 220 bands. Those in which water in the air absorbs all light are left out.
    """
    scene = datasets.load_indian_pines()
    wavelengths = np.array(scene.ticks[1])
    wavelengths[170:172] = 2212.22, 2222.15  # in tensorly they are 48 nm too long
    # The file has 500 times the radiance in W / (m² µm sr), plus 1000.
    radiance = (scene.tensor.astype(np.float32) - 1000) / 500
    return np.maximum(radiance, 0), wavelengths / 1000


def draw_scene(scene: Array, wavelengths: Array, again: Array) -> Any:
    """Draw the scene, and the right part beside its reconstruction and the error."""
    bands = [int(np.argmin(np.abs(wavelengths - at))) for at in (RED, GREEN, BLUE)]
    low, high = np.percentile(scene[:, :, bands], [1, 99], axis=(0, 1))

    def colors(image: Array) -> Array:
        return np.asarray(np.clip((image[:, :, bands] - low) / (high - low), 0, 1))

    right = scene[:, N_TRAIN_COLUMNS:]
    figure = plt.figure(figsize=(10.5, 4.6), layout="constrained")
    whole, before, after, error = figure.subplots(1, 4, width_ratios=(145, 40, 40, 52))
    whole.imshow(colors(scene))
    whole.axvline(N_TRAIN_COLUMNS - 0.5, color="white", linewidth=1.5)
    whole.set_title("The scene: learned from the left of the line")
    before.imshow(colors(right))
    before.set_title("right part")
    after.imshow(colors(again))
    after.set_title(f"reconstruction\n{explained_variance(right, again):.1%} of the variance")
    distance = np.sqrt(((right - again) ** 2).mean(axis=2)) / np.sqrt((right**2).mean())
    drawn = error.imshow(distance, cmap="magma", vmin=0)
    figure.colorbar(drawn, ax=error, shrink=0.8)
    error.set_title("error, relative\nto the mean pixel")
    for ax in (whole, before, after, error):
        ax.set_axis_off()
    return figure


def draw_spectra(model: NMF, scene: Array, wavelengths: Array) -> Any:
    """Draw the spectra against wavelength, and where each of them is in the scene."""
    n = len(model.components_)
    colors = plt.get_cmap("Dark2").colors[:n]
    figure = plt.figure(figsize=(12, 7.5), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    spectra, relative = top.subplots(1, 2)
    light = scene.mean(axis=(0, 1))
    for ax, values in ((spectra, model.components_), (relative, model.components_ / light)):
        plot_spectra(values, n_atoms=n, wavelengths=wavelengths, colors=colors, ax=ax)
        ax.set_xlabel("wavelength (µm)")
        ax.spines[["top", "right"]].set_visible(False)
    spectra.set_title("Learned spectra: radiance")
    spectra.set_ylabel("radiance, norm 1")
    relative.set_title("The same, divided by the mean spectrum of the scene")
    relative.set_ylabel("relative to the scene")
    relative.set_ylim(0, 1.1 * np.percentile(model.components_ / light, 99))
    relative.get_legend().remove()
    samples = pixels(scene, wavelengths)
    maps = samples.map(model.transform(samples))
    for j, ax in enumerate(np.ravel(bottom.subplots(1, n, squeeze=False))):
        ax.imshow(maps[:, :, j], cmap="gray", vmin=0, vmax=np.percentile(maps[:, :, j], 99.5))
        ax.set_title(f"where atom {j} is", color=colors[j % len(colors)])
        ax.set_axis_off()
    return figure


def draw_atoms(model: DictionaryLearning, test: ImagePatches) -> Any:
    """Draw the most used atoms of patches, in false colours, each with its mean spectrum."""
    order = usage_of(model.transform(test, sparse=True)).order
    figure = plt.figure(figsize=(11, 4), layout="constrained")
    ax = figure.add_subplot()
    plot_atoms(model, n_atoms=50, order=order, n_columns=10, ax=ax)
    ax.set_title(
        "Atoms of patches, most used first, with their mean spectra. Blue, green and red are the "
        "first, middle\nand last third of the bands.",
        fontsize="medium",
    )
    return figure


if __name__ == "__main__":
    main()
