"""Files that commands write: nothing is lost unless that is said, and it is said early."""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from somf.data.images.files import files_of

force_option = click.option("--force", is_flag=True, help="Replace what exists.")


def check_free(*paths: str, force: bool, beside: Iterable[str | None] = ()) -> None:
    """Raise an error, before any work is done, unless files can be written.

    Parameters
    ----------
    *paths : str
    force : bool
        Whether they may exist.
    beside : iterable of str or None
        Files of the same command that none of them may replace, whatever is said: what is read,
        and what else is written.
    """
    others = [name for path in beside if path is not None for name in files_of(path)]
    for path in paths:
        folder = os.path.dirname(path) or "."
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
        if os.path.exists(path) and not force:
            raise FileExistsError(f"{path!r} exists. Say --force to replace it.")


def _overlap(one: str, other: str) -> bool:
    """Return whether paths lead to the same file, or one into the folder that is the other."""
    if os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other):
        return True
    real = [os.path.realpath(path) for path in (one, other)]
    try:
        common = os.path.commonpath(real)
    except ValueError:  # they are on different drives
        return False
    return common in real


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Give the name under which to write a file or Zarr array, which gets its own at the end.

    If something goes wrong, what exists stays as it is, and at no time is there neither the old
    nor the new one.
    """
    is_folder = os.path.isdir(path)
    if is_folder and not any(
        os.path.exists(os.path.join(path, name)) for name in ("zarr.json", ".zarray")
    ):
        raise FileExistsError(f"{path!r} is a folder that is not a Zarr array. Remove it first.")
    beginning, kind = os.path.splitext(path.rstrip(os.sep))
    aside, before = (f"{beginning}.{secrets.token_hex(4)}{kind}" for _ in range(2))
    try:
        yield aside
        if is_folder:  # which no other folder can replace in one step
            os.replace(path, before)
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(before):
            os.replace(before, path)
        _remove(aside)
        raise
    _remove(before)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)
