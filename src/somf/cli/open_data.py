"""Open the files of a command line as one source of samples."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from somf.cli.data_options import DataOptions
from somf.cli.folders import check_folders
from somf.cli.options import flag_of
from somf.cli.values import NONE
from somf.data import ImagePatches, Source, open_source
from somf.data.formats.checks import PATCHES
from somf.data.formats.kinds import (
    Kind,
    envi_header_of,
    files_matching,
    kind_of,
    readable_kinds,
    recognise,
    why_compressed,
)
from somf.data.images.files import READERS
from somf.data.images.no_data import MISSING
from somf.errors import DamagedFileError, NotAMatrixError, ParameterError
from somf.estimators.base import MatrixFactorization

PATCH_HINT = "add --patches 16x16, or another size"
"""What to do with an image."""

RAW_HINT = "For a file of raw numbers, add for example --raw-shape 1000x64 --raw-dtype float32."
"""What to do with a file of an unknown kind."""

PATCH_OPTIONS = ("stride", "center", "scale", "no_data", "mask")
"""Options that need --patches."""

MATRIX_OPTIONS = ("raw_shape", "raw_dtype", "transposed", "header")
"""Options that exclude --patches."""


def expand_patterns(paths: Sequence[str]) -> list[str]:
    """Return the files that patterns match; a name that matches no file is kept as it is.

    A folder that is not data is an error.
    """
    found = [name for path in paths for name in files_matching(path) or [path]]
    check_folders(found)
    return found


def open_data(
    paths: Sequence[str], options: DataOptions, model: MatrixFactorization | None = None
) -> Source:
    """Open files as one source of samples.

    Parameters
    ----------
    paths : sequence of str
    options : DataOptions
    model : MatrixFactorization, optional
        Patches are cut as they were for this model, unless the options say otherwise.
    """
    paths = expand_patterns(paths)
    geometry = None if model is None else getattr(model, "patches_", None)
    is_image = kind_of(paths[0]) in READERS and geometry is not None
    if options.patches == NONE or (options.patches is None and not is_image):
        _check_not_given(options, PATCH_OPTIONS, f"needs patches: {PATCH_HINT}")
        return _open_rows(paths, options)
    _check_not_given(options, MATRIX_OPTIONS, "is for matrices, not for --patches")
    if len(paths) > 1 and options.mask not in (None, NONE):
        raise click.UsageError(f"--mask is for one image, got {len(paths)} of them.")
    return _open_patches(paths, options, geometry or {})


def open_weights(
    path: str | None, options: DataOptions, model: MatrixFactorization | None = None
) -> Source | None:
    """Open the weights of entries; those of patches are cut out, and not normalised.

    Parameters
    ----------
    path : str or None
    options : DataOptions
        How the samples are read.
    model : MatrixFactorization, optional
        See `open_data`.
    """
    if path is None:
        return None
    is_image = getattr(model, "patches_", None) is not None and kind_of(path) in READERS
    if options.patches != NONE and (options.patches is not None or is_image):
        options = replace(options, center=False, scale=False, no_data=None, mask=None)
    return open_data([path], options, model)


def _check_not_given(options: DataOptions, names: Sequence[str], reason: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise click.UsageError(f"{flag_of(name)} {reason}.")


def _open_patches(
    paths: Sequence[str], options: DataOptions, geometry: dict[str, Any]
) -> ImagePatches:
    """Open the patches of one image, or of several.

    Parameters
    ----------
    paths : sequence of str
    options : DataOptions
    geometry : dict
        `ImagePatches.geometry` of the model; empty if there is none.
    """

    def setting(name: str, default: Any) -> Any:
        given = getattr(options, name)
        return geometry.get(name, default) if given is None else given

    patch_size: Any = options.patches or geometry["patch_size"]
    settings: dict[str, Any] = {
        "stride": setting("stride", 1),
        "center": setting("center", True),
        "scale": setting("scale", True),
        "allow_external": bool(options.allow_external),
    }
    # These belong to one file, and not to how patches are cut.
    stored = [_stored(path, geometry) for path in paths]
    settings["dataset"] = options.dataset or stored[0].get("dataset")
    masks = [None if options.mask == NONE else options.mask or s.get("mask") for s in stored]
    images: Any = list(paths)
    settings["mask"] = masks
    if len(paths) == 1:
        images, settings["mask"] = paths[0], masks[0]
    no_data: Any = options.no_data
    if no_data is None and geometry.get("no_data") == MISSING:
        no_data = MISSING  # rather than the value that this file declares
    try:
        patches = ImagePatches(images, patch_size, **settings, no_data=no_data)
        if patches.geometry["no_data"] is None and geometry.get("no_data") is not None:
            # This file does not declare a no-data value, but the file of the model did.
            patches = ImagePatches(images, patch_size, **settings, no_data=geometry["no_data"])
    except ParameterError as error:
        if len(paths) == 1:
            error.add_note(f"The image is {paths[0]!r}.")
        raise
    for path, start, stop in zip(paths, patches.starts, patches.starts[1:], strict=False):
        if start == stop:
            raise DamagedFileError(
                f"{path!r} has no patch of {patch_size} in which all pixels have data."
            )
    return patches


def _stored(path: str, geometry: dict[str, Any]) -> dict[str, Any]:
    """Return what a model knows of an image that it was learned from; else nothing."""
    images = geometry.get("images", [])
    return next((image for image in images if _is_same_file(path, image["path"])), {})


def _is_same_file(path: str, other: str | None) -> bool:
    both_exist = other is not None and os.path.exists(path) and os.path.exists(other)
    return both_exist and os.path.samefile(path, str(other))


def _open_rows(paths: Sequence[str], options: DataOptions) -> Source:
    """Open matrices, whose rows are the samples."""
    is_raw = options.raw_shape is not None or options.raw_dtype is not None
    for path in filter(os.path.isfile, paths):
        _check_kind(path, is_raw)
    if is_raw and (options.raw_shape is None or options.raw_dtype is None):
        raise click.UsageError("--raw-shape and --raw-dtype must both be given.")
    try:
        return open_source(
            paths[0] if len(paths) == 1 else list(paths),
            dataset=options.dataset,
            shape=options.raw_shape,
            dtype=options.raw_dtype,
            transposed=bool(options.transposed),
            allow_external=bool(options.allow_external),
            header=options.header,
        )
    except NotAMatrixError as error:
        text = str(error).replace(f": {PATCHES}.", f", {PATCH_HINT}.")
        raise DamagedFileError(text) from error


def _check_kind(path: str, is_raw: bool) -> None:
    """Raise an error if a file cannot hold a matrix."""
    if is_raw:
        return
    kind = recognise(path)
    if (message := why_compressed(path, kind)) is not None:
        raise click.UsageError(message)
    if kind is Kind.IMAGE:
        raise click.UsageError(f"{path!r} is an image: {PATCH_HINT}.")
    if kind is Kind.MODEL:
        raise click.UsageError(f"{path!r} is a model or a checkpoint, and not data.")
    if kind is None:
        raise click.UsageError(cannot_read(path))


def cannot_read(path: str) -> str:
    """Return the message that a file is of no known kind, and what to do."""
    header = envi_header_of(path)
    if header is not None:
        return f"cannot read {path!r}: {header!r} is its ENVI header. Name that file instead."
    return f"cannot read {path!r}; readable are {readable_kinds()}. {RAW_HINT}"
