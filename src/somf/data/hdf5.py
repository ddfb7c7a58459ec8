"""Datasets of HDF5 files."""

from typing import Any

import numpy as np

from somf.data.guard import check_claim, guarded, optional
from somf.tensorfile import DamagedFileError
from somf.typing import Array


def open_dataset(path: str, name: str | None = None, dimensions: tuple[int, ...] = (2,)) -> Any:
    """Open a dataset, which stays open for as long as it is used.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the file; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it may have.

    Returns
    -------
    dataset : h5py.Dataset
    """
    h5py = optional("h5py", "hdf5")
    with guarded(path, "an HDF5 file"):
        file = h5py.File(path, "r")
        try:
            return _dataset(path, file, name, dimensions)
        except BaseException:
            file.close()
            raise


def _dataset(path: str, file: Any, name: str | None, dimensions: tuple[int, ...]) -> Any:
    names: list[str] = []
    file.visititems(lambda at, item: _note(names, at, item, dimensions))
    dataset = file.get(choose(path, names, name))
    if not hasattr(dataset, "dtype"):
        raise DamagedFileError(f"dataset must be one of {names} in {path!r}, got {name!r}.")
    if dataset.ndim not in dimensions:
        raise DamagedFileError(
            f"{name!r} in {path!r} must have {' or '.join(map(str, dimensions))} dimensions, "
            f"got shape {dataset.shape}."
        )
    # Chunks that were never written read as the fill value, but not all of them.
    check_claim(path, dataset.nbytes, dataset.id.get_storage_size() + _elsewhere(dataset))
    return dataset


def map_dataset(dataset: Any) -> Array | None:
    """Map a dataset into memory if it lies in its file in one piece; else return None."""
    offset, file = dataset.id.get_offset(), dataset.file
    if offset is None or file.driver != "sec2" or file.userblock_size:
        return None
    return np.memmap(file.filename, dataset.dtype, "r", offset, dataset.shape)


def choose(path: str, names: list[str], name: str | None) -> str:
    """Return the name of what to open in a file, the only one that qualifies if none is given."""
    if name is not None:
        return name
    if len(names) != 1:
        held = f"several: {', '.join(sorted(names))}" if names else "none"
        raise DamagedFileError(
            f"dataset must name the matrix to read in {path!r}, which holds {held}."
        )
    return names[0]


def _note(names: list[str], at: str, item: Any, dimensions: tuple[int, ...]) -> None:
    if hasattr(item, "dtype") and item.dtype.kind in "fiub" and item.ndim in dimensions:
        names.append(at)


def _elsewhere(dataset: Any) -> int:
    """Return the bytes of a dataset that is kept in other files, which cannot be known."""
    return int(dataset.nbytes) if dataset.is_virtual or dataset.external else 0
