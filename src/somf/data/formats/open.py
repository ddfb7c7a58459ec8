"""From an object or a path to a source."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from somf.data.checks import check_compressed, check_not_empty, check_real, check_two_dimensions
from somf.data.formats.annotated import chosen_genes, is_annotated, matrix_of
from somf.data.formats.kinds import files_matching, is_url
from somf.data.formats.readers import Request, read_file
from somf.data.formats.remote import remote_source
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.features import SelectedFeatures
from somf.data.sources.frames import dask_frame_source, frame_source, is_frame
from somf.data.sources.labelled import data_array_source, signal_source
from somf.data.sources.lazy import DaskSource
from somf.data.sources.recognition import comes_from, is_dask_array, is_data_array, is_signal
from somf.data.sources.reopened import open_some
from somf.data.sources.sliced import SlicedSource
from somf.data.sources.sparse import CsrSource
from somf.data.sources.stacked import StackedSource
from somf.errors import DataError, MissingFileError, ParameterError
from somf.typing import Array

PathLike: TypeAlias = str | os.PathLike[str]
"""What the functions of the standard library take as a path."""


def as_source(X: Any) -> Source:
    """Return X as a source.

    Arrays, memory maps and CSR matrices are used as they are, without a copy, and so is any other
    object with `shape`, `dtype` and slices of rows; paths are opened by their kind. Dask arrays,
    lazy arrays of xarray and large data frames are read by chunks. Other sparse formats are
    converted to CSR, and small data frames, lists and object arrays to arrays.

    Parameters
    ----------
    X : array-like, sparse matrix, AnnData, path, Source, or list of paths, sources or memory maps
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
    elif is_annotated(X):
        return annotated_source(X)
    elif sp.issparse(X):
        check_two_dimensions(X.ndim)
        check_compressed(X)  # before SciPy converts it
        source = CsrSource(sp.csr_array(X))
    elif (found := _source_of_library(X)) is not None:
        source = found
    elif not isinstance(X, np.ndarray) and _has_slices(X):
        check_two_dimensions(len(X.shape))
        source = SlicedSource(X)
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        check_two_dimensions(array.ndim)
        source = ArraySource(_numbers_in(array) if array.dtype.kind == "O" else array)
    check_real(source.dtype)
    check_not_empty(source.shape)
    return source


def _numbers_in(array: Array) -> Array:
    """Return an array of objects, which must be numbers, as an array of numbers."""
    try:
        return array.astype(np.float64)
    except ValueError:
        for (row, column), entry in np.ndenumerate(array):
            try:
                float(entry)
            except ValueError:
                text = f"X must be numeric, got {entry!r} in row {row}, column {column}."
                raise DataError(text, row=row) from None
        raise


def _source_of_library(X: Any) -> Source | None:
    """Return the source of an array or a data frame of a library that somf knows, or None."""
    if is_frame(X):
        return frame_source(X)
    if comes_from(X, "dask", "DataFrame"):
        return dask_frame_source(X)
    if is_data_array(X):
        return data_array_source(X)
    if is_signal(X):
        return signal_source(X)
    if is_dask_array(X):
        check_two_dimensions(X.ndim)
        return DaskSource(X)
    if comes_from(X, "xarray", "Dataset"):
        names = ", ".join(map(repr, X.data_vars))
        raise DataError(f"X must be one array, got an xarray.Dataset: X[name] is one of {names}.")
    return None


def annotated_source(adata: Any, layer: str | None = None, mask_var: Any = None) -> Source:
    """Return the cells × genes of an AnnData object as a source, with the names of the genes.

    Parameters
    ----------
    adata : AnnData
        In memory, or backed by a file.
    layer : str, optional
        A layer of it; by default X.
    mask_var : str or array-like of bool of shape (n_vars,), optional
        Which genes to use: a column of ``adata.var``, such as ``"highly_variable"``, or one truth
        value for every gene. By default all.

    Returns
    -------
    source : Source
    """
    source = as_source(matrix_of(adata, layer))
    source.feature_names = adata.var_names.astype(str).tolist()
    return source if mask_var is None else SelectedFeatures(source, chosen_genes(adata, mask_var))


