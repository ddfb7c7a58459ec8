"""Names of features that files have beside their matrix."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from somf.errors import DamagedFileError

GetNode = Callable[[str], Any]
"""Returns what a name in an HDF5 or Zarr file stands for, or None."""


def is_anndata(group: Any) -> bool:
    """Return whether the root of an HDF5 or Zarr file is an AnnData object."""
    encoding = group.attrs.get("encoding-type", "")
    is_declared = encoding in ("anndata", b"anndata")
    return is_declared or {"X", "obs", "var"} <= set(group.keys())


def anndata_names(get: GetNode, dataset: str, transposed: bool) -> list[str] | None:
    """Return the names of variables (or of observations) of a matrix of AnnData.

    Parameters
    ----------
    get : callable
    dataset : str
        The matrix: X, a layer, or raw/X.
    transposed : bool
        Whether the features are the observations.
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
        return None if field is None else texts(frame[:][field])
    index = frame.attrs.get("_index", "_index")
    name = index.decode() if isinstance(index, bytes) else str(index)
    column = frame.get(name)
    if column is not None and not hasattr(column, "dtype"):  # strings that may be missing
        column = column.get("values")
    return None if column is None else texts(column[:])


def texts(values: Any) -> list[str]:
    """Return strings or numbers of a file as Python strings."""
    array = np.asarray(values).ravel()
    return [
        item.decode(errors="replace") if isinstance(item, bytes) else str(item)
        for item in array.tolist()
    ]


def check_names(path: str, names: Sequence[str] | None, n_features: int) -> Sequence[str] | None:
    """Return names of features, after a check that there is one for each."""
    if names is not None and len(names) != n_features:
        raise DamagedFileError(
            f"{path!r} is damaged: it has {len(names):,} names for {n_features:,} features."
        )
    return names
