"""``somf bench``: how fast this machine learns."""

import logging
import os
import platform
from typing import Any

import click

import somf
from somf.cli import scenes
from somf.cli.console import Console, examples, with_console
from somf.cli.parameters import option_for, with_options
from somf.data import ImagePatches
from somf.estimators.base import MatrixFactorization
from somf.estimators.problems import DictionaryLearning

REDUCTIONS = (1, 4, 12)
SCENES = {"synthetic": (scenes.synthetic, 8), "indian-pines": (scenes.indian_pines, 16)}
"""Scenes, and sizes of their patches."""


@click.command(
    epilog=examples(
        "somf bench --components 20",
    )
)
@click.option(
    "--scene",
    type=click.Choice(list(SCENES)),
    default="synthetic",
    show_default=True,
    help="What to learn from: indian-pines is the demo's and takes longer.",
)
@with_console
@with_options(
    *(option_for(n, MatrixFactorization) for n in ("n_components", "device", "n_threads"))
)
def bench(scene: str, console: Console, **options: Any) -> None:
    """Measure how fast this machine learns from patches of a scene, at several reductions."""
    make, size = SCENES[scene]
    image = make()
    patches = ImagePatches(image, size)
    # The table says it all; `with_console` puts the level back.
    logging.getLogger("somf").setLevel(logging.WARNING)
    given = {name: value for name, value in options.items() if value is not None}
    _epoch(ImagePatches(image, size, stride=size), 4, given)  # compiles kernels, if they are not
    rows = [_epoch(patches, reduction, given) for reduction in REDUCTIONS]
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
    console.table(facts, rows)


def _epoch(patches: ImagePatches, reduction: float, options: dict[str, Any]) -> dict[str, Any]:
    """Learn for an epoch, and return what it cost and what it brought."""
    model = DictionaryLearning(reduction=reduction, random_state=0, **options)
    history = model.fit(patches, validation=0.05).history_
    seconds = history["compute_seconds"][-1]
    return {
        "reduction": reduction,
        "seconds": seconds,
        "samples_per_second": round(model.n_samples_seen_ / seconds),
        "objective_before": history["objective"][0],
        "objective": history["objective"][-1],
    }
