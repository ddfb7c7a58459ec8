"""Predict ratings that were not given.

A matrix of ratings, people × things, is mostly unknown. Entries that are not stored count nowhere:
``missing="absent"``. What is common to all ratings of a person, and to all of a thing, is
subtracted first: ``center="both"``. The code of a person is their taste.

Squared penalties on codes and atoms count for every rating (``alpha_per="entry"``, ``atom_alpha``).
They keep people and things with few ratings near the offsets, and let atoms that are not needed
vanish: there may be more of them than factors in the data. The penalty and the number of epochs are
chosen by ratings that are held out; where atoms are many, few epochs fit less noise.

    python examples/ratings.py ratings.dat --output demo

The file has lines ``person::thing::rating``, as those of MovieLens (grouplens.org/datasets) have.
Without a file, ratings are made up.
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from somf import MatrixFactorization
from somf.data import Offsets
from somf.typing import Array

SCALE = 1e4
"""What makes the penalty on codes smaller, and that on atoms larger."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Read ratings, hold out a tenth, choose by another tenth, predict, print and draw."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    ratings = made_up() if options.file is None else read(options.file)
    n, p = ratings.shape
    print(f"{ratings.nnz} ratings of {n} people for {p} things, {ratings.nnz / n / p:.1%} of all")
    known, chosen_by, held_out = parts_of(ratings)

    choices = list(product(options.penalty, options.epochs))
    models = [fit(known, options.components, *choice) for choice in choices]
    errors = [rmse(chosen_by, model.impute(known)) for model in models]
    best = int(np.argmin(errors))
    predicted = models[best].impute(known)
    by_offsets = rmse(held_out, offsets_of(models[best], known))
    penalty, n_epochs = choices[best]
    print(f"The penalty is {penalty:g}, and there are {n_epochs} epochs")
    print(
        f"RMSE on held-out ratings: offsets alone {by_offsets:.4f}, "
        f"with codes {rmse(held_out, predicted):.4f}"
    )
    figure = draw(known, held_out, predicted, offsets_of(models[best], known))
    figure.savefig(options.output / "ratings.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: ratings.png")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="lines person::thing::rating")
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--penalty", type=float, nargs="+", default=[0.03, 0.05, 0.08, 0.12])
    parser.add_argument("--epochs", type=int, nargs="+", default=[2, 4, 12])
    parser.add_argument("--output", type=Path, default=Path("demo"))
    return parser.parse_args(arguments)


def read(path: Path) -> sp.coo_array:
    """Return the ratings of a file."""
    table = np.array([line.split("::")[:3] for line in path.read_text().splitlines()], dtype=float)
    person, thing = (np.unique(table[:, i], return_inverse=True)[1] for i in (0, 1))
    return sp.coo_array((table[:, 2], (person, thing)))


def made_up() -> sp.coo_array:
    """Return ratings from 1 to 5 that offsets, five factors and noise explain."""
    rng = np.random.default_rng(0)
    n, p = 1500, 800
    popularity = np.arange(1, p + 1) ** -0.6
    activity = rng.lognormal(0, 0.9, n)[:, None]
    person, thing = np.nonzero(
        rng.random((n, p)) < 0.06 * activity * popularity / popularity.mean()
    )
    rating = 3.5 + 0.4 * rng.standard_normal(n)[person] + 0.5 * rng.standard_normal(p)[thing]
    tastes, traits = rng.standard_normal((n, 5)), rng.standard_normal((p, 5))
    rating += 0.35 * (tastes[person] * traits[thing]).sum(axis=1)
    rating += 0.6 * rng.standard_normal(len(person))
    return sp.coo_array((np.clip(np.round(rating), 1, 5), (person, thing)), shape=(n, p))


def parts_of(ratings: sp.coo_array) -> tuple[sp.csr_array, sp.coo_array, sp.coo_array]:
    """Return ratings to learn from, a tenth to choose by, and a tenth to be judged by."""
    part = np.random.default_rng(1).integers(10, size=ratings.nnz)
    pieces = [
        sp.coo_array(
            (ratings.data[which], (ratings.row[which], ratings.col[which])), shape=ratings.shape
        )
        for which in (part > 1, part == 0, part == 1)
    ]
    return pieces[0].tocsr(), pieces[1], pieces[2]


def fit(
    known: sp.csr_array, n_components: int, penalty: float, n_epochs: int
) -> MatrixFactorization:
    """Return a model of ridge codes on things; ratings that are not stored are unknown.

    Only the product of both penalties counts, as long as atoms are inside of the unit ball. So that
    of codes is much smaller: codes are large, and atoms small.
    """
    return MatrixFactorization(
        n_components,
        alpha=penalty / SCALE,
        alpha_per="entry",
        atom_alpha=penalty * SCALE,
        l1_ratio=0.0,
        missing="absent",
        center="both",
        init="random",
        n_epochs=n_epochs,
        tol=0,
        random_state=0,
    ).fit(known)


def offsets_of(model: MatrixFactorization, known: sp.csr_array) -> Array:
    """Return what the mean, the person and the thing predict, without codes."""
    of_people = Offsets(model.offsets_).of_samples(known)
    predicted: Array = model.offsets_ + of_people[:, None]
    return predicted


def rmse(ratings: sp.coo_array, predicted: Array) -> float:
    """Return the root mean squared error of predictions."""
    left = ratings.data - predicted[ratings.row, ratings.col]
    return float(np.sqrt(np.mean(left**2)))


def draw(
    known: sp.csr_array, held_out: sp.coo_array, predicted: Array, by_offsets: Array
) -> Figure:
    """Draw the error against how many ratings a person has given."""
    counts = np.diff(known.indptr)[held_out.row]
    edges = np.unique(np.quantile(counts, np.linspace(0, 1, 9)))
    middle = [np.median(counts[(counts >= a) & (counts <= b)]) for a, b in pairwise(edges)]
    figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name, prediction in (("offsets alone", by_offsets), ("with codes", predicted)):
        squares = (held_out.data - prediction[held_out.row, held_out.col]) ** 2
        errors = [
            np.sqrt(squares[(counts >= a) & (counts <= b)].mean()) for a, b in pairwise(edges)
        ]
        ax.plot(middle, errors, "o-", label=name)
    ax.set(xlabel="known ratings of the person", ylabel="RMSE on held-out ratings", xscale="log")
    ticks = [round(x) for x in middle[::2]]
    ax.set_xticks(ticks, labels=map(str, ticks))
    ax.minorticks_off()
    ax.set_ylim(0, 1.1 * ax.get_ylim()[1])
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
