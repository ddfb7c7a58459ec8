"""Datasets of HDF5 files."""

import os
import weakref
from functools import partial
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.barcodes import warn_of_genes
from somf.data.formats.checks import (
    IMAGE,
    MATRIX,
    check_chunks,
    check_claim,
    check_dimensions,
    choose,
    guarded,
    not_in_file,
)
from somf.data.formats.coordinates import hdf5_coordinates
from somf.data.formats.feature_names import (
    anndata_names,
    is_anndata,
    names_of_10x,
    read_names,
)
from somf.data.formats.hdf5_external import ExternalDataset, external_files, names_of_external_files
from somf.data.formats.kinds import Kind, ending_of
from somf.data.formats.netcdf import packing_of
from somf.data.formats.sparse_groups import (
    SparseLayout,
    StoredEntries,
    sparse_layout,
    sparse_source,
)
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.plain_chunks import PlainChunks, has_chunks_of_rows
from somf.data.sources.scaled import Packing, Scaled
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError, FileRequestError, MissingFileError, UnknownKindError
from somf.optional import import_optional
from somf.typing import Array

MOST_LINKS = 16
"""Soft links that may lead to one another, as in HDF5."""


def open_dataset(
    path: str,
    name: str | None = None,
    dimensions: tuple[int, ...] = (2,),
    allow_external: bool = False,
) -> Any:
    """Open a dataset, whose file stays open for as long as the dataset is used.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the file; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it may have.
    allow_external : bool
        Whether it may be in another file, or consist of other files.

    Returns
    -------
    dataset : h5py.Dataset
    """
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    with guarded(path, "an HDF5 file"):
        file = h5py.File(path, "r")
        try:
            return _dataset(path, file, name, dimensions, allow_external)
        except BaseException:
            file.close()
            raise


def _dataset(
    path: str, file: Any, name: str | None, dimensions: tuple[int, ...], allow_external: bool
) -> Any:
    names = _candidates(path, file, dimensions, allow_external)
    names = names or _linked(path, file, dimensions, allow_external)
    chosen = choose(path, names, name, dimensions)
    dataset = follow(path, file, chosen, allow_external)
    if not hasattr(dataset, "dtype"):
        raise not_in_file(path, name, names)
    return _checked(path, dataset, chosen, dimensions, allow_external, is_named=name is not None)


def _candidates(
    path: str,
    file: Any,
    dimensions: tuple[int, ...],
    allow_external: bool,
    with_sparse: bool = False,
) -> list[str]:
    """Return the names of what may be meant: datasets and, for a matrix, sparse groups."""
    names: list[str] = []
    sparse: list[str] = []

    def collect(at: str, item: Any) -> None:
        is_in_a_cell = at.startswith("#")  # MATLAB keeps what cells refer to in #refs#
        if is_in_a_cell or not _may_be_numbers(item):
            return
        if not hasattr(item, "dtype"):
            if with_sparse and _layout(path, item) is not None:
                sparse.append(at)
            return
        # To learn the shape of a virtual dataset, HDF5 may open other files.
        is_refused = not allow_external and names_of_external_files(item)
        if is_refused or item.ndim in dimensions:
            names.append(at)

    file.visititems(collect)
    parts = tuple(f"{name}/" for name in sparse)
    return sparse + [name for name in names if not name.startswith(parts)]


