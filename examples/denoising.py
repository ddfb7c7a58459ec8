"""Remove noise from a photograph with a dictionary that is learned from the noisy photograph.

A patch of the clean photograph is a combination of few atoms, noise is not. The script learns atoms
from the patches of the noisy photograph, codes every patch with as few atoms as leave no more than
the noise, and averages each pixel over all patches that contain it. The clean photograph is used
only to measure the result, and that of blurring.

    python examples/denoising.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

from somf import DictionaryLearning, ImagePatches
from somf.data import noise_bound
from somf.inference.usage import usage_of
from somf.plotting import plot_atoms
from somf.typing import Array


def main(arguments: Sequence[str] | None = None) -> None:
    """Add noise, learn, remove the noise, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    clean = load_sample_image("china.jpg").mean(axis=2).astype(np.float32) / 255
    clean = clean[100 : 100 + options.crop, 200 : 200 + options.crop]
    rng = np.random.default_rng(0)
    noisy = clean + np.float32(options.noise) * rng.standard_normal(clean.shape, dtype=np.float32)

    # The code of pure noise on an atom is about as large as the noise. A larger alpha lets atoms
    # learn from structures only. The codes of the result have no penalty, which would make them too
    # small: orthogonal matching pursuit adds atoms until no more than the noise is left.
    patches = ImagePatches(noisy, options.patch_size, center=True, scale=False)
    model = DictionaryLearning(
        options.components,
        alpha=1.5 * options.noise,
        n_epochs=options.epochs,
        random_state=0,
    )
    left = noise_bound(options.noise, patches.shape[1])
    codes = model.fit(patches).transform(patches, max_error=left, sparse=True)
    denoised = np.clip(patches.reconstruct(codes, model.components_), 0, 1)

    before, after = psnr(noisy, clean), psnr(denoised, clean)
    blurred = max(psnr(gaussian_filter(noisy, width), clean) for width in np.arange(0.4, 2, 0.1))
    print(
        f"{patches.shape[0]} patches, {len(model.components_)} atoms\n"
        f"PSNR of the noisy picture: {before:.2f} dB\n"
        f"PSNR of the denoised one:  {after:.2f} dB\n"
        f"PSNR of the best blur:     {blurred:.2f} dB"
    )
    figure, axes = plt.subplots(2, 2, figsize=(10, 10), layout="constrained")
    titles = ("clean", f"noisy, {before:.1f} dB", f"denoised, {after:.1f} dB")
    for ax, picture, title in zip(axes.flat, (clean, noisy, denoised), titles, strict=False):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
        ax.set_title(title)
        ax.set_axis_off()
    order = usage_of(codes).order
    plot_atoms(model, n_atoms=100, order=order, n_columns=10, ax=axes[1, 1])
    axes[1, 1].set_title("atoms, most used first")
    figure.savefig(options.output / "denoising.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: denoising.png")


def psnr(picture: Array, clean: Array) -> float:
    """Return the peak signal-to-noise ratio, in decibels, of pictures from 0 to 1."""
    return float(-10 * np.log10(np.mean((picture - clean) ** 2)))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--crop", type=int, default=256, help="pixels along a side of the picture")
    parser.add_argument("--noise", type=float, default=0.1, help="its standard deviation")
    parser.add_argument("--components", type=int, default=128, help="number of atoms")
    parser.add_argument("--patch-size", type=int, default=8, help="pixels along a side")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the patches, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
