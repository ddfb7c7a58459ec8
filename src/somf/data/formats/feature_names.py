"""Names of features that files have beside their matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np

from somf.errors import DamagedFileError

GetNode = Callable[[str], Any]
"""Returns what a name in an HDF5 or Zarr file stands for, or None."""

LONGEST_NAME = 2**12
"""Bytes of a name, at most, where all names take as many."""


def is_anndata(group: Any) -> bool:
    """Return whether the root of an HDF5 or Zarr file is an AnnData object."""
    encoding = group.attrs.get("encoding-type", "")
    is_declared = encoding in ("anndata", b"anndata")
    return is_declared or {"X", "obs", "var"} <= set(group.keys())


def anndata_names(get: GetNode, dataset: str, transposed: bool) -> Any:
    """Return the column with the names of variables (or observations) of a matrix of AnnData.

    Parameters
    ----------
    get : callable
    dataset : str
        The matrix: X, a layer, or raw/X.
    transposed : bool
        Whether the features are the observations.

    Returns
    -------
    column : h5py.Dataset, zarr.Array, ndarray or None
    """
    where = dataset.strip("/")
    if where not in ("X", "raw/X") and not where.startswith("layers/"):
        return None
    frame = get("obs" if transposed else "raw/var" if where == "raw/X" else "var")
    if frame is None:
        return None
    if hasattr(frame, "dtype"):  # a compound dataset, as before 2020
        fields = frame.dtype.names or ()
        field = next((name for name in ("index", "_index") if name in fields), None)
        return None if field is None else frame[:][field]
    index = frame.attrs.get("_index", "_index")
    name = index.decode() if isinstance(index, bytes) else str(index)
    column = frame.get(name)
    if column is not None and not hasattr(column, "dtype"):  # strings that may be missing
        column = column.get("values")
    return column


def names_of_10x(get: GetNode, transposed: bool) -> Any:
    """Return the column with the names of genes (or of cells) beside a matrix of 10x Genomics.

    Parameters
    ----------
    get : callable
        Of the group that has the matrix, which is of genes × cells.
    transposed : bool
        Whether the features are the genes.

    Returns
    -------
    column : h5py.Dataset or None
    """
    names = ("features/name", "gene_names") if transposed else ("barcodes",)
    columns = (column for name in names if (column := get(name)) is not None)
    return next(columns, None)


def texts(values: Any) -> list[str]:
    """Return strings or numbers of a file as Python strings."""
    array = np.asarray(values).ravel()
    return [
        item.decode(errors="replace") if isinstance(item, bytes) else str(item)
        for item in array.tolist()
    ]


def read_names(path: str, column: Any, n_features: int) -> list[str] | None:
    """Return names of features, after a check that there is one for each, of a usual length.

    Parameters
    ----------
    path : str
    column : h5py.Dataset, zarr.Array, ndarray or None
    n_features : int
    """
    if column is None:
        return None
    if not hasattr(column, "dtype") or len(column.shape) != 1:
        raise DamagedFileError(f"{path!r} is damaged: names of features must be a list.")
    if column.shape[0] != n_features:
        raise DamagedFileError(
            f"{path!r} is damaged: it has {column.shape[0]:,} names for {n_features:,} features."
        )
    if column.dtype.itemsize > LONGEST_NAME:
        raise DamagedFileError(f"{path!r} is damaged: its names of features are too long.")
    return texts(column[:])
