"""From an object or a path to a source."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from somf.data.checks import check_compressed, check_not_empty, check_real, check_two_dimensions
from somf.data.formats.checks import check_dimensions
from somf.data.formats.hdf5 import hdf5_source
from somf.data.formats.kinds import (
    HDF5,
    IMAGES,
    MATRICES,
    ending_of,
    envi_header_of,
    files_matching,
)
from somf.data.formats.npy import map_npy, map_raw, read_csr
from somf.data.formats.zarr import zarr_source
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.frames import frame_source, is_frame
from somf.data.sources.labelled import data_array_source, signal_source
from somf.data.sources.lazy import DaskSource
from somf.data.sources.recognition import is_dask_array, is_data_array, is_signal
from somf.data.sources.reopened import open_some
from somf.data.sources.sliced import SlicedSource
from somf.data.sources.sparse import CsrSource
from somf.data.sources.stacked import StackedSource
from somf.errors import (
    DamagedFileError,
    DataError,
    FileRequestError,
    MissingFileError,
    ParameterError,
    UnknownKindError,
)
from somf.typing import Array

PathLike: TypeAlias = str | os.PathLike[str]
"""What the functions of the standard library take as a path."""


def as_source(X: Any) -> Source:
    """Return X as a source.

    Arrays, memory maps and CSR matrices are used as they are, without a copy, and so is any other
    object with `shape`, `dtype` and slices of rows; paths are opened by their kind. Other sparse
    formats are converted to CSR, and data frames, lists and object arrays to arrays.

    Parameters
    ----------
    X : array-like, sparse matrix, path, Source, or list of paths, sources or memory maps
        The rows of the items of a list are stacked.

    Returns
    -------
    source : Source

    Raises
    ------
    DataError
        If X is not a matrix of real numbers, or is empty.
    """
    if isinstance(X, list | tuple) and len(X) == 0:
        raise DataError("X must have samples, or be a list of files, got an empty list.")
    if isinstance(X, Source):
        source = X
    elif _is_path(X) or _is_list_of_paths(X):
        return open_source(X)
    elif _is_list_of_sources(X):
        parts = [as_source(x) for x in X]
        return StackedSource(parts, [f"part {i}" for i in range(len(parts))])
    elif sp.issparse(X):
        check_two_dimensions(X.ndim)
        check_compressed(X)  # before SciPy converts it
        source = CsrSource(sp.csr_array(X))
    elif is_frame(X):
        source = frame_source(X)
    elif is_data_array(X):
        source = data_array_source(X)
    elif is_signal(X):
        source = signal_source(X)
    elif not isinstance(X, np.ndarray) and _has_slices(X):
        check_two_dimensions(len(X.shape))
        source = DaskSource(X) if is_dask_array(X) else SlicedSource(X)
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        check_two_dimensions(array.ndim)
        source = ArraySource(array.astype(np.float64) if array.dtype.kind == "O" else array)
    check_real(source.dtype)
    check_not_empty(source.shape)
    return source


def open_source(
    path: PathLike | Sequence[PathLike],
    *,
    dataset: str | None = None,
    shape: tuple[int, int] | None = None,
    dtype: Any = None,
    transposed: bool = False,
    allow_external: bool = False,
) -> Source:
    """Open a matrix on disk; rows are read when they are needed.

    ====================== =====================================================================
    ``.npy``               mapped into memory
    ``.npz``               CSR matrix of `scipy.sparse.save_npz`, read at once
    ``.h5 .hdf5 .he5``     HDF5 dataset (``somf[hdf5]``)
    ``.zarr``, a directory Zarr array, or an array in a group (``somf[zarr]``)
    anything else          raw numbers, with `shape` and `dtype`
    ====================== =====================================================================

    Parameters
    ----------
    path : path-like, or sequence of them
        A file, a pattern such as ``"scans/*.npy"`` (taken in alphabetical order), or several files;
        the rows of several files are stacked.
    dataset : str, optional
        Name of the matrix in an HDF5 file or a Zarr group; needed if there are several.
    shape : tuple of (int, int), optional
        Shape of raw numbers as they are stored.
    dtype : numpy.dtype, optional
        Type of raw numbers.
    transposed : bool
        Whether files hold features × samples rather than samples × features.
    allow_external : bool
        Whether an HDF5 file may have data in other files, which it names: by an external link, by
        external storage, or as a virtual dataset. Allow it only for files that you trust.

    Returns
    -------
    source : Source

    Raises
    ------
    DamagedFileError
        If a file is damaged, or does not hold a matrix (`NotAMatrixError`).
    FileRequestError
        If the file may be fine but an argument does not fit it: a dataset that it does not hold, a
        shape for a file that stores its own, or data in another file that is not allowed.
    UnknownKindError
        If the kind of a file is not known.
    MissingFileError
        If there is no such file.
    OSError
        If the system cannot read a file, for example because too many files are open.
    """
    paths = _expand(path)
    if not paths:
        raise ParameterError("path", "name at least one file", path)
    openers = [partial(_open, p, dataset, shape, dtype, transposed, allow_external) for p in paths]
    if len(paths) == 1:
        return openers[0]()
    return StackedSource(open_some(openers, paths), paths)


def _expand(path: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the absolute paths of all files that a path, a pattern or a list names."""
    if not isinstance(path, str | os.PathLike):
        return [name for p in path for name in _expand(p)]
    name = os.fspath(path)
    found = files_matching(name)
    if not found:
        raise MissingFileError(f"No file matches {name!r}.")
    if not os.path.exists(found[0]):
        raise MissingFileError(f"There is no file {name!r}.")
    return [os.path.abspath(n) for n in found]


