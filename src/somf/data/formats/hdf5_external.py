"""HDF5 datasets whose numbers are in other files: external storage and virtual datasets.

HDF5 does not tell when such a file cannot be read: it returns zeros or the fill value. So the files
are checked here, when a dataset is opened and after each time that rows are read.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from threading import RLock
from typing import Any

from somf.data.formats.checks import guarded
from somf.data.sources.reopened import version_of
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError, MissingFileError, UnknownKindError
from somf.optional import import_optional
from somf.typing import Array

SAME_FILE = "."
"""How a virtual dataset names the file that it is in."""

MOST_SOURCES_OPEN = 64
"""Files of a virtual dataset that HDF5 may keep open."""


class ExternalFiles(ABC):
    """The files that hold the numbers of a dataset.

    Attributes
    ----------
    n_bytes : int
        How many bytes they hold.
    """

    n_bytes: int

    @abstractmethod
    def check(self, start: int, stop: int, axis: int = 0) -> set[str]:
        """Raise an error unless all entries with an index from `start` to `stop` are there.

        Parameters
        ----------
        start, stop : int
        axis : int

        Returns
        -------
        files : set of str
            The files that hold these entries.
        """


def external_files(dataset: Any) -> ExternalFiles | None:
    """Return the files that hold the numbers of a dataset, or None if its own file does."""
    if dataset.is_virtual:
        return VirtualFiles(dataset)
    return RawFiles(dataset) if dataset.external else None


def names_of_external_files(dataset: Any) -> list[str]:
    """Return the names of other files that a dataset needs, as it gives them; none is opened."""
    if dataset.is_virtual:
        names = {source.file_name for source in dataset.virtual_sources()}
        return sorted(names - {SAME_FILE})
    return [name for name, _, _ in dataset.external or ()]


class RawFiles(ExternalFiles):
    """Files of external storage, which hold nothing but numbers.

    Parameters
    ----------
    dataset : h5py.Dataset
    """

    def __init__(self, dataset: Any) -> None:
        origin = os.path.dirname(os.path.abspath(dataset.file.filename))
        prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", origin)
        self.ends: dict[str, int] = {}
        left = self.n_bytes = int(dataset.nbytes)
        for name, offset, size in dataset.external:
            file, used = os.path.join(prefix, name), min(left, int(size))
            if used:  # a file of which nothing is needed need not exist
                self.ends[file] = max(self.ends.get(file, 0), int(offset) + used)
            left -= used

    def check(self, start: int, stop: int, axis: int = 0) -> set[str]:  # noqa: ARG002 (all files)
        """Raise an error unless every file is as long as it must be."""
        for file, end in self.ends.items():
            size = _status(file).st_size
            if size < end:
                raise DamagedFileError(f"{file!r} is damaged: it has {size:,} of {end:,} bytes.")
        return set()  # HDF5 closes them after each read


@dataclass(frozen=True)
class Piece:
    """A piece of a virtual dataset, and the dataset that holds it.

    Parameters
    ----------
    first, last : tuple of int
        The corners of the piece in the virtual dataset.
    n_entries : int
    file : str
        As the virtual dataset names it.
    name : str
        Of the dataset in that file.
    end : tuple of int or None
        The last corner of the piece in that dataset; None if it is all of it.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    n_entries: int
    file: str
    name: str
    end: tuple[int, ...] | None


class VirtualFiles(ExternalFiles):
    """Files with the datasets of which a virtual dataset consists.

    Parameters
    ----------
    dataset : h5py.Dataset
    """

    def __init__(self, dataset: Any) -> None:
        self.path: str = os.path.abspath(dataset.file.filename)
        self.pieces = [_piece(self.path, source) for source in dataset.virtual_sources()]
        self._checked: dict[Piece, tuple[int, ...]] = {}
        self.n_bytes = sum(self._check_dataset(piece, self._find(piece)) for piece in self.pieces)

    def check(self, start: int, stop: int, axis: int = 0) -> set[str]:
        """Raise an error unless the datasets that hold these entries are there, and as large."""
        files = set()
        for piece in self.pieces:
            if piece.first[axis] < stop and piece.last[axis] >= start:
                file = self._find(piece)
                if self._checked.get(piece) != version_of(_status(file)):
                    self._check_dataset(piece, file)
                files.add(file)
        return files - {self.path}

    def _find(self, piece: Piece) -> str:
        """Return the first of the files in which HDF5 looks for a piece."""
        if piece.file == SAME_FILE:
            return self.path
        name = os.path.basename(piece.file) if os.path.isabs(piece.file) else piece.file
        folders = [
            *filter(None, os.environ.get("HDF5_VDS_PREFIX", "").split(os.pathsep)),
            os.path.dirname(self.path),
            os.curdir,
            os.path.dirname(os.path.realpath(self.path)),
        ]
        origin = os.path.dirname(self.path)
        candidates = [os.path.join(f.replace("${ORIGIN}", origin), name) for f in folders]
        if os.path.isabs(piece.file):
            candidates.insert(0, piece.file)
        return next(filter(os.path.exists, candidates), candidates[0])

    def _check_dataset(self, piece: Piece, path: str) -> int:
        """Raise an error unless a dataset holds a piece; return how many bytes it stores."""
        h5py = import_optional("h5py", "hdf5", "An HDF5 file")
        version = version_of(_status(path))
        with guarded(path, "an HDF5 file"), h5py.File(path, "r") as file:
            if _links_out(file, piece.name):
                raise _not_supported(self.path, f"{piece.name!r} in {path!r} is a link, and not")
            dataset = file.get(piece.name)
            if not hasattr(dataset, "dtype"):
                raise MissingFileError(f"{path!r} holds no dataset {piece.name!r}.")
            if dataset.is_virtual or dataset.external:
                raise _not_supported(self.path, f"{piece.name!r} in {path!r} is itself not")
            _check_holds(path, dataset, piece)
            stored = int(dataset.id.get_storage_size())
        self._checked[piece] = version
        return stored


