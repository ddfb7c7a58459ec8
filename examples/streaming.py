"""Learn from a stream of samples, and save the model in between.

Samples come in portions and are not kept; their number need not be known in advance. `partial_fit`
learns from each portion. A model that is saved with its state continues later, also in another
process, as if it had not been interrupted. In this example the stream changes half-way, from a
photograph of a temple to one of a flower. Then the objective on the flower goes down.

    python examples/streaming.py --output demo
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image

import somf
from somf.typing import Array


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn from portions, save and load the model half-way, draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "stream.somf"
    names = ("china.jpg", "flower.jpg")
    rng = np.random.default_rng(0)
    held_out = [next(portions(name, 500, rng)) for name in names]

    model = somf.DictionaryLearning(options.components, alpha=0.1, random_state=0)
    curves: list[list[float]] = []
    for name in names:
        for _, X in zip(range(options.portions), portions(name, options.size, rng), strict=False):
            model.partial_fit(X)
            curves.append([model.objective(samples) for samples in held_out])
        model.save(path, state=True)  # the process may end here
        model = somf.load(path)

    seen = options.size * np.arange(1, len(curves) + 1)
    figure = plt.figure(figsize=(7, 4), layout="constrained")
    ax = figure.add_subplot()
    for name, curve in zip(names, np.transpose(curves), strict=True):
        ax.plot(seen, curve, marker="o", markersize=3, label=f"on patches of {name}")
        at_change, at_end = curve[options.portions - 1], curve[-1]
        print(
            f"Objective on {name}: {at_change:.4f} when the stream changes, {at_end:.4f} at the end"
        )
    ax.axvline(seen[options.portions - 1], color="0.5", linestyle="--", linewidth=1)
    ax.set_xlabel(f"samples seen; from the dashed line on, patches of {names[1]}")
    ax.set_ylabel("objective")
    ax.legend()
    figure.savefig(options.output / "streaming.png", dpi=110)
    plt.close(figure)
    print(f"{model.n_samples_seen_} samples seen. In {options.output}: streaming.png, {path.name}")


def portions(name: str, size: int, rng: np.random.Generator, side: int = 8) -> Iterator[Array]:
    """Yield random patches of a photograph, `size` at a time, without end."""
    image = load_sample_image(name).astype(np.float32)
    patches = somf.ImagePatches(image, side)
    while True:
        yield patches.rows(rng.integers(0, patches.shape[0], size))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--components", type=int, default=50, help="number of atoms")
    parser.add_argument("--portions", type=int, default=20, help="portions of each photograph")
    parser.add_argument("--size", type=int, default=500, help="samples in a portion")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
