"""Learn a dictionary of a hyperspectral scene, and look at it.

The AVIRIS scene Indian Pines shows 145 x 145 pixels of farmland in Indiana in 200 bands of light.
Its patches of 16 x 16 pixels have 51,200 values each, and there are 16,900 of them: 3.5 GB as a
matrix, cut out of an image of 17 MB when they are needed. An iteration looks at a part of the
values only, which is what makes learning fast; see --reduction.

    python examples/hyperspectral.py --output demo
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from somf import DictionaryLearning, ImagePatches
from somf.plotting import plot_atoms, plot_history, plot_spectra
from somf.typing import Array

try:
    from tensorly.datasets import load_indian_pines
except ImportError as error:
    raise SystemExit("The scene comes with tensorly: pip install 'somf[demo]'") from error

N_TRAIN_COLUMNS = 105
N_SPECTRA = 6


def main() -> None:
    """Learn, report, draw."""
    options = parse_options()
    options.output.mkdir(parents=True, exist_ok=True)
    image, wavelengths = load_scene()

    # Neighbouring patches overlap, so test patches must come from another part of the scene.
    train = ImagePatches(image[:, :N_TRAIN_COLUMNS], options.patch_size)
    test = ImagePatches(image[:, N_TRAIN_COLUMNS:], options.patch_size, stride=3)
    gigabytes = np.prod(train.shape) * train.dtype.itemsize / 1e9
    print(f"Indian Pines: {image.shape[0]} x {image.shape[1]} pixels, {image.shape[2]} bands")
    print(f"  to learn from: {train.shape[0]} patches of {train.shape[1]} values", end=" ")
    print(f"({gigabytes:.1f} GB, never stored), left {N_TRAIN_COLUMNS} columns")
    print(f"  to test on:    {test.shape[0]} patches, the other columns")

    model = DictionaryLearning(
        options.components,
        alpha=0.1,
        reduction=options.reduction,
        n_epochs=options.epochs,
        record_every=1200,
        verbose=1,
        random_state=0,
    )
    model.fit(train, validation=test)

    # The codes of the test patches tell which atoms matter.
    codes = model.transform(test)
    usage = np.abs(codes).mean(axis=0)
    order = np.argsort(-usage)
    objective, seconds = model.history_["objective"], model.history_["compute_seconds"]
    print(f"Test objective: {objective[0]:.4f} with patches as atoms,", end=" ")
    print(f"{objective[-1]:.4f} after {seconds[-1]:.1f} s of learning")
    print(f"Codes of test patches: {np.mean(codes != 0):.1%} are not zero", end=" ")
    print(f"({np.count_nonzero(codes) / len(codes):.1f} atoms per patch)")
    print(f"Atoms in use: {np.count_nonzero(usage)} of {len(usage)}")

    draw_atoms(model.components_, train.patch_shape, order, wavelengths).savefig(
        options.output / "atoms.png", dpi=150
    )
    draw_curve(model).savefig(options.output / "curve.png", dpi=150)
    model.save(options.output / "model.somf")
    print(f"Pictures and model: {', '.join(str(path) for path in outputs)}")
