"""Sources of many files, of which only some are open at a time."""

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock

from somf.data.checks import gone
from somf.data.source import Source, View
from somf.errors import DamagedFileError
from somf.typing import Array, Ints, Rows

FEW_FILES = 64
"""Files that are kept open in any case."""

SHARE_OF_DESCRIPTORS = 8
"""One part in so many of the descriptors that a process may have is for files that stay open."""


def open_some(openers: Sequence[Callable[[], Source]], paths: Sequence[str]) -> list[Source]:
    """Open files, and keep open as many of them as the limit on descriptors allows.

    Parameters
    ----------
    openers : sequence of callable
        Each opens a file.
    paths : sequence of str

    Returns
    -------
    sources : list of Source
        If there are many files, each of these opens its file when rows are read.
    """
    most = most_open()
    if len(openers) <= most:
        return [open_it() for open_it in openers]
    sources = OpenSources(most)
    parts: list[Source] = []
    for open_it, path in zip(openers, paths, strict=True):
        version = version_of(os.stat(path))
        source = open_it()
        if source.is_in_memory or os.path.isdir(path):  # a folder of chunks is never open
            parts.append(source)
        else:
            parts.append(ReopenedSource(open_it, path, version, source, sources))
    return parts


def most_open() -> int:
    """Return how many files of a source may be open at a time."""
    try:
        import resource
    except ImportError:  # Windows
        return FEW_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else max(FEW_FILES, soft // SHARE_OF_DESCRIPTORS)


class OpenSources:
    """The sources that were used last.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str) -> Source | None:
        """Return the source of a file if it is open."""
        with self._lock:
            if path not in self._sources:
                return None
            self._sources.move_to_end(path)
            return self._sources[path]

    def put(self, path: str, source: Source) -> None:
        """Keep a source; the one that was not used for the longest time is closed."""
        closed = []  # their files are closed after the lock is released
        with self._lock:
            self._sources[path] = source
            self._sources.move_to_end(path)
            while len(self._sources) > self.most:
                closed.append(self._sources.popitem(last=False))


class ReopenedSource(Source):
    """A source that is opened again when it is needed.

    Parameters
    ----------
    open_it : callable
        Opens the source.
    path : str
        Its file or folder.
    version : tuple of int
        That of the file before it was opened.
    source : Source
        It, opened for the first time.
    sources : OpenSources
        Where open sources are kept.
    """

    def __init__(
        self,
        open_it: Callable[[], Source],
        path: str,
        version: tuple[int, ...],
        source: Source,
        sources: OpenSources,
    ) -> None:
        self._open_it, self._path, self._version, self._sources = open_it, path, version, sources
        self.shape, self.dtype, self.chunk_starts = source.shape, source.dtype, source.chunk_starts
        self.supports_partial_chunks = source.supports_partial_chunks
        self.is_sparse, self.reads_in_parallel = source.is_sparse, source.reads_in_parallel
        self.feature_names, self.channels = source.feature_names, source.channels
        self._entries_per_row, self._stored_share = source.entries_per_row, source.stored_share
        sources.put(path, source)

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        return self._entries_per_row

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored."""
        return self._stored_share

    def rows(self, ids: Ints) -> Rows:
        """Return samples as a new array."""
        return self._opened().rows(ids)

    def view(self, ids: Ints) -> View:
        """Return an array that holds samples."""
        return self._opened().view(ids)

    def prefetch(self, ids: Ints) -> None:
        """Let the system read samples."""
        if self.reads_in_parallel:
            with suppress(Exception):  # reading the rows will raise it again
                self._opened().prefetch(ids)

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array."""
        self._opened().read(start, stop, out)

    def _opened(self) -> Source:
        source = self._sources.get(self._path)
        if source is None:
            try:
                status = os.stat(self._path)
            except FileNotFoundError as error:
                raise gone(self._path) from error
            if version_of(status) != self._version:
                raise DamagedFileError(f"{self._path!r} was changed while it was in use.")
            source = self._open_it()
            self._sources.put(self._path, source)
        return source


def version_of(status: os.stat_result) -> tuple[int, ...]:
    """Return numbers that change when a file is replaced or written to."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
