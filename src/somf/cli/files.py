"""Files that commands write: nothing is replaced unless that is said, and it is said early."""

import os
import shutil

import click

force_option = click.option("--force", is_flag=True, help="Replace what exists.")


def check_free(*paths: str, force: bool) -> None:
    """Raise an error, before any work is done, unless files can be written.

    Parameters
    ----------
    *paths : str
    force : bool
        Whether they may exist.
    """
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"There is no folder {folder!r} to write {path!r} to.")
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"The folder {folder!r} of {path!r} cannot be written to.")
        if os.path.exists(path) and not force:
            raise FileExistsError(f"{path!r} exists. Say --force to replace it.")


def make_way(path: str) -> None:
    """Remove a folder, such as a Zarr array, that is to be replaced; files are replaced as such."""
    if os.path.isdir(path):
        if not any(os.path.exists(os.path.join(path, name)) for name in ("zarr.json", ".zarray")):
            raise FileExistsError(
                f"{path!r} is a folder that is not a Zarr array. Remove it first."
            )
        shutil.rmtree(path)
