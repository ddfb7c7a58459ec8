"""``somf score``: measure how well a model explains samples."""

from typing import Any

import click

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.data_options import DataOptions, weights_option
from somf.cli.errors import naming_files
from somf.cli.open_data import open_weights
from somf.cli.open_model import model_and_data_arguments, open_model_and_data


@command(
    "somf score scene.somf scene.npy",
    "somf score rows.somf rows.npy --gap --json",
)
@click.option(
    "--gap",
    is_flag=True,
    help="Compute also the stationarity gap. This needs more precise codes, and more time.",
)
@weights_option
@console_options
@model_and_data_arguments(needs_data=True)
def score(
    model: str,
    data: tuple[str, ...],
    weights: str | None,
    gap: bool,
    console: Console,
    **options: Any,
) -> None:
    """Measure how well MODEL explains DATA, and with how many atoms.

    The explained variance is 1 for perfect reconstructions, and 0 if they are as far from samples
    as their mean is; the relative error is the norm of all errors over that of all samples. The
    objective is what a fit minimises, as a mean over the samples: lower is better. The
    stationarity gap is how far the atoms are from a stationary point of the objective on DATA.
    """
    reading = DataOptions.found_in(options)
    estimator, source = open_model_and_data(model, data, console, options)
    counts = open_weights(weights, reading, estimator)
    with naming_files(data, source):
        found = estimator.measure(source, weights=counts, with_gap=gap)
    n_atoms = len(found.usage)
    console.print_facts(
        {
            "samples": found.n_samples,
            "objective": found.objective,
            "explained_variance": found.explained_variance,
            "relative_error": found.relative_error,
            "density": found.density,
            "atoms_per_sample": found.density * n_atoms,
            "atoms_used": n_atoms - found.n_unused,
            "atoms": n_atoms,
            "stationarity_gap": found.stationarity_gap,
        }
    )
