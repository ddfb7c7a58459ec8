"""Names of features in a text file."""

import math
import os
from typing import Any

import click

from somf.data import ImagePatches, Source
from somf.data.channels import channels_from
from somf.errors import DamagedFileError, FileRequestError, MissingFileError

MOST_BYTES = 2**28
"""The largest file of names that is read."""

feature_names_option = click.option(
    "--feature-names",
    metavar="FILE",
    help="Names of the features, one per line of a text file; with --patches, of the channels. "
    "If all of them are numbers, perhaps with a unit (450.3 nm), they are wavelengths.",
)
"""The option --feature-names."""


def name_features(source: Source, path: str | None) -> None:
    """Give the features of a source, or the channels of patches, the names in a file."""
    if path is None:
        return
    names = _lines(path)
    channels = channels_from(names)
    if isinstance(source, ImagePatches):
        size: Any = source.geometry["patch_size"]
        n_channels = math.prod(source.patch_shape[len(size) :])
        _check_count(path, names, n_channels, "channel")
        source.channels = channels
        return
    _check_count(path, names, source.shape[1], "feature")
    source.feature_names = names
    if channels.values is not None:
        source.channels = channels


def _check_count(path: str, names: list[str], expected: int, what: str) -> None:
    if len(names) != expected:
        rule = f"have one line for each {what}, {expected:,}, in {path!r}"
        raise FileRequestError(path, "feature_names", rule, path, got=f"{len(names):,}")


def _lines(path: str) -> list[str]:
    if not os.path.isfile(path):
        raise MissingFileError(f"There is no file {path!r}.")
    if os.path.getsize(path) > MOST_BYTES:
        raise DamagedFileError(f"{path!r} is too large for a file of names.")
    try:
        with open(path, encoding="utf-8-sig") as file:
            return [line.strip() for line in file.read().rstrip().splitlines()]
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path!r} is not a text file in UTF-8: {error}.") from error
