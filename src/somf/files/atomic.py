"""Atomic writes: a file gets its name only when it is complete."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from somf.errors import OutputExistsError
from somf.files.locking import HAS_LOCKS, try_to_lock

RANDOM_BYTES = 4
"""Random bytes in the name of a temporary file, two characters each."""

WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system that only a write has: a full disk, a quota, a limit of file sizes."""

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
    _check_may_replace(target, is_folder)
    temporary, handle = _temporary_name(target), None
    try:
        handle = _create(temporary, is_folder)
        yield temporary
        if fsync:
            _sync(temporary, os.O_RDWR)
        if os.path.isdir(target):
            _replace_folder(temporary, target)
        else:
            if previous is not None and os.path.exists(target):
                _keep(target, os.fspath(previous))
            os.replace(temporary, target)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError):
            _name_target(error, temporary, target)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    if fsync and os.name == "posix":  # other systems cannot open a folder
        _sync(os.path.dirname(target) or ".", os.O_RDONLY)


def _name_target(error: OSError, temporary: str, target: str) -> None:
    """Let an error name the file that was asked for, rather than the temporary one."""
    if isinstance(error.filename, str) and error.filename.startswith(temporary):
        error.filename = target + error.filename.removeprefix(temporary)
    elif error.filename is None and error.errno in WRITE_ERRORS:
        error.filename = target


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes have left beside a file.

    A file that a process is still writing is locked, and stays.
    """
    folder, name = os.path.split(os.fspath(path))
    for entry in list(os.scandir(folder or ".")):
        random = entry.name.removeprefix(f"{name}.").removesuffix(SUFFIX)
        is_ours = entry.name == f"{name}.{random}{SUFFIX}" and len(random) == 2 * RANDOM_BYTES
        if is_ours and entry.is_file(follow_symlinks=False):
            _remove_unless_locked(entry.path)


def _check_may_replace(target: str, is_folder: bool) -> None:
    """Raise OutputExistsError if a file or folder with this name must not be replaced."""
    if os.path.isdir(target):
        if not is_folder:
            raise OutputExistsError(f"{target!r} is a folder, which a file cannot replace.")
    elif os.path.exists(target) and not os.path.isfile(target):
        raise OutputExistsError(f"{target!r} is not a regular file, so it is not replaced.")


def _create(temporary: str, is_folder: bool) -> int | None:
    """Create a temporary file; return a handle that holds its lock, where there are locks."""
    if is_folder:
        os.mkdir(temporary)
        return None
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    if HAS_LOCKS and try_to_lock(handle):
        return handle
    os.close(handle)  # Windows does not rename an open file
    return None


def _remove_unless_locked(path: str) -> None:
    """Remove a temporary file, unless a process is still writing it."""
    if not HAS_LOCKS:
        _remove(path)
        return
    with suppress(OSError):  # another process has removed it, or it is that of another user
        handle = os.open(path, os.O_RDONLY)
        try:
            if try_to_lock(handle):
                _remove(path)
        finally:
            os.close(handle)


def _temporary_name(target: str) -> str:
    return f"{target}.{secrets.token_hex(RANDOM_BYTES)}{SUFFIX}"


def _keep(target: str, previous: str) -> None:
    """Give a file a second name, that of the previous file, which is replaced.

    The file keeps its own name until another file takes it, so that it is never missing.
    """
    second = _temporary_name(target)
    try:
        try:
            os.link(target, second)
        except OSError:  # the file system has no hard links
            shutil.copyfile(target, second)
        os.replace(second, previous)
    finally:
        _remove(second)  # it is still there if both names were those of one file already


def _replace_folder(temporary: str, target: str) -> None:
    """Give a folder its name; if that fails, the old folder keeps it."""
    old = _temporary_name(target)  # a folder cannot replace another one in one step
    try:
        os.replace(target, old)
        os.replace(temporary, target)
    except BaseException:
        if not os.path.lexists(target):
            os.replace(old, target)
        raise
    finally:
        if os.path.lexists(target):
            _remove(old)


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
