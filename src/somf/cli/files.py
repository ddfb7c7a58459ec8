"""Files that commands write: nothing is replaced unless that is said, and it is said early."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Give the name under which to write a file or Zarr array; what exists is replaced at the end.

    If something goes wrong, what exists stays as it is.
    """
    if not os.path.exists(path):
        yield path
        return
    is_folder = os.path.isdir(path)
    if is_folder and not any(
        os.path.exists(os.path.join(path, name)) for name in ("zarr.json", ".zarray")
    ):
        raise FileExistsError(f"{path!r} is a folder that is not a Zarr array. Remove it first.")
    beginning, kind = os.path.splitext(path)
    aside = f"{beginning}.{secrets.token_hex(4)}{kind}"
    yield aside
    if is_folder:
        shutil.rmtree(path)
    os.replace(aside, path)
