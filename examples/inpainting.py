"""Fill in what is missing of a hyperspectral scene: dead pixels, stripes, and bands in places.

The AVIRIS scene Indian Pines is damaged on purpose. The script learns atoms from the values that
are left of its patches, reconstructs every patch from the code of what is known of it, and averages
each missing value over all patches that contain it. The undamaged scene is used only to measure the
result, and that of three simple methods: the mean of the band, a mean of near pixels in the band,
and a line between the nearest bands of the pixel.

    python examples/inpainting.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from somf import DictionaryLearning, ImagePatches
from somf.optional import import_optional
from somf.typing import Array

plt = import_optional("matplotlib.pyplot", "demo", "This example")
datasets = import_optional("tensorly.datasets", "demo", "This example")

STRIDE = 2
"""Distance between neighbouring patches."""

RECTANGLES = ((0.2, 0.14), (0.55, 0.48))
"""Where bands are missing: upper left corners, as fractions of the height and width."""

HALF = 0.18
"""Half of the side of these rectangles, as a fraction."""

LOST_BANDS = (slice(20, 80), slice(100, 190))
"""The bands that are missing there."""

BANDS = (45, 140)
"""The bands that are drawn, one for each of the rectangles."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Damage the scene, learn, fill it in, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    scene = load_scene(options.crop, options.patch_size)
    is_lost = damage(scene.shape, np.random.default_rng(0))
    damaged = np.where(is_lost, np.nan, scene)

    # Bright bands shall not count more than dark ones.
    mean, deviation = np.nanmean(damaged, axis=(0, 1)), np.nanstd(damaged, axis=(0, 1))
    image = (damaged - mean) / deviation

    # NaN is unknown. A mean that is subtracted from a patch would depend on which bands it has.
    patches = ImagePatches(
        image, options.patch_size, STRIDE, center=False, scale=False, no_data="missing"
    )
    model = DictionaryLearning(
        options.components,
        alpha=0.1,
        reduction=4,
        n_epochs=options.epochs,
        missing="nan",
        random_state=0,
    )
    codes = model.fit(patches).transform(patches, sparse=True)  # of what is known
    filled = np.where(is_lost, patches.reconstruct(codes, model.components_), image)

    results = {
        "mean of the band": np.zeros_like(image),
        "near pixels": from_pixels(image),
        "near bands": from_bands(image),
        "dictionary": filled,
    }
    print(
        f"{is_lost.mean():.0%} of the values are missing, {patches.shape[0]} patches of "
        f"{patches.shape[1]} values, {len(model.components_)} atoms\nPSNR of missing values, from:"
    )
    for name, standardised in results.items():
        results[name] = np.where(is_lost, standardised * deviation + mean, scene)
        print(f"  {name + ':':18}{psnr(results[name], scene, is_lost):.2f} dB")
    figure = draw(scene, damaged, results)
    figure.savefig(options.output / "inpainting.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: inpainting.png")


def load_scene(crop: int, patch_size: int) -> Array:
    """Return a part of the scene, (height, width, 200), that patches cover."""
    side = crop - (crop - patch_size) % STRIDE
    return datasets.load_indian_pines().tensor[:side, :side].astype(np.float32)


def damage(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return the values to be lost."""
    height, width, n_bands = shape
    is_lost = rng.random(shape) < 0.05  # a detector that fails now and then
    is_lost[rng.random((height, width)) < 0.02] = True  # dead pixels
    for band in rng.choice(n_bands, n_bands // 4, replace=False):  # stripes in a quarter of bands
        is_lost[:, rng.choice(width, width // 12, replace=False), band] = True
    for column in rng.choice(width - 1, 3, replace=False):  # stripes in all bands
        is_lost[:, column : column + 2] = True
    for corner, bands in zip(RECTANGLES, LOST_BANDS, strict=True):
        rows, columns = (
            slice(int(start * size), int((start + 2 * HALF) * size))
            for start, size in zip(corner, shape, strict=False)
        )
        is_lost[rows, columns, bands] = True
    return is_lost


def from_pixels(image: Array) -> Array:
    """Return means of near pixels of the band, from no further away than necessary."""
    is_known, filled = ~np.isnan(image), np.zeros_like(image)
    for width in (16, 4, 1):
        total, weight = (
            gaussian_filter(values, (width, width, 0))
            for values in (np.where(is_known, image, 0), is_known.astype(image.dtype))
        )
        filled = np.where(weight > 0.1, total / np.maximum(weight, 0.1), filled)
    return filled


def from_bands(image: Array) -> Array:
    """Return a line between the nearest known bands of a pixel; without any, near pixels."""
    bands, filled = np.arange(image.shape[2]), from_pixels(image)
    for place in np.ndindex(image.shape[:2]):
        is_known = ~np.isnan(image[place])
        if is_known.any():
            filled[place] = np.interp(bands, bands[is_known], image[place][is_known])
    return filled


def psnr(picture: Array, truth: Array, where: Array) -> float:
    """Return the peak signal-to-noise ratio of values, in decibels; each band has its own peak."""
    errors = (picture - truth) / np.ptp(truth, axis=(0, 1))
    return float(-10 * np.log10(np.mean(errors[where] ** 2)))


def draw(scene: Array, damaged: Array, results: dict[str, Array]) -> Any:
    """Draw two bands before and after, and for each of them the spectrum of a pixel without it."""
    near, learned = results["near bands"], results["dictionary"]
    qualities = [psnr(cube, scene, np.isnan(damaged)) for cube in (near, learned)]
    pictures = {
        "damaged": damaged,
        f"from near bands, {qualities[0]:.1f} dB": near,
        f"from the dictionary, {qualities[1]:.1f} dB": learned,
        "truth": scene,
    }
    figure = plt.figure(figsize=(16, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 5, width_ratios=(1, 1, 1, 1, 1.35))
    colors = plt.get_cmap("gray").with_extremes(bad="tab:red")
    for row, (band, (top, left)) in enumerate(zip(BANDS, RECTANGLES, strict=True)):
        pixel = int((top + HALF) * len(scene)), int((left + HALF) * len(scene))
        low, high = np.percentile(scene[:, :, band], (1, 99))
        for column, (title, cube) in enumerate(pictures.items()):
            ax = figure.add_subplot(grid[row, column])
            ax.imshow(cube[:, :, band], cmap=colors, vmin=low, vmax=high)
            ax.set(xticks=[], yticks=[])
            ax.set_title(title if row == 0 else "")
            ax.set_ylabel(f"band {band}" if column == 0 else "")
            if column > 0:
                ax.plot(*pixel[::-1], "o", color="tab:red", markerfacecolor="none", markersize=10)
        ax = figure.add_subplot(grid[row, 4])
        is_lost = np.isnan(damaged[pixel])
        ax.plot(scene[pixel], color="0.6", linewidth=3, label="truth")
        ax.plot(np.where(is_lost, near[pixel], np.nan), "C0:", label="near bands")
        ax.plot(np.where(is_lost, learned[pixel], np.nan), "C3", label="dictionary")
        ax.set(title="the marked pixel" if row == 0 else "", xlabel="band", yticks=[])
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.legend(frameon=False)
    return figure


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--crop", type=int, default=145, help="pixels along a side of the scene")
    parser.add_argument("--components", type=int, default=32, help="number of atoms")
    parser.add_argument("--patch-size", type=int, default=5, help="pixels along a side")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the patches, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
