"""Options that say how to read the samples of a command."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from somf.cli.options import Function, help_for, option_for, with_options
from somf.cli.values import dtype_name, number_or_missing, patch_size_or_none, size, step
from somf.data import ImagePatches, open_source

MODEL_DEFAULT = "that of the model"
"""What the help says of a default that is stored in the model."""


@dataclass(frozen=True)
class DataOptions:
    """How to read samples; None means that an option is not given."""

    patches: tuple[int, ...] | str | None = None
    stride: tuple[int, ...] | int | None = None
    center: bool | None = None
    scale: bool | None = None
    no_data: float | str | None = None
    mask: str | None = None
    dataset: str | None = None
    raw_shape: tuple[int, int] | None = None
    raw_dtype: str | None = None
    transposed: bool | None = None
    allow_external: bool | None = None
    header: bool | None = None

    @classmethod
    def found_in(cls, options: dict[str, Any]) -> "DataOptions":
        """Return the options of a command that are about data."""
        return cls(**{name: options[name] for name in vars(cls())})

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "DataOptions":
        """Return the options of a command that are about data, and remove them from the others."""
        return cls(**{name: options.pop(name) for name in vars(cls())})


dataset_option = click.option(
    "--dataset",
    help="Name of the matrix or image in an HDF5, Zarr, NetCDF, .mat or .npz file; needed if there "
    "are several.",
)
"""The option --dataset."""

raw_shape_option = click.option(
    "--raw-shape", type=size, metavar="NxP", help="Rows and columns of a file of raw numbers."
)
"""The option --raw-shape."""

raw_dtype_option = click.option(
    "--raw-dtype",
    type=dtype_name,
    metavar="TYPE",
    help="NumPy data type of a file of raw numbers, such as uint16.",
)
"""The option --raw-dtype."""

allow_external_option = option_for("allow_external", open_source)
"""The option --allow-external."""

header_option = click.option(
    "--header/--no-header", default=None, help=help_for("header", open_source)
)
"""The option --header."""

weights_option = click.option(
    "--weights",
    type=click.Path(),
    metavar="FILE",
    help="How much each entry of DATA counts: a matrix, or with --patches an image, of the same "
    "shape.",
)
"""The option --weights."""


def data_options(default: str | None = None) -> Callable[[Function], Function]:
    """Return a decorator that gives a command the options of `DataOptions`.

    Parameters
    ----------
    default : str, optional
        What the help says of the defaults of patches; by default those of `ImagePatches`.
    """
    return with_options(
        click.option(
            "--patches",
            type=patch_size_or_none,
            metavar="HxW|DxHxW",
            help="Cut images or cubes into patches of this height and width, or volumes into "
            "patches of this depth, height and width; each patch is a sample. 1x1 are pixels. With "
            "'none' the rows of a matrix are the samples, even if the model was "
            "learned from patches.",
        ),
        click.option(
            "--stride",
            type=step,
            metavar="N|HxW|DxHxW",
            help=help_for("stride", ImagePatches, default),
        ),
        option_for("center", ImagePatches, default),
        option_for("scale", ImagePatches, default),
        click.option(
            "--no-data",
            type=number_or_missing,
            metavar="FLOAT|missing",
            help=help_for("no_data", ImagePatches),
        ),
        click.option(
            "--mask",
            type=click.Path(),
            metavar="FILE",
            help="Image of one channel that is zero where there is no data. Patches that touch "
            "such a pixel are left out. A model stores the mask of the image that it was learned "
            "from; 'none' ignores it.",
        ),
        dataset_option,
        raw_shape_option,
        raw_dtype_option,
        option_for("transposed", open_source),
        allow_external_option,
        header_option,
    )
