"""``somf transform`` and ``somf score``: what a model makes of data."""

import os
from collections.abc import Callable
from typing import Any

import click

from somf.cli.files import check_free, force_option, replacing
from somf.cli.opening import OF_THE_MODEL, Flags, data_options, naming, open_data
from somf.cli.parameters import Function, option_for, with_options
from somf.cli.talk import Talk, examples, talking
from somf.data import Source
from somf.estimators import MatrixFactorization
from somf.measurement import Measurement
from somf.problems import load


def model_and_data(command: Function) -> Callable[..., Any]:
    """Give a command arguments for a model and data, and options for how to use the model."""
    where = (
        option_for(name, MatrixFactorization, default=OF_THE_MODEL)
        for name in ("device", "n_threads")
    )
    command = with_options(*where)(data_options(OF_THE_MODEL)(command))
    command = click.argument("data", nargs=-1, required=True)(command)
    return click.argument("model", type=click.Path(dir_okay=False))(command)


def open_both(
    model: str, data: tuple[str, ...], talk: Talk, options: dict[str, Any]
) -> tuple[MatrixFactorization, Source]:
    """Return a model, set to how it shall be used, and data as the model wants it."""
    estimator = load(model).set_params(checkpoint=None, verbose=talk.verbose)
    flags = Flags(**{name: options.pop(name) for name in vars(Flags())})
    estimator.set_params(**{name: value for name, value in options.items() if value is not None})
    return estimator, open_data(data, flags, estimator)


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
@talking
@model_and_data
def transform(
    model: str, data: tuple[str, ...], output: str, force: bool, talk: Talk, **options: Any
) -> None:
    """Write the codes of DATA on the atoms of MODEL, a chunk at a time.

    A model that was learned from patches cuts patches in the same way out of an image.
    """
    kind = os.path.splitext(output)[1].lower()
    if kind not in (".npy", ".npz", ".zarr"):
        raise click.BadParameter(
            f"{output!r} must end in .npy, .npz or .zarr.", param_hint="--output"
        )
    check_free(output, force=force)
    estimator, source = open_both(model, data, talk, options)
    with naming(data, source), replacing(output) as name:
        shape = estimator.transform(source, out=name, sparse=kind == ".npz").shape
    talk.result({"codes": output, "samples": int(shape[0]), "atoms": int(shape[1])})


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
@talking
@model_and_data
def score(model: str, data: tuple[str, ...], gap: bool, talk: Talk, **options: Any) -> None:
    """Measure how well MODEL explains DATA, and with how many atoms.

    The objective is the mean over samples of what learning minimises. The stationarity gap says
    how far the atoms are from a stationary point of the objective on this data.
    """
    estimator, source = open_both(model, data, talk, options)
    with naming(data, source):
        found = Measurement.of(estimator, source, with_gap=gap)
    n_atoms = len(found.usage)
    talk.result(
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
