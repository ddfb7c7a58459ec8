"""``somf plot`` and ``somf report``: what a model looks like."""

import os
import re
from typing import Any

import click

from somf.cli.console import Console, examples, with_console
from somf.cli.files import check_free, force_option, replacing
from somf.cli.model import files_in_use, model_and_data, open_model
from somf.cli.opening import naming
from somf.cli.runfile import command_to_repeat
from somf.data import Source
from somf.estimators.base import MatrixFactorization

KINDS = {
    "atoms": "the atoms, most used first if there is DATA",
    "spectra": "some of them as spectra, or as curves",
    "history": "the objective while learning",
    "usage": "how often DATA uses atoms",
    "reconstructions": "some samples of DATA, and what is made of them",
}
NEEDS_DATA = ("usage", "reconstructions")
MOST_ATOMS = {"atoms": 64, "spectra": 6}


def shape_of_patch(value: Any) -> tuple[int, ...]:
    """Return two or three numbers given as 16x16 or 16x16x3."""
    if isinstance(value, tuple):  # click converts some values twice
        return value
    if re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", value) is None:
        raise click.BadParameter(f"{value!r} is not of the form 16x16 or 16x16x3.")
    return tuple(map(int, value.split("x")))


shape_option = click.option(
    "--shape",
    type=shape_of_patch,
    metavar="HxW[xC]",
    help="Height, width and channels of atoms that are pictures, where the model does not know.",
)


@click.command(
    epilog=examples(
        "somf plot scene.somf -o atoms.png",
        "somf plot scene.somf scene.npy --kind usage -o usage.png",
        "somf plot scene.somf scene.npy --kind reconstructions -o reconstructions.png",
        "somf plot scene.somf --kind history -o history.png",
    )
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="The picture to write, of any kind that matplotlib knows: .png, .pdf, .svg.",
)
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
    help="How many atoms to draw at most.  [default: 64, and 6 as spectra]",
)
@shape_option
@force_option
@with_console
@model_and_data(required=False)
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
    """Draw the atoms of MODEL, how they were learned, or what they make of DATA."""
    if kind in NEEDS_DATA and not data:
        raise click.UsageError(f"--kind {kind} takes DATA.")
    _check_can_be_drawn(output)
    check_free(output, force=force, beside=files_in_use(model, data, options))
    estimator, source = open_model(model, data, console, options)
    if kind == "history" and "objective" not in estimator.history_:
        raise ValueError(f"{model!r} has no history to draw: it was learned without --validation.")
    with naming(data, source), replacing(output) as name:
        _draw(estimator, source, kind, name, atoms, shape)
    console.result({"picture": output})


def _check_can_be_drawn(output: str) -> None:
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'somf[plot]'.") from error
    endings = sorted(FigureCanvasBase.get_supported_filetypes())
    if os.path.splitext(output)[1].lower().removeprefix(".") not in endings:
        raise click.BadParameter(
            f"{output!r} must end in one of .{', .'.join(endings)}.", param_hint="--output"
        )


def _draw(
    model: MatrixFactorization,
    source: Source | None,
    kind: str,
    output: str,
    n_atoms: int | None,
    shape: tuple[int, ...] | None,
) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from somf import plotting

    order = None
    if source is not None and kind in MOST_ATOMS:
        order = model.measure(source, with_gap=False).order
    with mpl.rc_context({"savefig.dpi": 150}):
        figure = Figure(layout="constrained")
        first, *others = figure.subplots(1, 2 if kind == "history" else 1, squeeze=False)[0]
        if kind in MOST_ATOMS:
            draw = plotting.plot_atoms if kind == "atoms" else plotting.plot_spectra
            draw(model, shape, n_atoms=n_atoms or MOST_ATOMS[kind], order=order, ax=first)
        elif kind == "history":
            plotting.plot_history(model, "n_samples_seen", ax=first)
            plotting.plot_history(model, ax=others[0])
        elif kind == "usage":
            plotting.plot_usage(model.transform(source, sparse=True), ax=first)
        else:
            plotting.plot_reconstructions(model, source, shape, ax=first)
        figure.savefig(output)


@click.command(
    epilog=examples(
        "somf report scene.somf -o report.html",
        "somf report scene.somf scene.npy --stride 2 -o with-data.html",
    )
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="The page to write, .html.",
)
@shape_option
@force_option
@with_console
@model_and_data(required=False)
def report(
    model: str,
    data: tuple[str, ...],
    output: str,
    shape: tuple[int, ...] | None,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Write a page about MODEL: one HTML file that needs nothing else.

    With DATA it says also how often atoms are used, the objective and the stationarity gap.
    """
    from somf.report import write_report

    toml = f"{model}.toml"
    check_free(output, force=force, beside=[toml, *files_in_use(model, data, options)])
    estimator, source = open_model(model, data, console, options)
    command = command_to_repeat(toml) if os.path.exists(toml) else None
    with naming(data, source), replacing(output) as name:
        write_report(estimator, name, data=source, command=command, patch_shape=shape)
    console.result({"report": output})
