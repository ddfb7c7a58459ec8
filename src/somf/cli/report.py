"""``somf report``: write a page about a model."""

import os
from typing import Any

from somf.cli.command import command
from somf.cli.config_file import command_to_repeat
from somf.cli.console import Console, console_options
from somf.cli.errors import naming_files
from somf.cli.open_model import input_files, model_and_data_arguments, open_model_and_data
from somf.cli.output import check_output, force_option, output_option
from somf.cli.plot import shape_option


@command(
    "somf report scene.somf -o report.html",
    "somf report scene.somf scene.npy --stride 2 -o with-data.html",
)
@output_option("The page to write, .html.")
@shape_option
@force_option
@console_options
@model_and_data_arguments(needs_data=False)
def report(
    model: str,
    data: tuple[str, ...],
    output: str,
    shape: tuple[int, ...] | None,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Write a page about MODEL: one HTML file that needs no network.

    The page shows the atoms, the history of the fit, the parameters, where the model comes from and
    the command that repeats it. With DATA it shows also the explained variance, reconstructions,
    how often each atom is used, and, for images, maps of codes and errors.
    """
    from somf.report import write_report

    toml = f"{model}.toml"
    check_output(output, force=force, inputs=[toml, *input_files(model, data, options)])
    estimator, source = open_model_and_data(model, data, console, options)
    repeat = command_to_repeat(toml) if os.path.exists(toml) else None
    with naming_files(data, source):
        write_report(estimator, output, data=source, command=repeat, patch_shape=shape)
    console.print_facts({"report": output})
