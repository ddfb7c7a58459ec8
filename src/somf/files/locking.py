"""Locks between processes; a system without `fcntl`, such as Windows, has none."""

import os
import socket
import stat

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment] # a module, or none

MAGIC = "somf lock:"
"""How the content of a lock file begins."""

LONGEST_OWNER = 2**10
"""Bytes of a lock file that are read."""

OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a lock file is opened: no link is followed, and a FIFO does not block."""


HAS_LOCKS = fcntl is not None
"""Whether the system has locks."""


def try_to_lock(handle: int) -> bool:
    """Lock an open file until it is closed; return False if another process has locked it.

    Parameters
    ----------
    handle : int
        A file descriptor. Where the system or the file system has no locks, nothing is done.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


class InUse(Exception):  # noqa: N818 (the caller makes an error of it)
    """A lock file cannot be locked.

    Parameters
    ----------
    owner : str or None
        The process that has locked it, in words; None if the file is not a lock file of somf.
    """

    def __init__(self, owner: str | None) -> None:
        super().__init__(owner)
        self.owner = owner


class LockFile:
    """A file that is locked, and names its owner, as long as it is acquired.

    The system releases the lock of a killed process; its file is used again.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self) -> None:
        """Create and lock the file, or raise `InUse`.

        A folder in which no file can be created has nothing that could be overwritten, so there
        nothing is locked.
        """
        while fcntl is not None and self._handle is None:
            try:
                handle = os.open(self.path, OPEN_FLAGS, 0o666)
            except OSError:
                is_file = os.path.isfile(self.path) and not os.path.islink(self.path)
                if os.path.lexists(self.path) and not is_file:
                    raise InUse(None) from None
                return
            try:
                self._claim(handle)
            finally:
                if self._handle is None:
                    os.close(handle)

    def _claim(self, handle: int) -> None:
        """Lock an open file and write the owner to it, unless it has just been removed."""
        is_locked, content = try_to_lock(handle), _content(handle)
        if content is None or not MAGIC.startswith(content[: len(MAGIC)]):
            raise InUse(None)
        if not is_locked:
            raise InUse(content.removeprefix(MAGIC).strip() or "another process")
        if _is_same_file(handle, self.path):
            os.ftruncate(handle, 0)
            owner = f"{MAGIC} process {os.getpid()} on {socket.gethostname()}\n"
            os.pwrite(handle, owner.encode(), 0)
            self._handle = handle

    def release(self) -> None:
        """Remove and unlock the file."""
        if self._handle is not None and fcntl is not None:
            handle, self._handle = self._handle, None
            try:
                if _is_same_file(handle, self.path):
                    os.unlink(self.path)
            except OSError:  # the next process uses the file again
                pass
            finally:
                # A process that was forked meanwhile has the same lock: it ends here for both.
                fcntl.flock(handle, fcntl.LOCK_UN)
                os.close(handle)


def _content(handle: int) -> str | None:
    """Return the beginning of a file as text; None if it is not a regular file."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        return None
    return os.pread(handle, LONGEST_OWNER, 0).decode(errors="replace")


def _is_same_file(handle: int, path: str) -> bool:
    """Return whether a path still leads to an open file: its owner may have removed it."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
