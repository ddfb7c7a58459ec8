"""From the files and flags of a command line to samples."""

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from somf.cli.parameters import Function, flag_of, option_for, with_options
from somf.data import ImagePatches, Source, open_source
from somf.data.formats.kinds import IMAGES, STORED, envi_header_of, kind_of
from somf.data.images.files import READERS
from somf.errors import DamagedFileError
from somf.estimators.base import MatrixFactorization

NONE = "none"
"""What to say to --patches and --mask where a model would else have the last word."""


def size(value: Any) -> tuple[int, int]:
    """Return two numbers given as 16x16, or as one that stands for both."""
    if isinstance(value, tuple):  # click converts some values twice
        return value
    match = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", str(value))
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form 16 or 16x16.")
    return int(match[1]), int(match[2] or match[1])


def size_or_none(value: Any) -> tuple[int, int] | str:
    """Return two numbers, or the word that asks for rows."""
    return NONE if value == NONE else size(value)


@dataclass(frozen=True)
class Flags:
    """How files are to be read; None is not given."""

    patches: tuple[int, int] | str | None = None
    stride: tuple[int, int] | None = None
    center: bool | None = None
    scale: bool | None = None
    no_data: float | None = None
    mask: str | None = None
    dataset: str | None = None
    raw_shape: tuple[int, int] | None = None
    raw_dtype: str | None = None
    transposed: bool | None = None


MATRICES = (".npy", ".npz", *STORED)
"""Kinds of files that may hold a matrix and say of what shape and type it is."""

HOW_TO_READ_RAW = "If it holds raw numbers, say --raw-shape 1000x64 --raw-dtype float32, or so."

IN_FLAGS = {
    "dataset": "--dataset",
    "shape and dtype": "--raw-shape and --raw-dtype",
    "shape": "--raw-shape",
    "patch_size": "--patches",
    "mask": "--mask",
}
"""What parameters that errors begin with are called on the command line."""

FOR_PATCHES = ("stride", "center", "scale", "no_data", "mask")
FOR_ROWS = ("raw_shape", "raw_dtype", "transposed")

dataset = click.Option(
    ["--dataset"],
    help="Name of the matrix or image in an HDF5, Zarr or .mat file; needed if there are several.",
)

raw_shape = click.Option(
    ["--raw-shape"], type=size, metavar="NxP", help="Rows and columns of a file of raw numbers."
)
raw_dtype = click.Option(["--raw-dtype"], help="Type of raw numbers, such as uint16.")


def data_options(default: str | None = None) -> Callable[[Function], Function]:
    """Return a decorator that gives a command the options of which `Flags` are made.

    Parameters
    ----------
    default : str, optional
        What to say of how patches are cut out if nothing is said; by default what `ImagePatches`
        does.
    """
    return with_options(
        click.Option(
            ["--patches"],
            type=size_or_none,
            metavar="HxW",
            help="Samples are patches of this height and width of an image or cube; 'none' takes "
            "the rows of a matrix, whatever a model was learned from.",
        ),
        click.Option(
            ["--stride"],
            type=size,
            metavar="HxW",
            help=option_for("stride", ImagePatches, default=default).help,
        ),
        option_for("center", ImagePatches, default=default),
        option_for("scale", ImagePatches, default=default),
        option_for("no_data", ImagePatches),
        click.Option(
            ["--mask"],
            metavar="FILE",
            help="Image of one channel that is zero where there is no data; only patches that lie "
            "wholly inside are taken. A model remembers it for the image that it was learned from; "
            "'none' takes all patches.",
        ),
        dataset,
        raw_shape,
        raw_dtype,
        option_for("transposed", open_source),
    )


OF_THE_MODEL = "as for the model"
"""What to say of defaults that a model has."""


def expanded(paths: Sequence[str]) -> list[str]:
    """Return the files that are meant; what matches none is left as it is, for others to refuse."""
    found = []
    for path in paths:
        matches = [] if os.path.exists(path) else sorted(glob.glob(path))
        found += matches or [path]
    return found


def open_data(
    paths: Sequence[str], flags: Flags, model: MatrixFactorization | None = None
) -> Source:
    """Open files as one source of samples.

    Parameters
    ----------
    paths : sequence of str
    flags : Flags
    model : MatrixFactorization, optional
        Where flags do not say otherwise, patches are cut out as they were for this model.
    """
    paths = expanded(paths)
    geometry = None if model is None else getattr(model, "patches_", None)
    wants_rows = flags.patches is None and geometry is None
    can_be_image = kind_of(paths[0]) in READERS
    if flags.patches == NONE or wants_rows or (flags.patches is None and not can_be_image):
        _check_not_given(flags, FOR_PATCHES, "for patches: say --patches 16x16, or another size")
        with in_words_of_flags(paths[0]):
            return _rows(paths, flags)
    _check_not_given(flags, FOR_ROWS, "for matrices, not for --patches")
    if len(paths) > 1:
        raise click.UsageError(f"--patches takes one image, got {len(paths)} files.")
    with in_words_of_flags(paths[0]):
        return _patches(paths[0], flags, geometry or {})


