"""``somf transform`` and ``somf score``: what a model makes of data."""

import os
from typing import Any

import click

from somf.cli.console import Console, examples, with_console
from somf.cli.files import check_free, force_option, replacing
from somf.cli.model import files_in_use, model_and_data, open_model
from somf.cli.opening import naming


@click.command(
    epilog=examples(
        "somf transform scene.somf scene.npy -o codes.npz",
        "somf transform rows.somf rows.npy -o codes.npy",
    )
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(),
    help="The file to write: .npy, .npz (sparse, as of scipy.sparse.save_npz) or .zarr.",
)
@force_option
@with_console
@model_and_data(required=True)
def transform(
    model: str, data: tuple[str, ...], output: str, force: bool, console: Console, **options: Any
) -> None:
    """Write the codes of DATA on the atoms of MODEL, a chunk at a time.

    A model that was learned from patches cuts patches in the same way out of an image.
    """
    kind = os.path.splitext(output)[1].lower()
    if kind not in (".npy", ".npz", ".zarr"):
        raise click.BadParameter(
            f"{output!r} must end in .npy, .npz or .zarr.", param_hint="--output"
        )
    check_free(output, force=force, beside=files_in_use(model, data, options))
    estimator, source = open_model(model, data, console, options)
    with naming(data, source), replacing(output) as name:
        shape = estimator.transform(source, out=name, sparse=kind == ".npz").shape
    console.result({"codes": output, "samples": int(shape[0]), "atoms": int(shape[1])})


@click.command(
    epilog=examples(
        "somf score scene.somf scene.npy",
        "somf score rows.somf rows.npy --gap --json",
    )
)
@click.option(
    "--gap",
    is_flag=True,
    help="Compute also the stationarity gap, for which codes are more precise.",
)
@with_console
@model_and_data(required=True)
def score(model: str, data: tuple[str, ...], gap: bool, console: Console, **options: Any) -> None:
    """Measure how well MODEL explains DATA, and with how many atoms.

    The objective is the mean over samples of what learning minimises. The stationarity gap says
    how far the atoms are from a stationary point of the objective on this data.
    """
    estimator, source = open_model(model, data, console, options)
    with naming(data, source):
        found = estimator.measure(source, with_gap=gap)
    n_atoms = len(found.usage)
    console.result(
        {
            "samples": found.n_samples,
            "objective": found.objective,
            "density": found.density,
            "atoms_per_sample": found.density * n_atoms,
            "atoms_used": n_atoms - found.n_unused,
            "atoms": n_atoms,
            "stationarity_gap": found.stationarity_gap,
        }
    )
