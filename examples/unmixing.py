"""Unmix a hyperspectral scene: spectra of materials, and maps of how much of each a pixel has.

The light from a pixel is a sum of the light from the materials in it. Atoms and codes that are not
negative find both: an atom is a spectrum, and its codes, put together to an image, are the map of
its abundance. The map of errors shows where the scene is not such a sum.

    python examples/unmixing.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from somf import NMF, ImagePatches
from somf.cli.scenes import indian_pines
from somf.plotting import plot_code_maps, plot_residual_map, plot_spectra
from somf.plotting.pictures import as_pictures


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn spectra, map them, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    scene = indian_pines()[: options.crop, : options.crop]
    scene /= scene.max()

    pixels = ImagePatches(
        scene, 1, center=False, scale=False
    )  # a sample is the spectrum of a pixel
    model = NMF(options.components, n_epochs=options.epochs, random_state=0).fit(pixels)
    abundances = model.transform(pixels)
    again = pixels.reconstruct(abundances, model.components_)
    error = np.linalg.norm(scene - again) / np.linalg.norm(scene)
    print(
        f"{pixels.shape[0]} pixels of {pixels.shape[1]} bands, {len(model.components_)} spectra\n"
        f"relative error: {error:.4f}"
    )

    order = np.argsort(-abundances.mean(axis=0))
    figure = plt.figure(figsize=(11, 10), layout="constrained")
    rows = [["maps", "maps"], ["scene", "error"], ["spectra", "spectra"]]
    axes = figure.subplot_mosaic(rows, height_ratios=[1, 1.6, 1])
    plot_spectra(model, n_atoms=len(order), order=order, ax=axes["spectra"])
    plot_code_maps(
        model, pixels, codes=abundances, order=order, n_columns=len(order), ax=axes["maps"]
    )
    axes["maps"].set_title("abundances", fontsize="medium")
    axes["scene"].imshow(as_pictures(scene[None])[0])
    axes["scene"].set_title("the scene in false colours", fontsize="medium")
    axes["scene"].set_axis_off()
    plot_residual_map(model, pixels, codes=abundances, ax=axes["error"])
    figure.savefig(options.output / "unmixing.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: unmixing.png")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--crop", type=int, default=145, help="pixels along a side of the scene")
    parser.add_argument("--components", type=int, default=6, help="number of spectra")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the pixels, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
