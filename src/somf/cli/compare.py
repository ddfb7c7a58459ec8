"""``somf compare``: match the atoms of two models."""

from typing import Any

import click

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.output import check_output, force_option
from somf.cli.plot import picture_file, picture_format, shape_option
from somf.errors import DataError
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load
from somf.inference.matching import Matches, match_atoms

MOST_ROWS = 20
"""The default of --pairs."""

SIMILAR = 0.9
"""The similarity from which on two atoms are called nearly the same."""


@command(
    "somf compare scene.somf longer.somf",
    "somf compare scene.somf longer.somf -o pairs.png",
)
@click.argument("one", type=click.Path(dir_okay=False))
@click.argument("other", type=click.Path(dir_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="A plot of the pairs to write, in any format of matplotlib: .png, .pdf, .svg.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    default=MOST_ROWS,
    show_default=True,
    help="The largest number of pairs to print and draw; --json prints all.",
)
@shape_option
@force_option
@console_options
def compare(
    one: str,
    other: str,
    output: str | None,
    pairs: int,
    shape: tuple[int, ...] | None,
    force: bool,
    console: Console,
) -> None:
    """Match the atoms of the models ONE and OTHER, one to one.

    The order of atoms has no meaning, so atoms are matched by their similarity, the cosine of the
    angle between them: 1 if two atoms are the same, and nearly the same from 0.9 on. Models of the
    same data with other seeds show which atoms can be trusted.
    """
    file_format = None if output is None else picture_format(output)
    if output is not None:
        check_output(output, force=force, inputs=[one, other])
    models = load(one), load(other)
    n_features = [model.n_features_in_ for model in models]
    if n_features[0] != n_features[1]:
        raise DataError(
            f"{other!r} must have {n_features[0]} features like {one!r}, got {n_features[1]}."
        )
    found = match_atoms(*models)
    if output is not None and file_format is not None:
        with picture_file(output, file_format) as ax:
            _draw(models, found, pairs, shape, ax)
    rows = [
        {"atom_of_one": int(i), "atom_of_other": int(j), "similarity": float(similarity)}
        for (i, j), similarity in zip(found.pairs, found.similarity, strict=True)
    ]
    shown = rows if console.as_json else rows[:pairs]
    console.print_table(_summary(found, output), shown)
    if len(shown) < len(rows):
        console.print(f"… and {len(rows) - len(shown)} more pairs, less similar")


def _draw(
    models: tuple[MatrixFactorization, MatrixFactorization],
    found: Matches,
    n_pairs: int,
    shape: tuple[int, ...] | None,
    ax: Any,
) -> None:
    from somf.plotting import plot_matches

    plot_matches(*models, shape, matches=found, n_pairs=n_pairs, ax=ax)


def _summary(found: Matches, output: str | None) -> dict[str, Any]:
    return {
        "pairs": len(found.pairs),
        "mean_similarity": found.mean,
        "nearly_the_same": int((found.similarity >= SIMILAR).sum()),
        "unmatched_of_one": len(found.unmatched[0]) or None,
        "unmatched_of_other": len(found.unmatched[1]) or None,
        "picture": output,
    }