class ExternalDataset(SlicedSource):
    """A dataset whose numbers are in other files.

    Parameters
    ----------
    X : h5py.Dataset of shape (n, p) or (p, n)
    transposed : bool
    path : str
    files : ExternalFiles
    """

    def __init__(self, X: Any, transposed: bool, path: str, files: ExternalFiles) -> None:
        super().__init__(X, transposed, path)
        self._files, self._in_use = files, set[str]()
        self._lock = RLock()

    def _slice(self, start: int, stop: int) -> Array:
        with self._lock:
            try:
                return super()._slice(start, stop)
            except DamagedFileError:
                self._confirm(start, stop)  # it knows better what is wrong
                raise

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array."""
        with self._lock:
            try:
                super().read(start, stop, out)
            except DamagedFileError:
                self._confirm(start, stop)
                raise

    def _confirm(self, start: int, stop: int) -> None:
        self._in_use |= self._files.check(start, stop, int(self.transposed))
        if len(self._in_use) > MOST_SOURCES_OPEN:
            file, name = self.X.file, self.X.name
            self.X = None  # HDF5 closes the files with the last reference to the dataset
            self.X = file[name]
            self._in_use.clear()


def _piece(path: str, source: Any) -> Piece:
    """Return a piece of a virtual dataset."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    names = (source.file_name, source.dset_name)
    if any("%" in name.replace("%%", "") for name in names):
        raise _not_supported(path, "a pattern names some of its parts, which are not")
    try:
        first, last = source.vspace.get_select_bounds()
        is_all = source.src_space.get_select_type() == h5py.h5s.SEL_ALL
        end = None if is_all else source.src_space.get_select_bounds()[1]
    except (ValueError, RuntimeError) as error:  # HDF5 does not know them
        raise _not_supported(path, "some of its parts may grow, and are not") from error
    n_entries = int(source.vspace.get_select_npoints())
    file, name = (name.replace("%%", "%") for name in names)
    return Piece(first, last, n_entries, file, name, end)


def _links_out(file: Any, name: str) -> bool:
    """Return whether a name in a file leads to another file."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    parts = name.strip("/").split("/")
    for n in range(1, len(parts) + 1):
        if isinstance(file.get("/".join(parts[:n]), getlink=True), h5py.ExternalLink):
            return True
    found = file.get(name)  # soft links may lead to external ones
    return found is not None and found.file.filename != file.filename


def _check_holds(path: str, dataset: Any, piece: Piece) -> None:
    if piece.end is None:
        is_there = dataset.size == piece.n_entries
    else:
        is_there = len(piece.end) == dataset.ndim and all(
            last < length for last, length in zip(piece.end, dataset.shape, strict=True)
        )
    if not is_there:
        raise DamagedFileError(
            f"{path!r} does not hold what a virtual dataset needs: {piece.name!r} is of shape "
            f"{dataset.shape}."
        )


def _not_supported(path: str, what: str) -> UnknownKindError:
    return UnknownKindError(
        f"The virtual dataset in {path!r} cannot be read: {what} stored in one file. Open the "
        "files with its parts instead: somf.data.open_source([path, …], dataset=…)."
    )


def _status(path: str) -> os.stat_result:
    """Return the status of a file, after a check that it can be opened."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # does not wait for a pipe
    except FileNotFoundError as error:
        raise MissingFileError(f"{path!r} is not there.") from error
    try:
        return os.fstat(file)
    finally:
        os.close(file)
