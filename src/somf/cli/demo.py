"""``somf demo``: the other commands, on a real scene."""

import os
import shlex

import click
import numpy as np

from somf.cli.console import Console, examples, with_console
from somf.cli.files import check_free, force_option
from somf.cli.opening import size
from somf.cli.scenes import indian_pines
from somf.estimators.loading import load

N_LEFT = 105
"""Columns of the scene to learn from; the others are to test on."""


@click.command(
    epilog=examples(
        "somf demo --patches 4x4 --components 20 -o demo",
    )
)
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
    help="Size of patches.",
)
@click.option("--components", type=int, default=100, show_default=True, help="Number of atoms.")
@click.option("--reduction", type=float, default=12.0, show_default=True, help="As of fit.")
@force_option
@with_console
def demo(
    output: str,
    patches: tuple[int, int],
    components: int,
    reduction: float,
    force: bool,
    console: Console,
) -> None:
    """Learn a dictionary of the AVIRIS scene Indian Pines, and look at it.

    It shows 145 x 145 pixels of farmland in 200 bands of light. Patches of the left part are
    learned from, those of the right part tested on. Every step is a command, which is shown.
    """
    names = ("left.npy", "right.npy", "left.somf", "atoms.png", "report.html")
    left, right, model, picture, page = (os.path.join(output, name) for name in names)
    scene = indian_pines()
    os.makedirs(output, exist_ok=True)
    check_free(left, right, force=force)
    # Neighbouring patches overlap, so those to test on must come from another part of the scene.
    np.save(left, scene[:, :N_LEFT])
    np.save(right, scene[:, N_LEFT:])
    height, width = patches
    learning = f"--patches {height}x{width} --components {components} --reduction {reduction:g}"
    testing = ("--record-every", "2000", "--validation", right)
    _run(console, force, "info", left)
    _run(console, force, "fit", left, *learning.split(), *testing, "-o", model)
    _run(console, force, "score", model, right)
    _run(console, force, "plot", model, right, "-o", picture)
    _run(console, force, "report", model, right, "-o", page)
    if console.as_json:
        history = load(model).history_
        console.result({"folder": output, "model": model, "objective": history["objective"][-1]})


def _run(console: Console, force: bool, *arguments: str) -> None:
    """Show a command, and run it."""
    console.say(f"\n$ {shlex.join(('somf', *arguments))}")
    parent = click.get_current_context().parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    command = parent.command.commands[arguments[0]]
    more = ["--quiet"] if console.quiet or console.as_json else []
    more += ["--force"] if force and "-o" in arguments else []
    with command.make_context(arguments[0], [*arguments[1:], *more], parent=parent) as context:
        command.invoke(context)
