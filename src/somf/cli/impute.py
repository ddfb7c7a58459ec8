"""``somf impute``: write samples with their unknown entries filled in."""

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
from somf.inference.output import DenseCodes, codes_file

ENDINGS = (".npy", ".zarr")
"""Kinds of files that can be written."""


@command("somf impute ratings.somf ratings.npz -o filled.npy")
@output_option("The file to write: .npy or .zarr, a dense matrix.")
@weights_option
@force_option
@console_options
@model_and_data_arguments(needs_data=True)
def impute(
    model: str,
    data: tuple[str, ...],
    output: str,
    weights: str | None,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Write DATA with its unknown entries filled in by MODEL.

    MODEL was learned with --missing nan or --missing absent, which says what is unknown in DATA.
    Entries that are known stay as they are. Samples are computed and written in chunks.
    """
    if ending_of(output) not in ENDINGS:
        raise click.UsageError(f"--output must end in .npy or .zarr, got {output!r}.")
    inputs = [*input_files(model, data, options), weights]
    reading = DataOptions.found_in(options)
    check_output(output, force=force, inputs=inputs, is_folder=ending_of(output) == ".zarr")
    estimator, source = open_model_and_data(model, data, console, options)
    assert source is not None
    counts = open_weights(weights, reading, estimator)
    with (
        naming_files(data, source),
        codes_file(output, source.shape, estimator.components_.dtype) as out,
    ):
        assert isinstance(out, DenseCodes)
        estimator.impute(source, out=out.rows, weights=counts)
    console.print_facts({"filled": output, "samples": source.shape[0], "features": source.shape[1]})