def _linked(path: str, file: Any, dimensions: tuple[int, ...], allow_external: bool) -> list[str]:
    """Return the names of links to datasets in other files; of all links if none may be opened."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    links = [at for at in file if isinstance(file.get(at, getlink=True), h5py.ExternalLink)]
    if not allow_external:
        return links
    found = {at: follow(path, file, at, allow_external) for at in links}
    return [
        at
        for at, item in found.items()
        if hasattr(item, "dtype") and _may_be_numbers(item) and item.ndim in dimensions
    ]


def _shapes(
    path: str, file: Any, names: list[str], allow_external: bool
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the only matrix, if it is dense, and of images beside it."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    link = file.get(names[0], getlink=True) if len(names) == 1 else None
    if not isinstance(link, h5py.HardLink):
        return {}
    held = [file[at] for at in (*names, *_candidates(path, file, IMAGE, allow_external))]
    return {
        item.name.lstrip("/"): item.shape
        for item in held
        if hasattr(item, "dtype") and not names_of_external_files(item)
    }


def _may_be_numbers(item: Any) -> bool:
    """Return whether something is a group, or numbers and not what MATLAB encodes as numbers."""
    if not hasattr(item, "dtype"):
        return True
    is_text = item.attrs.get("MATLAB_class") in (b"char", b"cell", b"struct")
    return is_real(item.dtype) and not is_text


def _checked(
    path: str,
    dataset: Any,
    name: str,
    dimensions: tuple[int, ...],
    allow_external: bool,
    is_named: bool,
) -> Any:
    """Return a dataset, after checks of where its numbers are and of the sizes that it declares."""
    others = names_of_external_files(dataset)
    if others and not allow_external:
        raise _refused(path, name, others[0])
    check_dimensions(path, dataset.shape, dimensions, name if is_named else None)
    check_chunks(path, dataset, dataset.id.get_storage_size())
    # Some chunks may be missing, and read as the fill value, but not nearly all of them.
    files = external_files(dataset)
    stored = dataset.id.get_storage_size() if files is None else files.n_bytes
    check_claim(path, dataset.nbytes, stored)
    if files is not None:
        files.check(0, dataset.shape[0])
    return dataset


def follow(path: str, group: Any, name: str, allow_external: bool, n_links: int = 0) -> Any:
    """Return what a name in a group stands for, or None; a link out of the file may be refused.

    HDF5 itself would open the other file in order to find out.
    """
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    if n_links > MOST_LINKS:
        raise DamagedFileError(f"{path!r} is damaged: its links lead nowhere.")
    here = group.file if name.startswith("/") else group
    for part in (part for part in name.split("/") if part not in ("", ".")):
        link = here.get(part, getlink=True) if isinstance(here, h5py.Group) else None
        if isinstance(link, h5py.SoftLink):
            here = follow(path, here, link.path, allow_external, n_links + 1)
        elif isinstance(link, h5py.ExternalLink):
            if not allow_external:
                raise _refused(path, name, link.filename)
            target = here.get(part)
            if target is None:
                raise MissingFileError(
                    f"{name!r} in {path!r} is a link to {link.path!r} in {link.filename!r}, which "
                    "is not there."
                )
            here = target
        else:
            here = None if link is None else here[part]
    return here


def _refused(path: str, name: str, other: str) -> FileRequestError:
    rule = f"be True to read {name!r} in {path!r}, which is in another file, {other!r}"
    hint = "Allow it if you trust the file: somf.data.open_source(path, allow_external=True)."
    return FileRequestError(path, "allow_external", rule, False, hint)


def hdf5_source(
    path: str,
    name: str | None,
    transposed: bool,
    allow_external: bool = False,
    is_of_matlab: bool = False,
) -> Source:
    """Open a dataset, or a group that holds a sparse matrix, as the source that suits its layout.

    Parameters
    ----------
    path : str
    name : str, optional
        See `open_dataset`. For a file of AnnData it is X if it is left out.
    transposed : bool
        Whether it is of shape (p, n).
    allow_external : bool
        See `open_dataset`.
    is_of_matlab : bool
        Whether the file is one of MATLAB, which stores the transposed of dense matrices.
    """
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    with guarded(path, "an HDF5 file"):
        file = h5py.File(path, "r")
        try:
            return _matrix(path, file, name, transposed, allow_external, is_of_matlab)
        except BaseException:
            file.close()
            raise


def hdf5_group_source(group: Any) -> Source:
    """Return the sparse matrix that an open group holds as a source.

    Parameters
    ----------
    group : h5py.Group
        Of a file that stays open.
    """
    path = str(group.file.filename)
    with guarded(path, "an HDF5 file"):
        layout = _layout(path, group)
        if layout is None:
            raise ValueError(f"{group.name!r} is not a sparse matrix")
        return sparse_source(_stored_entries(path, group, layout), layout, False, path)


def hdf5_is_anndata(path: str) -> bool:
    """Return whether a file is an AnnData object."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    with guarded(path, "an HDF5 file"), h5py.File(path, "r") as file:
        return is_anndata(file)


def _matrix(
    path: str,
    file: Any,
    name: str | None,
    transposed: bool,
    allow_external: bool,
    is_of_matlab: bool,
) -> Source:
    wanted = "X" if name is None and is_anndata(file) else name
    get = partial(follow, path, file, allow_external=allow_external)
    node = None if wanted is None else get(wanted)
    if node is None or not (hasattr(node, "dtype") or _layout(path, node)):
        names = _candidates(path, file, MATRIX, allow_external, with_sparse=True)
        names = names or _linked(path, file, MATRIX, allow_external)
        wanted = choose(path, names, name, shapes=_shapes(path, file, names, allow_external))
        node = get(wanted)
        if wanted not in names:
            raise not_in_file(path, name, names)
    assert wanted is not None
    layout = _layout(path, node)
    if layout is None:
        _checked(path, node, wanted, MATRIX, allow_external, is_named=name is not None)
        source = _dense_source(path, node, transposed != is_of_matlab)
    else:
        source = sparse_source(_stored_entries(path, node, layout), layout, transposed, path)
    if is_anndata(file):
        found = anndata_names(get, wanted, transposed)
        source.feature_names = read_names(path, found, source.shape[1])
    elif layout is not None and layout.is_of_10x:
        if not transposed:
            warn_of_genes(path)
        found = names_of_10x(partial(follow, path, node, allow_external=False), transposed)
        source.feature_names = read_names(path, found, source.shape[1])
    elif layout is None and not is_of_matlab:
        source.channels = hdf5_coordinates(node, 0 if transposed else 1)
        source.feature_names = source.channels.texts if source.channels else None
    return source


