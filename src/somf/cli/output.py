"""Files that commands write: checked before any work is done."""

import os
from collections.abc import Callable, Iterable

import click

from somf.cli.options import Function
from somf.data.images.files import files_of

force_option = click.option("--force", is_flag=True, help="Replace files that exist.")


def output_option(help: str, *, required: bool = True) -> Callable[[Function], Function]:
    """Return the decorator that gives a command the option --output."""
    return click.option(
        "-o", "--output", type=click.Path(), metavar="FILE", required=required, help=help
    )


def check_output(
    *paths: str, force: bool, inputs: Iterable[str | None] = (), is_folder: bool = False
) -> None:
    """Raise an error unless files can be written.

    Parameters
    ----------
    *paths : str
    force : bool
        Whether to replace files that exist.
    inputs : iterable of str or None
        Other files of the same command, which are not replaced even with `force`.
    is_folder : bool
        Whether the command writes folders, such as Zarr arrays.
    """
    others = [name for path in inputs if path is not None for name in files_of(path)]
    for path in paths:
        folder = os.path.dirname(path.rstrip(os.sep)) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"There is no folder {folder!r} to write {path!r} to.")
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"The folder {folder!r} of {path!r} cannot be written to.")
        for other in others:
            if _overlap(path, other):
                raise click.UsageError(
                    f"{path!r} would replace {other!r}, which the same command needs. "
                    "Write to another file."
                )
        if os.path.isdir(path) and not is_folder:
            raise IsADirectoryError(f"{path!r} is a folder. Write to another file.")
        if os.path.exists(path) and not force:
            raise FileExistsError(f"{path!r} exists. Add --force to replace it.")


def _overlap(one: str, other: str) -> bool:
    """Return whether two paths are the same file, or one is inside the folder that is the other."""
    if os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other):
        return True
    real = [os.path.realpath(path) for path in (one, other)]
    try:
        common = os.path.commonpath(real)
    except ValueError:  # they are on different drives
        return False
    return common in real
