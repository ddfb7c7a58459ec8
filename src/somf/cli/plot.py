"""``somf plot``: draw a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.errors import naming_files
from somf.cli.open_data import PATCH_HINT
from somf.cli.open_model import input_files, model_and_data_arguments, open_model_and_data
from somf.cli.output import check_output, force_option, output_option
from somf.cli.values import patch_shape
from somf.data import ImagePatches, Source
from somf.data.formats.kinds import ending_of
from somf.estimators.base import MatrixFactorization
from somf.files.atomic import atomic_write
from somf.optional import import_optional

KINDS = {
    "atoms": "the atoms, as pictures or curves, most used first if there is DATA",
    "spectra": "a few atoms as spectra or curves, on common axes",
    "history": "the objective during the fit",
    "usage": "how many samples of DATA use each atom",
    "reconstructions": "some samples of DATA beside their reconstructions",
    "maps": "where in the image DATA each atom is used",
    "residuals": "where the image DATA is explained badly",
}
"""The values of --kind, with what each draws."""

NEEDS_DATA = ("usage", "reconstructions", "maps", "residuals")
"""Kinds that need DATA."""

IMAGE_KINDS = ("maps", "residuals")
"""Kinds that need DATA to be an image, of which patches are cut."""

DEFAULT_ATOMS = {"atoms": 64, "spectra": 6, "maps": 12}
"""Kinds that draw a number of atoms, with the default of --atoms."""

PURPOSE = "somf plot"
"""What needs matplotlib, in the error if it is not installed."""

DOTS_PER_INCH = 150
"""The resolution of plots in pixels."""

shape_option = click.option(
    "--shape",
    type=patch_shape,
    metavar="HxW[xC]",
    help="Height, width and channels of the atoms, to draw them as pictures. Not needed for a "
    "model that was learned from patches.",
)
"""The option --shape."""


@command(
    "somf plot scene.somf -o atoms.png",
    "somf plot scene.somf scene.npy --kind usage -o usage.png",
    "somf plot scene.somf scene.npy --kind reconstructions -o reconstructions.png",
    "somf plot scene.somf scene.npy --kind maps -o maps.png",
    "somf plot scene.somf --kind history -o history.png",
)
@output_option("The plot to write, in any format of matplotlib: .png, .pdf, .svg.")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="atoms",
    show_default=True,
    help=f"What to draw: {'; '.join(f'{kind}: {what}' for kind, what in KINDS.items())}.",
)
@click.option(
    "--atoms",
    type=click.IntRange(min=1),
    help="The largest number of atoms to draw.  [default: 64, 6 with --kind spectra, "
    "12 with --kind maps]",
)
@shape_option
@force_option
@console_options
@model_and_data_arguments(needs_data=False)
def plot(
    model: str,
    data: tuple[str, ...],
    output: str,
    kind: str,
    atoms: int | None,
    shape: tuple[int, ...] | None,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Draw the atoms of MODEL, its history, or how it codes DATA."""
    if kind in NEEDS_DATA and not data:
        raise click.UsageError(f"--kind {kind} needs DATA.")
    file_format = picture_format(output)
    check_output(output, force=force, inputs=input_files(model, data, options))
    estimator, source = open_model_and_data(model, data, console, options)
    mpl = import_optional("matplotlib", "plot", PURPOSE)
    with naming_files(data, source), mpl.rc_context({"savefig.dpi": DOTS_PER_INCH}):
        figure = _draw(estimator, source, kind, atoms, shape)
        with atomic_write(output) as temporary:
            figure.savefig(temporary, format=file_format)
    console.print_facts({"picture": output})


@contextmanager
def picture_file(output: str, file_format: str) -> Iterator[Any]:
    """Give the axes of a figure, and write it to a file at the end of the context."""
    figure = import_optional("matplotlib.figure", "plot", PURPOSE).Figure(layout="constrained")
    mpl = import_optional("matplotlib", "plot", PURPOSE)
    with mpl.rc_context({"savefig.dpi": DOTS_PER_INCH}):
        yield figure.add_subplot()
        with atomic_write(output) as temporary:
            figure.savefig(temporary, format=file_format)


def picture_format(output: str) -> str:
    """Return the format of matplotlib for the name of a file."""
    backends = import_optional("matplotlib.backend_bases", "plot", PURPOSE)
    formats = sorted(backends.FigureCanvasBase.get_supported_filetypes())
    file_format = ending_of(output).removeprefix(".")
    if file_format not in formats:
        raise click.UsageError(
            f"--output must end in one of .{', .'.join(formats)}, got {output!r}."
        )
    return file_format


def _draw(
    model: MatrixFactorization,
    source: Source | None,
    kind: str,
    n_atoms: int | None,
    shape: tuple[int, ...] | None,
) -> Any:
    """Return the figure."""
    from somf import plotting

    figure = import_optional("matplotlib.figure", "plot", PURPOSE).Figure(layout="constrained")
    first, *others = figure.subplots(1, 2 if kind == "history" else 1, squeeze=False)[0]
    if kind in IMAGE_KINDS:
        if not isinstance(source, ImagePatches):
            raise click.UsageError(f"--kind {kind} needs patches of an image: {PATCH_HINT}.")
        if kind == "residuals":
            plotting.plot_residual_map(model, source, ax=first)
        else:
            n_maps = n_atoms or DEFAULT_ATOMS[kind]
            plotting.plot_code_maps(model, source, n_atoms=n_maps, ax=first)
    elif kind in DEFAULT_ATOMS:
        order = None
        if source is not None:
            order = model.measure(source, with_gap=False).order
        draw = plotting.plot_atoms if kind == "atoms" else plotting.plot_spectra
        draw(model, shape, n_atoms=n_atoms or DEFAULT_ATOMS[kind], order=order, ax=first)
    elif kind == "history":
        plotting.plot_history(model, "n_samples_seen", ax=first)
        plotting.plot_history(model, ax=others[0])
    elif kind == "usage":
        plotting.plot_usage(model.transform(source, sparse=True), ax=first)
    else:
        plotting.plot_reconstructions(model, source, shape, ax=first)
    return figure
