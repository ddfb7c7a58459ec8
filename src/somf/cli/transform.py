"""``somf transform``: write the codes of samples."""

from typing import Any

import click

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.data_options import DataOptions, weights_option
from somf.cli.errors import naming_files
from somf.cli.open_data import open_weights
from somf.cli.open_model import input_files, model_and_data_arguments, open_model_and_data
from somf.cli.output import check_output, force_option, output_option
from somf.data.formats.kinds import ending_of
from somf.inference.output import WRITERS, SparseCodes, codes_file


@command(
    "somf transform scene.somf scene.npy -o codes.npz",
    "somf transform rows.somf rows.npy -o codes.npy",
)
@output_option("The file to write: .npy, .npz (a CSR matrix for scipy.sparse.load_npz) or .zarr.")
@click.option(
    "--max-atoms",
    type=click.IntRange(min=1),
    help="Code by orthogonal matching pursuit, with at most so many atoms of a sample, rather than "
    "by the penalty.",
)
@click.option(
    "--max-error",
    type=click.FloatRange(min=0),
    help="Code by orthogonal matching pursuit, until the Euclidean norm of what is left of a "
    "sample is not larger.",
)
@weights_option
@force_option
@console_options
@model_and_data_arguments(needs_data=True)
def transform(
    model: str,
    data: tuple[str, ...],
    output: str,
    max_atoms: int | None,
    max_error: float | None,
    weights: str | None,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Write the codes of DATA on the atoms of MODEL.

    A code has one number per atom. If MODEL was learned from patches, DATA is an image, and its
    patches are cut in the same way. Codes are computed and written in chunks.
    """
    if ending_of(output) not in WRITERS:
        raise click.UsageError(f"--output must end in .npy, .npz or .zarr, got {output!r}.")
    inputs = [*input_files(model, data, options), weights]
    reading = DataOptions.found_in(options)
    check_output(output, force=force, inputs=inputs, is_folder=ending_of(output) == ".zarr")
    estimator, source = open_model_and_data(model, data, console, options)
    assert source is not None
    counts = open_weights(weights, reading, estimator)
    shape = (source.shape[0], len(estimator.components_))
    limits: Any = {"max_atoms": max_atoms, "max_error": max_error}
    with naming_files(data, source), codes_file(output, shape, estimator.components_.dtype) as out:
        if isinstance(out, SparseCodes):
            out.append(estimator.transform(source, weights=counts, sparse=True, **limits))
        else:
            estimator.transform(source, out=out.rows, weights=counts, **limits)
    console.print_facts({"codes": output, "samples": shape[0], "atoms": shape[1]})
