"""``somf reconstruct``: write the image that codes stand for, with less noise if wanted."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.errors import naming_files
from somf.cli.open_data import PATCH_HINT, expand_patterns
from somf.cli.open_model import input_files, model_and_data_arguments, open_model_and_data
from somf.cli.output import check_output, force_option, output_option
from somf.cli.values import dtype_name
from somf.data import ImagePatches, noise_bound, noise_level
from somf.data.formats.kinds import ending_of
from somf.data.images.image import floating_type
from somf.data.images.writing import WRITERS, files_written, image_file
from somf.data.sources.selected import SelectedSource
from somf.estimators.base import MatrixFactorization
from somf.scratch import scratch_zeros
from somf.training.callbacks import Progress
from somf.training.progress_bar import progress_bar

NAME = "{name}"
"""What stands in --output for the name of each of several images."""

ORIGINAL = "original"
"""The value of --fill that keeps the pixels of the image."""


def _number_or_original(value: Any) -> float | str:
    """Return a number, or the word ``original``."""
    try:
        return ORIGINAL if value == ORIGINAL else float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number or {ORIGINAL!r}.") from error


@command(
    "somf reconstruct scene.somf scene.npy -o again.npy",
    "somf reconstruct scene.somf scene.npy --denoise --force -o again.npy",
)
@output_option(
    f"The image to write: {', '.join(WRITERS)}. Georeferencing of a TIFF or ENVI image is kept in "
    f"a file of the same kind. For several images, a name with {NAME}, such as 'clean/{NAME}.png'."
)
@click.option(
    "--denoise",
    is_flag=True,
    help="Remove noise: patches are not scaled, and coded by orthogonal matching pursuit with as "
    "few atoms as leave no more than the noise.",
)
@click.option(
    "--noise",
    type=click.FloatRange(min=0),
    help="Standard deviation of the noise, in the units of the pixels.  [default: estimated from "
    "each image]",
)
@click.option(
    "--max-atoms", type=click.IntRange(min=1), help="Atoms of a patch, at most, by the pursuit."
)
@click.option(
    "--dtype",
    type=dtype_name,
    metavar="TYPE",
    help="Type of the pixels to write; integers are rounded and clipped.  [default: that of the "
    "image for .png, else float32 or float64]",
)
@click.option(
    "--fill",
    type=_number_or_original,
    metavar="FLOAT|original",
    default=ORIGINAL,
    show_default=True,
    help="What pixels get that no patch covers, such as those without data: their own value, or a "
    "number, which may be nan.",
)
@force_option
@console_options
@model_and_data_arguments(needs_data=True)
def reconstruct(
    model: str,
    data: tuple[str, ...],
    output: str,
    denoise: bool,
    noise: float | None,
    max_atoms: int | None,
    dtype: str | None,
    fill: Any,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Write the image that the codes of DATA on the atoms of MODEL stand for.

    DATA is an image, or several, of which patches are cut as for MODEL. Each is coded, and becomes
    its code times the atoms, with its mean and norm. A pixel is the mean of all patches that cover
    it. Only the codes are held in memory, or in a scratch file.
    """
    if noise is not None and not denoise:
        raise click.UsageError("--noise needs --denoise.")
    if denoise:
        _refuse_noise_among(data)
    paths = expand_patterns(data)
    outputs = _outputs(output, paths)
    is_folder = ending_of(output) == ".zarr"
    written = [name for path in outputs for name in files_written(path)]
    check_output(
        *written, force=force, inputs=input_files(model, data, options), is_folder=is_folder
    )
    if denoise and options["scale"] is None:
        options["scale"] = False
    estimator, source = open_model_and_data(model, data, console, options)
    if not isinstance(source, ImagePatches):
        raise click.UsageError(
            f"{data[0]!r} is not an image that was cut into patches: {PATCH_HINT}."
        )
    _check_model(estimator, denoise, max_atoms)
    with naming_files(data, source):
        sigmas = _noise_of(source, noise) if denoise else None
        codes = _codes(estimator, source, sigmas, max_atoms)
        with ExitStack() as files:
            targets = [
                files.enter_context(image_file(path, image.shape, _dtype(path, image, dtype), name))
                for path, image, name in zip(outputs, source.images, paths, strict=True)
            ]
            show = files.enter_context(_progress(source.shape[0], console.verbose))
            out = targets if len(paths) > 1 else targets[0]
            source.reconstruct(codes, estimator.components_, out, fill=fill, progress=show)
    n_used = codes.nnz if sp.issparse(codes) else np.count_nonzero(codes)
    console.print_facts(
        {
            "image": outputs[0] if len(outputs) == 1 else ", ".join(outputs),
            "patches": source.shape[0],
            "atoms_per_patch": n_used / source.shape[0],
            "noise": None if sigmas is None else float(np.mean(sigmas)),
        }
    )


