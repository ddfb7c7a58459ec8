"""Phases of a spectrum image in HyperSpy: `decomposition` with an estimator of somf.

HyperSpy takes any estimator with the methods of scikit-learn as the algorithm of a decomposition.
Its navigator, its factors and its loadings then work as usual. Lazy signals are learned from chunk
by chunk, through `partial_fit`. The data is synthetic: three phases with characteristic lines on a
common background, with the noise of counting.

    pip install 'somf[hyperspy,plot]'
    python examples/hyperspy_nmf.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import hyperspy.api as hs
import numpy as np
from matplotlib import pyplot as plt

import somf
from somf.plotting import plot_spectra

LINES = ((0.52, 1.74), (0.52, 6.40, 7.06), (0.28, 2.31, 4.51))
"""Energies of the lines of each phase, in keV."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Decompose a spectrum image, and draw the spectra and the maps of its phases."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    signal, truth = spectrum_image(options.size, np.random.default_rng(0))
    model = somf.NMF(len(LINES), n_epochs=options.epochs, random_state=0)
    signal.decomposition(algorithm=model, output_dimension=len(LINES), print_info=False)
    maps = signal.get_decomposition_loadings().data
    found = matched(maps.reshape(len(LINES), -1), truth.reshape(-1, len(LINES)).T)
    for phase, atom in enumerate(found):
        similarity = np.corrcoef(maps[atom].ravel(), truth[..., phase].ravel())[0, 1]
        print(f"phase {phase}: atom {atom}, correlation of the maps {similarity:.3f}")

    # A signal is data, too: a fit knows the energies, and plots have them on their axis.
    alone = somf.NMF(len(LINES), n_epochs=options.epochs, random_state=0).fit(signal)
    figure, axes = plt.subplots(1, 1 + len(LINES), figsize=(12, 3), layout="constrained")
    plot_spectra(alone, ax=axes[0])
    for phase, (atom, ax) in enumerate(zip(found, axes[1:], strict=True)):
        ax.imshow(maps[atom])
        ax.set_title(f"phase {phase}: atom {atom}")
        ax.set_axis_off()
    figure.savefig(options.output / "hyperspy_nmf.png", dpi=150)


def spectrum_image(
    size: int, random: np.random.Generator
) -> tuple[hs.signals.Signal1D, np.ndarray]:
    """Return a spectrum image, and how much of each phase every pixel has."""
    energies = np.linspace(0.1, 10, 400)
    background = np.exp(-energies / 2)
    spectra = [
        background + sum(4 * np.exp(-(((energies - line) / 0.06) ** 2)) for line in lines)
        for lines in LINES
    ]
    y, x = np.mgrid[:size, :size] / size
    centres = ((0.3, 0.3), (0.3, 0.75), (0.75, 0.5))
    shares = np.stack([np.exp(-20 * ((y - b) ** 2 + (x - a) ** 2)) for a, b in centres], axis=-1)
    shares /= shares.sum(axis=-1, keepdims=True)
    counts = random.poisson(20 * shares @ np.array(spectra)).astype(np.float32)
    signal = hs.signals.Signal1D(counts)
    along = signal.axes_manager.signal_axes[0]
    along.name, along.units = "Energy", "keV"
    along.offset, along.scale = energies[0], energies[1] - energies[0]
    return signal, shares


def matched(maps: np.ndarray, truth: np.ndarray) -> list[int]:
    """Return the map that is most like each phase."""
    n = len(maps)
    likeness = np.corrcoef(maps, truth)[:n, n:]
    return [int(column.argmax()) for column in likeness.T]


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--size", type=int, default=64, help="pixels along a side")
    parser.add_argument("--epochs", type=int, default=30)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
