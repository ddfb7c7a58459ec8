"""Zarr arrays on other machines, named by a URL and read through fsspec."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from somf.data.checks import gone
from somf.data.formats.checks import (
    SMALL,
    check_claim,
    check_dimensions,
    choose,
    guarded,
    not_in_file,
)
from somf.data.sources.sliced import SlicedSource
from somf.errors import (
    DamagedFileError,
    FileRequestError,
    MissingFileError,
    SomfError,
    UnknownKindError,
)
from somf.optional import import_optional
from somf.typing import Array

KIND = "a Zarr array or group"
"""What a URL must lead to."""

PURPOSE = "A URL"
"""What needs fsspec, in the error if it is not installed."""


def open_remote(url: str, name: str | None = None, dimensions: tuple[int, ...] = (2,)) -> Any:
    """Open an array, or the array of a group, that a URL leads to.

    Parameters
    ----------
    url : str
        With any protocol of fsspec, such as ``s3://`` or ``https://``.
    name : str, optional
        Its name in the group; may be left out if there is only one that qualifies, and the server
        lists what it has.
    dimensions : tuple of int
        How many dimensions it may have.

    Returns
    -------
    array : zarr.Array
    """
    zarr = import_optional("zarr", "remote", PURPOSE)
    _check_protocol(url)
    with guarded(url, KIND), _reached(url):
        store = zarr.storage.FsspecStore.from_url(url, read_only=True)
        node = zarr.open(store, mode="r")
        if isinstance(node, zarr.Group):
            node = _member(url, zarr, node, name, dimensions)
        elif name is not None:
            rule = f"not be given for the array {url!r}"
            raise FileRequestError(url, "dataset", rule, name)
        check_dimensions(url, node.shape, dimensions, name)
        _check_stored(url, node)
    return node


@contextmanager
def _reached(url: str) -> Iterator[None]:
    """Turn errors on the way to an array into errors that name its URL.

    Libraries have errors of their own for credentials, networks and servers. What is read while an
    array is opened are its metadata, which are wrong in few ways.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError(f"There is no Zarr array or group at {url!r}.") from error
    except (SomfError, ValueError, LookupError, TypeError):
        raise
    except Exception as error:
        number = getattr(error, "errno", None) or errno.EIO
        raise OSError(number, f"{type(error).__name__}: {error}", url) from error


def _check_protocol(url: str) -> None:
    """Raise an error if fsspec does not know the protocol, or needs a library for it."""
    fsspec = import_optional("fsspec", "remote", PURPOSE)
    protocol = url.partition("://")[0]
    try:
        fsspec.get_filesystem_class(protocol)
    except ValueError as error:
        raise UnknownKindError(
            f"{url!r} cannot be opened: {protocol!r} is not a protocol of fsspec."
        ) from error


def _member(url: str, zarr: Any, group: Any, name: str | None, dimensions: tuple[int, ...]) -> Any:
    """Return an array of a group."""
    if name is not None and name in group and isinstance(group[name], zarr.Array):
        return group[name]
    arrays = [(at, item) for at, item in group.members(max_depth=None) if hasattr(item, "dtype")]
    names = [at for at, item in arrays if item.ndim in dimensions]
    chosen = choose(url, names, name, dimensions)
    if chosen not in names:
        raise not_in_file(url, name, names)
    return dict(arrays)[chosen]


def _check_stored(url: str, array: Any) -> None:
    """Raise DamagedFileError if metadata promise more than is there, as far as this can be seen.

    An array that is far too long has no last chunk, and a chunk that is far too large would need
    more bytes than it has.
    """
    sizes = getattr(array, "shards", None) or array.chunks
    last = tuple((n - 1) // size for n, size in zip(array.shape, sizes, strict=True))
    if 0 in array.shape:
        return
    files = Files(url, array)
    if not files.has_chunk(last):
        raise DamagedFileError(
            f"{url!r} is damaged: it has no chunk {last}, which is the last one of an array of "
            f"shape {tuple(array.shape)}. If only a part was written, store that part."
        )
    n_bytes = prod(sizes) * array.dtype.itemsize
    if n_bytes > SMALL:
        check_claim(url, n_bytes, files.size_of(last))


class Files:
    """The files of an array that a URL leads to.

    Parameters
    ----------
    url : str
    array : zarr.Array
    """

    def __init__(self, url: str, array: Any) -> None:
        fsspec = import_optional("fsspec", "remote", PURPOSE)
        self._system, root = fsspec.core.url_to_fs(url)
        path = str(array.path)
        self._folder = f"{root.rstrip('/')}/{path}".rstrip("/")
        is_format_3 = array.metadata.zarr_format == 3
        self._metadata = f"{self._folder}/{'zarr.json' if is_format_3 else '.zarray'}"
        self._key = array.metadata.encode_chunk_key

    def has_chunk(self, at: tuple[int, ...]) -> bool:
        """Return whether a chunk is stored."""
        return bool(self._system.exists(f"{self._folder}/{self._key(at)}"))

    def size_of(self, at: tuple[int, ...]) -> int:
        """Return the bytes of a chunk."""
        return int(self._system.size(f"{self._folder}/{self._key(at)}") or 0)

    def is_there(self) -> bool:
        """Return whether the array is still there."""
        return bool(self._system.exists(self._metadata))


class RemoteSource(SlicedSource):
    """An array that a URL leads to.

    Parameters
    ----------
    X : zarr.Array of shape (n, p)
    transposed : bool
    url : str
    """

    small_read = 2**24  # chunks of one read are fetched at the same time

    def __init__(self, X: Any, transposed: bool, url: str) -> None:
        super().__init__(X, transposed, url)
        self.files = (url,)
        self._url, self._files = url, Files(url, X)

    def _slice(self, start: int, stop: int) -> Array:
        rows = super()._slice(start, stop)
        # A chunk that is not found reads as the fill value, also if the whole array is gone.
        is_constant = rows.size > 0 and bool(np.all(rows == rows.flat[0]))
        if is_constant and not self._files.is_there():
            raise gone(self._url)
        return rows

    @contextmanager
    def _naming_the_file(self, start: int, stop: int) -> Iterator[None]:
        """Name the URL in errors; one that is not of NumPy or a codec is of the connection."""
        try:
            with super()._naming_the_file(start, stop):
                yield
        except DamagedFileError as error:
            cause = error.__cause__
            if cause is None or isinstance(cause, ValueError | RuntimeError | SomfError):
                raise
            message = f"Rows {start} to {stop - 1} of {self._url!r} cannot be read: {cause}"
            raise OSError(message) from cause


def remote_source(url: str, name: str | None, transposed: bool) -> RemoteSource:
    """Open an array that a URL leads to as a source.

    Parameters
    ----------
    url : str
    name : str, optional
        See `open_remote`.
    transposed : bool
        Whether it is of shape (p, n).
    """
    return RemoteSource(open_remote(url, name), transposed, url)