def _refuse_noise_among(data: tuple[str, ...]) -> None:
    """Raise an error for ``--denoise 25``, which would read the image 25."""
    for name in data:
        try:
            float(name)
        except ValueError:
            continue
        if not os.path.exists(name):
            raise click.UsageError(
                f"There is no image {name!r}. For noise of standard deviation {name}, write "
                f"--denoise --noise {name}."
            )


def _outputs(output: str, paths: list[str]) -> list[str]:
    """Return the file to write for every image."""
    if ending_of(output) not in WRITERS:
        raise click.UsageError(f"--output must end in one of {', '.join(WRITERS)}, got {output!r}.")
    names = [os.path.splitext(os.path.basename(path.rstrip(os.sep)))[0] for path in paths]
    if len(paths) == 1:
        return [output.replace(NAME, names[0])]
    if NAME not in output:
        raise click.UsageError(
            f"--output must have {NAME} in its name for {len(paths)} images, such as "
            f"'clean-{NAME}{ending_of(output)}', got {output!r}."
        )
    if len(set(names)) < len(names):
        raise click.UsageError("The images must have different names: one would replace the other.")
    return [output.replace(NAME, name) for name in names]


def _check_model(model: MatrixFactorization, denoise: bool, max_atoms: int | None) -> None:
    if hasattr(model, "offsets_"):
        raise click.UsageError(
            "MODEL must be learned without --offsets and --center-features: patches are centred by "
            "their own means."
        )
    if (denoise or max_atoms is not None) and model.positive_code:
        option = "--denoise" if denoise else "--max-atoms"
        raise click.UsageError(
            f"{option} needs codes of any sign, and those of MODEL are not negative. Leave it out."
        )


def _noise_of(source: ImagePatches, given: float | None) -> list[float]:
    """Return the noise of every image: the given one, or estimates."""
    if given is not None:
        return [given] * len(source.images)
    n_axes = source.positions.shape[1]
    planes = [image if n_axes == 2 else image[len(image) // 2] for image in source.images]
    return [noise_level(plane) for plane in planes]


def _codes(
    model: MatrixFactorization,
    source: ImagePatches,
    sigmas: list[float] | None,
    max_atoms: int | None,
) -> Any:
    """Return the codes of patches: by the penalty, or by a pursuit up to the noise."""
    if sigmas is not None:
        model.set_params(normalize=False)  # the noise is that of patches as they are
        parts = []
        for sigma, start, stop in zip(sigmas, source.starts, source.starts[1:], strict=False):
            own = SelectedSource(source, np.arange(start, stop))
            error = noise_bound(sigma, source.shape[1])
            parts.append(model.transform(own, max_atoms=max_atoms, max_error=error, sparse=True))
        return sp.csr_array(sp.vstack(parts, format="csr"))
    if max_atoms is not None or (model.l1_ratio > 0 and model.alpha_ > 0):
        return model.transform(source, max_atoms=max_atoms, sparse=True)
    shape = (source.shape[0], len(model.components_))
    return model.transform(source, out=scratch_zeros(shape, model.components_.dtype))


def _dtype(path: str, image: Any, given: str | None) -> np.dtype[Any]:
    """Return the type of the pixels to write."""
    if given is not None:
        return np.dtype(given)
    if ending_of(path) != ".png":
        return floating_type(image.dtype)
    if image.dtype.kind == "f":
        raise click.UsageError(
            f"{path!r} would have integers, and the image has {image.dtype}: add --dtype uint8 if "
            "its pixels are from 0 to 255, or write .tif or .npy."
        )
    own: np.dtype[Any] = image.dtype.newbyteorder("=")
    return own


@contextmanager
def _progress(n_patches: int, verbose: int) -> Iterator[Any]:
    """Give a function that shows how many patches are put together, or None."""
    if not verbose:
        yield None
        return
    progress, begin = Progress(n_samples_planned=n_patches), perf_counter()
    with progress_bar() as show:

        def update(n_done: int) -> None:
            progress.n_samples_seen, progress.compute_seconds = n_done, perf_counter() - begin
            show(progress)

        yield update
