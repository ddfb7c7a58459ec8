"""Atomic writes: a file gets its name only when it is complete."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

RANDOM_BYTES = 4
"""Random bytes in the name of a temporary file, two characters each."""

SUFFIX = ".part"
"""How the name of a temporary file ends."""


@contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    *,
    is_folder: bool = False,
    fsync: bool = False,
    previous: str | os.PathLike[str] | None = None,
) -> Iterator[str]:
    """Give a temporary file in the same folder, and rename it at the end of the context.

    A reader sees the old file or the new one, never a part of one. After an error the old file is
    unchanged, and the temporary one is removed. The permissions are those of any new file: the
    umask of the process applies.

    Parameters
    ----------
    path : path-like
        The file to write. One that exists is replaced.
    is_folder : bool
        Whether to write a folder, such as a Zarr array. Only then a folder is replaced.
    fsync : bool
        Whether to write the file through to the disk before it is renamed, and then its name.
    previous : path-like, optional
        Where to keep the file that is replaced.

    Yields
    ------
    temporary : str
        An empty file, or an empty folder.
    """
    target = os.fspath(path).rstrip(os.sep)
    if os.path.isdir(target) and not is_folder:
        raise IsADirectoryError(f"{target!r} is a folder, which a file cannot replace.")
    temporary = _temporary_name(target)
    if is_folder:
        os.mkdir(temporary)
    else:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        if fsync:
            _sync(temporary, os.O_RDWR)
        _rename(temporary, target, previous, is_folder)
    except BaseException:
        _remove(temporary)
        raise
    if fsync and os.name == "posix":  # other systems cannot open a folder
        _sync(os.path.dirname(target) or ".", os.O_RDONLY)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes have left beside a file."""
    folder, name = os.path.split(os.fspath(path))
    for entry in list(os.scandir(folder or ".")):
        random = entry.name.removeprefix(f"{name}.").removesuffix(SUFFIX)
        is_ours = entry.name == f"{name}.{random}{SUFFIX}" and len(random) == 2 * RANDOM_BYTES
        if is_ours and entry.is_file(follow_symlinks=False):
            _remove(entry.path)


def _temporary_name(target: str) -> str:
    return f"{target}.{secrets.token_hex(RANDOM_BYTES)}{SUFFIX}"


def _rename(
    temporary: str, target: str, previous: str | os.PathLike[str] | None, is_folder: bool
) -> None:
    """Give the temporary file its name; if that fails, the old file keeps it."""
    kept = previous
    if kept is None and is_folder and os.path.isdir(target):
        kept = _temporary_name(target)  # a folder cannot replace another one in one step
    if kept is None or not os.path.exists(target):
        os.replace(temporary, target)
        return
    os.replace(target, kept)
    try:
        os.replace(temporary, target)
    except BaseException:
        os.replace(kept, target)
        raise
    if previous is None:
        _remove(os.fspath(kept))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
