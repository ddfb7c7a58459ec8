"""``somf demo``: run the other commands on a real scene."""

import os
import shlex

import click
import numpy as np

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.output import check_output, force_option
from somf.cli.scenes import indian_pines
from somf.cli.values import size
from somf.estimators.loading import load

N_TRAINING_COLUMNS = 105
"""Columns of the scene to learn from. The other 40 are the test set."""


@command("somf demo --patches 4x4 --components 20 -o demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False),
    default="demo",
    show_default=True,
    help="The folder to write to.",
)
@click.option(
    "--patches",
    type=size,
    metavar="HxW",
    default="16x16",
    show_default=True,
    help="Height and width of the patches.",
)
@click.option(
    "--components",
    "n_components",
    type=int,
    default=100,
    show_default=True,
    help="Number of atoms.",
)
@click.option(
    "--reduction",
    type=float,
    default=12.0,
    show_default=True,
    help="An iteration uses one in so many features.",
)
@force_option
@console_options
def demo(
    output: str,
    patches: tuple[int, int],
    n_components: int,
    reduction: float,
    force: bool,
    console: Console,
) -> None:
    """Learn a dictionary of the AVIRIS scene Indian Pines, and draw it.

    The scene has 145 x 145 pixels of farmland in 200 spectral bands. The model is learned from
    patches of the left part, and tested on patches of the right part. The demo prints each command
    before it runs it.
    """
    names = ("left.npy", "right.npy", "left.somf", "atoms.png", "report.html")
    left, right, model, picture, page = (os.path.join(output, name) for name in names)
    scene = indian_pines()
    os.makedirs(output, exist_ok=True)
    check_output(left, right, force=force)
    # Neighbouring patches overlap, so the test set must come from another part of the scene.
    np.save(left, scene[:, :N_TRAINING_COLUMNS])
    np.save(right, scene[:, N_TRAINING_COLUMNS:])
    height, width = patches
    training = f"--patches {height}x{width} --components {n_components} --reduction {reduction:g}"
    testing = ("--epochs", "1", "--record-every", "2000", "--validation", right)
    _run(console, force, "info", left)
    _run(console, force, "fit", left, *training.split(), *testing, "-o", model)
    _run(console, force, "score", model, right)
    _run(console, force, "plot", model, right, "-o", picture)
    _run(console, force, "report", model, right, "-o", page)
    if console.as_json:
        objective = load(model).history_["objective"][-1]
        console.print_facts({"folder": output, "model": model, "objective": objective})


def _run(console: Console, force: bool, *arguments: str) -> None:
    """Print a command, and run it."""
    console.print(f"\n$ {shlex.join(('somf', *arguments))}")
    parent = click.get_current_context().parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    subcommand = parent.command.commands[arguments[0]]
    more = ["--quiet"] if console.quiet or console.as_json else []
    more += ["--force"] if force and "-o" in arguments else []
    with subcommand.make_context(arguments[0], [*arguments[1:], *more], parent=parent) as context:
        subcommand.invoke(context)
