"""``somf plot`` and ``somf report``: what a model looks like."""

import os
from typing import Any

import click

from somf.cli.files import check_free, force_option
from somf.cli.opening import OF_THE_MODEL, Flags, data_options, naming, open_data
from somf.cli.talk import Talk, examples, talking
from somf.data import Source
from somf.estimators import MatrixFactorization
from somf.problems import load

KINDS = ("atoms", "history", "usage")


@click.command(
    epilog=examples(
        "somf plot scene.somf -o atoms.png",
        "somf plot scene.somf scene.npy --kind usage -o usage.png",
        "somf plot scene.somf --kind history -o history.png",
    )
)
@click.argument("model", type=click.Path(dir_okay=False))
@click.argument("data", nargs=-1)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="The picture to write, of any kind that matplotlib knows: .png, .pdf, .svg.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="atoms",
    show_default=True,
    help="What to draw: the atoms (most used first, if there is DATA), the objective while "
    "learning, or how often atoms are used (which takes DATA).",
)
@force_option
@talking
@data_options(OF_THE_MODEL)
def plot(
    model: str,
    data: tuple[str, ...],
    output: str,
    kind: str,
    force: bool,
    talk: Talk,
    **options: Any,
) -> None:
    """Draw the atoms of MODEL, how they were learned, or how DATA uses them."""
    if kind == "usage" and not data:
        raise click.UsageError("--kind usage takes DATA, whose codes are counted.")
    check_free(output, force=force)
    estimator = load(model).set_params(verbose=talk.verbose)
    source = open_data(data, Flags(**options), estimator) if data else None
    with naming(data, source):
        _draw(estimator, source, kind, output)
    talk.result({"picture": output})


def _draw(model: MatrixFactorization, source: Source | None, kind: str, output: str) -> None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'somf[plot]'.") from error
    from somf import plotting

    codes = None if source is None else model.transform(source, sparse=True)
    with mpl.rc_context({"savefig.dpi": 150}):
        figure = Figure(layout="constrained")
        ax = figure.add_subplot()
        if kind == "atoms":
            order = None if codes is None else (-abs(codes).sum(axis=0)).argsort()
            plotting.plot_atoms(model, order=order, ax=ax)
        elif kind == "history":
            plotting.plot_history(model, ax=ax)
        else:
            plotting.plot_usage(codes, ax=ax)
        figure.savefig(output)


@click.command(
    epilog=examples(
        "somf report scene.somf -o report.html",
        "somf report scene.somf scene.npy --stride 2 -o with-data.html",
    )
)
@click.argument("model", type=click.Path(dir_okay=False))
@click.argument("data", nargs=-1)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="The page to write, .html.",
)
@force_option
@talking
@data_options(OF_THE_MODEL)
def report(
    model: str, data: tuple[str, ...], output: str, force: bool, talk: Talk, **options: Any
) -> None:
    """Write a page about MODEL: one HTML file that needs nothing else.

    With DATA it says also how often atoms are used, the objective and the stationarity gap.
    """
    from somf.report import write_report

    check_free(output, force=force)
    estimator = load(model).set_params(verbose=talk.verbose)
    source = open_data(data, Flags(**options), estimator) if data else None
    toml = f"{model}.toml"
    command = f"somf fit --config {toml} --force" if os.path.exists(toml) else None
    with naming(data, source):
        write_report(estimator, output, data=source, command=command)
    talk.result({"report": output})