def _check_not_given(flags: Flags, names: Sequence[str], purpose: str) -> None:
    for name in names:
        if getattr(flags, name) is not None:
            raise click.UsageError(f"{flag_of(name)} is {purpose}.")


def _patches(path: str, flags: Flags, geometry: dict[str, Any]) -> ImagePatches:
    def setting(name: str, default: Any) -> Any:
        given = getattr(flags, name)
        return geometry.get(name, default) if given is None else given

    patch_size: Any = flags.patches or geometry["patch_size"]
    settings = {
        "stride": setting("stride", 1),
        "center": setting("center", True),
        "scale": setting("scale", True),
    }
    # These belong to a file rather than to how patches are cut out.
    known = geometry if _is_same_file(path, geometry.get("path")) else {}
    for name in ("dataset", "mask"):
        settings[name] = getattr(flags, name) or known.get(name)
    if settings["mask"] == NONE:
        settings["mask"] = None
    patches = ImagePatches(path, patch_size, **settings, no_data=flags.no_data)
    if patches.geometry["no_data"] is None and geometry.get("no_data") is not None:
        # This file does not say which value stands for no data, but that of the model did.
        patches = ImagePatches(path, patch_size, **settings, no_data=geometry["no_data"])
    if patches.shape[0] == 0:
        raise DamagedFileError(
            f"{path!r} has no patch of {patch_size} in which all pixels have data."
        )
    return patches


def _is_same_file(path: str, other: str | None) -> bool:
    is_there = other is not None and os.path.exists(path) and os.path.exists(other)
    return is_there and os.path.samefile(path, str(other))


def _rows(paths: Sequence[str], flags: Flags) -> Source:
    is_raw = flags.raw_shape is not None or flags.raw_dtype is not None
    for path in filter(os.path.isfile, paths):
        if kind_of(path) in IMAGES:
            raise click.UsageError(f"{path!r} is an image: say --patches 16x16, or another size.")
        if kind_of(path) not in MATRICES and not is_raw:
            header = envi_header_of(path)
            image = "" if header is None else f"{header!r} says it is an image: name that one. "
            raise click.UsageError(f"The kind of {path!r} is not known. {image}{HOW_TO_READ_RAW}")
    if is_raw and (flags.raw_shape is None or flags.raw_dtype is None):
        raise click.UsageError("--raw-shape and --raw-dtype must both be given.")
    try:
        return open_source(
            paths[0] if len(paths) == 1 else list(paths),
            dataset=flags.dataset,
            shape=flags.raw_shape,
            dtype=flags.raw_dtype,
            transposed=bool(flags.transposed),
        )
    except TypeError as error:  # NumPy does not know the type
        raise click.BadParameter(str(error), param_hint="--raw-dtype") from error
    except ValueError as error:
        if re.search("got 3D array|must have 2 dimensions|holds none", str(error)):
            raise DamagedFileError(
                f"{paths[0]!r} does not hold a matrix. If it is an image, say --patches 16x16, "
                "or another size."
            ) from error
        raise


@contextmanager
def in_words_of_flags(path: str) -> Iterator[None]:
    """Let errors about how a file is to be read name the flag, and the file."""
    try:
        yield
    except ValueError as error:
        words = "|".join(IN_FLAGS)
        about = re.search(rf"(?:^|cannot be used: )({words}) (must .*)", str(error), re.DOTALL)
        if about is None:
            raise
        said = about[2].replace("must be None", "must not be given")
        where = "" if os.path.basename(path) in said else f"{path!r}: "
        raise click.UsageError(f"{where}{IN_FLAGS[about[1]]} {said}") from error


@contextmanager
def naming(
    paths: Sequence[str], source: Source | None, validation: float | str | None = None
) -> Iterator[None]:
    """Let errors about samples, which are read long after files were opened, name the file.

    Parameters
    ----------
    paths : sequence of str
    source : Source or None
        What is in them.
    validation : float, str or None
        What was given to validate on.
    """
    try:
        yield
    except ValueError as error:
        about = re.match(r"(?:Rows .* of )?(X|validation)\b", str(error))
        if about is None:
            raise
        if about[1] == "validation" and not isinstance(validation, str):
            raise click.BadParameter(str(error), param_hint="--validation") from error
        if isinstance(source, ImagePatches) and "got NaN" in str(error):
            error.add_note("If NaN stands for no data, say --no-data nan.")
        names = [str(validation)] if about[1] == "validation" else paths
        notes = getattr(error, "__notes__", ())
        raise DamagedFileError(" ".join([f"{', '.join(names)}: {error}", *notes])) from error
