"""``somf demo``: run the other commands on a real scene."""

import os
import shlex
from functools import partial

import click
import numpy as np

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.output import check_output, force_option
from somf.cli.scenes import indian_pines, indian_pines_wavelengths, radiance
from somf.cli.values import size
from somf.data import ImagePatches
from somf.estimators.loading import load

N_TRAINING_COLUMNS = 105
"""Columns of the scene to learn from. The other 40 are the test set."""

N_SPECTRA = 4
"""Spectra of which pixels are mixtures."""


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
    default="8x8",
    show_default=True,
    help="Height and width of the patches.",
)
@click.option(
    "--components",
    "n_components",
    type=int,
    default=100,
    show_default=True,
    help="Number of atoms of patches.",
)
@force_option
@console_options
def demo(
    output: str,
    patches: tuple[int, int],
    n_components: int,
    force: bool,
    console: Console,
) -> None:
    """Learn what the AVIRIS scene Indian Pines is made of, and show it.

    The scene has 145 x 145 pixels of farmland in 200 spectral bands. Models are learned from the
    left part, and measured on the right part: one of few spectra of which pixels are mixtures, and
    a dictionary of patches, from which the right part is put together again. The demo prints each
    command before it runs it.
    """
    os.makedirs(output, exist_ok=True)
    path = partial(os.path.join, output)
    left, right, bands = path("left.npy"), path("right.npy"), path("wavelengths.txt")
    spectra, atoms, again = path("spectra.somf"), path("patches.somf"), path("right-again.npy")
    check_output(left, right, bands, force=force)
    _write_scene(left, right, bands)
    run = partial(_run, console, force)
    run("info", left)
    pixels = f"--patches 1x1 --no-center --no-scale --problem nmf --components {N_SPECTRA}"
    names = ("--feature-names", bands, "--batch-size", "256", "--epochs", "30")
    run("fit", left, *pixels.split(), *names, "-o", spectra)
    run("score", spectra, right)
    run("plot", spectra, "--kind", "spectra", "-o", path("spectra.png"))
    run("plot", spectra, right, "--kind", "maps", "-o", path("maps.png"))
    height, width = patches
    size_and_number = f"--patches {height}x{width} --components {n_components}"
    more = ("--alpha", "0.005", "--epochs", "1", "--feature-names", bands)
    run("fit", left, *size_and_number.split(), *more, "-o", atoms)
    run("reconstruct", atoms, right, "-o", again)
    run("plot", atoms, right, "-o", path("atoms.png"))
    run("report", atoms, right, "-o", path("report.html"))
    facts = _facts(spectra, right, again)
    console.print(f"\n{_sentence(**facts)} Open {path('report.html')}.")
    if console.as_json:
        console.print_facts({"folder": output, "spectra": spectra, "patches": atoms, **facts})


def _write_scene(left: str, right: str, bands: str) -> None:
    """Write both parts of the scene, and the wavelengths of its bands.

    Neighbouring patches overlap, so what is measured on must be another part of the scene.
    """
    scene, wavelengths = radiance(indian_pines()), indian_pines_wavelengths()
    np.save(left, scene[:, :N_TRAINING_COLUMNS])
    np.save(right, scene[:, N_TRAINING_COLUMNS:])
    with open(bands, "w", encoding="utf-8") as file:
        file.writelines(f"{wavelength:.5f} µm\n" for wavelength in wavelengths)


def _facts(spectra: str, right: str, again: str) -> dict[str, float]:
    """Return how much of the variance of the right part both models have."""
    image, rebuilt = np.load(right), np.load(again)
    pixels = ImagePatches(image, 1, center=False, scale=False)
    missed = ((image - rebuilt) ** 2).sum(dtype=np.float64)
    total = ((image - image.mean(axis=(0, 1))) ** 2).sum(dtype=np.float64)
    return {
        "explained_by_spectra": load(spectra).measure(pixels, with_gap=False).explained_variance,
        "explained_by_patches": float(1 - missed / total),
    }


def _sentence(explained_by_spectra: float, explained_by_patches: float) -> str:
    return (
        f"{N_SPECTRA} spectra explain {explained_by_spectra:.1%} of the variance of pixels that "
        f"were not learned from, and the codes of patches {explained_by_patches:.1%}."
    )


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