def _layout(path: str, node: Any) -> SparseLayout | None:
    """Return how a group stores a sparse matrix; None for a dataset, and for another group."""
    if hasattr(node, "dtype"):
        return None
    return sparse_layout(node, partial(follow, path, node, allow_external=False))


def _stored_entries(path: str, group: Any, layout: SparseLayout) -> StoredEntries:
    """Return the three arrays of a sparse matrix, none of which may be in another file."""
    arrays = [follow(path, group, name, allow_external=False) for name in layout.names]
    for array, name in zip(arrays, layout.names, strict=True):
        if not hasattr(array, "dtype"):
            raise ValueError(f"{group.name!r} is a sparse matrix without {name!r}")
        others = names_of_external_files(array)
        if others:
            raise UnknownKindError(
                f"{group.name!r} in {path!r} cannot be read: {name!r} of a sparse matrix must be "
                f"in the file itself, got {others[0]!r}."
            )
    stored = sum(array.id.get_storage_size() for array in arrays)
    data, indices = (_mapped_or_same(array, path) for array in arrays[:2])
    return StoredEntries(data, indices, arrays[2], stored, lambda *_: None)


def _mapped_or_same(array: Any, path: str) -> Any:
    mapped = map_dataset(array, path)
    return array if mapped is None else mapped


def _dense_source(path: str, dataset: Any, transposed: bool) -> Source:
    files = external_files(dataset)
    packing = packing_of(dataset.attrs) if _is_netcdf(dataset.file) else Packing()
    if files is not None and not packing.is_trivial:
        raise UnknownKindError(
            f"{dataset.name!r} in {path!r} cannot be read: packed numbers (scale_factor, "
            "add_offset, _FillValue) must be in the file itself. Open the files with the parts "
            "instead."
        )
    if files is not None:
        return ExternalDataset(dataset, transposed, path, files)
    if not packing.is_trivial:
        return SlicedSource(Scaled(dataset, packing), transposed, path)
    mapped = map_dataset(dataset, path)
    if mapped is not None:
        return ArraySource(mapped.T if transposed else mapped)
    is_raw = _is_plain(dataset, path) and dataset.id.get_create_plist().get_nfilters() == 0
    if is_raw and not transposed and has_chunks_of_rows(dataset):
        return PlainDataset(dataset, path)
    return SlicedSource(dataset, transposed, path)


def _is_netcdf(file: Any) -> bool:
    return "_NCProperties" in file.attrs or ending_of(file.filename) in Kind.NETCDF.endings


def map_dataset(dataset: Any, path: str) -> Array | None:
    """Map a dataset into memory if it lies in the file in one piece; return None if not."""
    offset = dataset.id.get_offset() if _is_plain(dataset, path) else None
    if offset is None:
        return None
    with guarded(path, "an HDF5 file"):
        return np.memmap(path, dataset.dtype, "r", offset, dataset.shape)


def _is_plain(dataset: Any, path: str) -> bool:
    """Return whether bytes in the file itself are the numbers that h5py would return."""
    h5py = import_optional("h5py", "hdf5", "An HDF5 file")
    return bool(
        dataset.file.driver == "sec2"
        and not dataset.file.userblock_size
        and not (dataset.is_virtual or dataset.external)
        and os.path.samefile(dataset.file.filename, path)  # else it was reached by a link
        and dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))  # else h5py converts
    )


class PlainDataset(PlainChunks):
    """A dataset whose chunks are whole rows, not compressed, read from the file itself.

    Parameters
    ----------
    X : h5py.Dataset of shape (n, p)
    path : str
    """

    def __init__(self, X: Any, path: str) -> None:
        super().__init__(X, path)
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._offsets: dict[int, int | None] = {}

    def _prefetch_bytes(self, chunk: int, offset: int, length: int) -> None:
        start = self._start(chunk)
        if start is not None:
            os.posix_fadvise(self._file, start + offset, length, os.POSIX_FADV_WILLNEED)

    def _read_bytes(self, chunk: int, offset: int, out: memoryview) -> bool:
        start = self._start(chunk)
        if start is None:
            return False
        if os.preadv(self._file, [out], start + offset) != len(out):
            raise ValueError("the file ends before them.")  # h5py would return zeros
        return True

    def _start(self, chunk: int) -> int | None:
        """Return where in the file a chunk is, or None if it was never written."""
        if chunk not in self._offsets:  # h5py is slow, and holds the GIL
            found = self.X.id.get_chunk_info_by_coord((chunk * self._rows_per_chunk, 0))
            is_whole = found.byte_offset is not None and found.size == self._chunk_bytes
            self._offsets[chunk] = found.byte_offset if is_whole else None
        return self._offsets[chunk]