def _open(
    path: str,
    dataset: str | None,
    shape: tuple[int, int] | None,
    dtype: Any,
    transposed: bool,
    allow_external: bool,
) -> Source:
    source = _by_kind(path, dataset, shape, dtype, transposed, allow_external)
    try:
        check_real(source.dtype)
        check_not_empty(source.shape)
    except DataError as error:
        raise DamagedFileError(f"{path!r} cannot be used: {error}") from error
    source.files = (path,)
    return source


def _by_kind(
    path: str,
    dataset: str | None,
    shape: tuple[int, int] | None,
    dtype: Any,
    transposed: bool,
    allow_external: bool,
) -> Source:
    kind = ending_of(path)
    is_container = kind in HDF5 or os.path.isdir(path)
    stores_its_shape = is_container or kind in MATRICES
    _check_applies(path, "dataset", dataset, is_container, "HDF5 files and Zarr groups")
    _check_applies(path, "shape", shape, not stores_its_shape, "raw files")
    if kind in HDF5:
        return hdf5_source(path, dataset, transposed, allow_external)
    if is_container:
        return zarr_source(path, dataset, transposed)
    if kind == ".npz":
        csr = read_csr(path)
        return CsrSource(sp.csr_array(csr.T) if transposed else csr)
    X = map_npy(path) if kind == ".npy" else _raw(path, kind, shape, dtype)
    check_dimensions(path, X.shape)
    return ArraySource(X.T if transposed else X)


def _raw(path: str, kind: str, shape: tuple[int, int] | None, dtype: Any) -> Array:
    """Map a file of nothing but numbers, if their shape and type are given."""
    if shape is None and dtype is None:
        raise UnknownKindError(f"{path!r} cannot be opened: {_how_to_open(path, kind)}")
    if shape is None or dtype is None:
        raise FileRequestError(
            path,
            "shape and dtype",
            f"both be given for {path!r}",
            (shape, dtype),
            got=f"{shape!r} and {dtype!r}",
        )
    return map_raw(path, shape, dtype)


def _check_applies(path: str, name: str, value: Any, applies: bool, kinds: str) -> None:
    if value is not None and not applies:
        rule = f"not be given for {path!r}"
        raise FileRequestError(path, name, rule, value, f"It is for {kinds}.")


def _how_to_open(path: str, kind: str) -> str:
    """Return why a file cannot be opened, and what to do instead."""
    if kind in IMAGES:
        return "it is an image. Wrap it: ImagePatches(path, patch_size)."
    header = envi_header_of(path)
    if header is not None:
        return f"it is the data of an image. Wrap its header: ImagePatches({header!r}, patch_size)."
    return (
        f"the kind of {kind or 'a file without an ending'} is not known. Give shape and dtype of "
        "raw numbers: somf.data.open_source(path, shape=(n, p), dtype='float32')."
    )


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)


def _is_list_of_paths(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(_is_path(x) for x in X)


def _is_list_of_sources(X: Any) -> bool:
    is_list = isinstance(X, list | tuple) and len(X) > 0
    return is_list and all(isinstance(x, Source | np.memmap) and len(x.shape) == 2 for x in X)


def _has_slices(X: Any) -> bool:
    """Return whether an object is array-like with slices, such as an h5py dataset."""
    is_frame = hasattr(X, "columns")  # a data frame may have a column that is called dtype
    return not is_frame and all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