def open_source(
    path: PathLike | Sequence[PathLike],
    *,
    dataset: str | None = None,
    shape: tuple[int, int] | None = None,
    dtype: Any = None,
    transposed: bool = False,
    allow_external: bool = False,
    header: bool | None = None,
) -> Source:
    """Open a matrix on disk; rows are read when they are needed.

    The kind of a file is recognised by its content; the ending matters only where content cannot
    tell, as for tables of text.

    ======================== ===================================================================
    ``.npy``                 mapped into memory
    ``.npz``                 sparse matrix of `scipy.sparse.save_npz`, or arrays of `numpy.savez`
    ``.h5 .hdf5 .he5 .h5ad`` HDF5: dataset, sparse group, AnnData (``somf[hdf5]``)
    ``.zarr``, a directory   Zarr: array, sparse group, AnnData (``somf[zarr]``)
    ``.csv .tsv .txt``       numbers with or without a header, converted once (``somf[arrow]``)
    ``.parquet .feather``    columns of numbers (``somf[arrow]``)
    ``.mat``                 MATLAB, dense or sparse; version 7.3 needs ``somf[hdf5]``
    ``.nc``                  NetCDF; version 4 needs ``somf[hdf5]``
    ``.nii .nii.gz``         NIfTI as volumes × voxels (``somf[nifti]``)
    ``.mtx .mtx.gz``         Matrix Market, or a directory of 10x Genomics, converted once
    anything else            raw numbers, with `shape` and `dtype`
    ======================== ===================================================================

    Parameters
    ----------
    path : path-like, or sequence of them
        A file, a pattern such as ``"scans/*.npy"`` (taken in alphabetical order), or several files;
        the rows of several files are stacked.
    dataset : str, optional
        Name of the matrix in a file of HDF5, Zarr, NetCDF, MATLAB or NumPy (``.npz``); needed if
        there are several. In a file of AnnData the default is ``"X"``; a layer is
        ``"layers/counts"``.
    shape : tuple of (int, int), optional
        Shape of raw numbers as they are stored.
    dtype : numpy.dtype, optional
        Type of raw numbers, or of the numbers that text is converted to (by default float64).
    transposed : bool
        Whether files hold features × samples rather than samples × features.
    allow_external : bool
        Whether an HDF5 file may have data in other files, which it names: by an external link, by
        external storage, or as a virtual dataset. Allow it only for files that you trust.
    header : bool, optional
        Whether the first line of a table of text has the names of columns; by default it does if
        one of its cells is not a number. Set it if names are numbers, such as wavelengths.

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
    if any(map(is_url, paths)):
        return _open_urls(paths, dataset, transposed)
    options = (dataset, shape, dtype, transposed, allow_external, header)
    openers = [partial(read_file, Request(p, *options)) for p in paths]
    if len(paths) == 1:
        return openers[0]()
    return StackedSource(open_some(openers, paths), paths)


def _open_urls(paths: list[str], dataset: str | None, transposed: bool) -> Source:
    """Open what URLs lead to; files on this machine must be opened on their own."""
    if not all(map(is_url, paths)):
        rule = "be all URLs or all files on this machine"
        raise ParameterError("path", rule, paths, "Open them one by one, and stack the sources.")
    parts = [remote_source(url, dataset, transposed) for url in paths]
    return parts[0] if len(parts) == 1 else StackedSource(parts, paths)


def _expand(path: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the absolute paths of all files that a path, a pattern or a list names."""
    if not isinstance(path, str | os.PathLike):
        return [name for p in path for name in _expand(p)]
    name = os.fspath(path)
    if is_url(name):
        return [name]
    found = files_matching(name)
    if not found:
        raise MissingFileError(f"No file matches {name!r}.")
    if not os.path.exists(found[0]):
        raise MissingFileError(f"There is no file {name!r}.")
    return [os.path.abspath(n) for n in found]


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
