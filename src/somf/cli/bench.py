"""``somf bench``: measure how fast this machine learns."""

import logging
import os
import platform
from typing import Any

import click

import somf
from somf.cli import scenes
from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.options import option_for, with_options
from somf.data import ImagePatches
from somf.estimators.base import MatrixFactorization
from somf.estimators.problems import DictionaryLearning

REDUCTIONS = (1, 4, 12)
"""The reductions to measure, one row of the table each."""

SCENES = {"synthetic": (scenes.synthetic, 8), "indian-pines": (scenes.indian_pines, 16)}
"""Functions that return the scenes, with the sizes of their patches."""


@command("somf bench --components 20")
@click.option(
    "--scene",
    type=click.Choice(list(SCENES)),
    default="synthetic",
    show_default=True,
    help="The image to learn from. indian-pines is that of somf demo, and takes longer.",
)
@console_options
@with_options(
    *(option_for(name, MatrixFactorization) for name in ("n_components", "device", "n_threads"))
)
def bench(scene: str, console: Console, **options: Any) -> None:
    """Measure how fast this machine learns, at several values of reduction.

    Each row of the table is one epoch on the patches of a scene. A reduction of 4 means that an
    iteration uses a quarter of the features.
    """
    make, size = SCENES[scene]
    image = make()
    patches = ImagePatches(image, size)
    # The table has all that the log would say; `console_options` restores the level.
    logging.getLogger("somf").setLevel(logging.WARNING)
    given = {name: value for name, value in options.items() if value is not None}
    _measure_epoch(ImagePatches(image, size, stride=size), 4, given)  # compiles the kernels
    rows = [_measure_epoch(patches, reduction, given) for reduction in REDUCTIONS]
    facts = {
        "somf": somf.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "scene": scene,
        "samples": patches.shape[0],
        "features": patches.shape[1],
        "device": given.get("device", "cpu"),
    }
    console.print_table(facts, rows)


def _measure_epoch(
    patches: ImagePatches, reduction: float, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the time and the objective of a fit of one epoch."""
    model = DictionaryLearning(reduction=reduction, n_epochs=1, random_state=0, **options)
    history = model.fit(patches, validation=0.05).history_
    seconds = history["compute_seconds"][-1]
    return {
        "reduction": reduction,
        "seconds": seconds,
        "samples_per_second": round(model.n_samples_seen_ / seconds),
        "objective_before": history["objective"][0],
        "objective": history["objective"][-1],
    }
