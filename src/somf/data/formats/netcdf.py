"""NetCDF: version 3 mapped through SciPy; what version 4 adds to HDF5."""

import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from somf.data.checks import is_real
from somf.data.formats.checks import check_dimensions, choose, guarded, not_in_file
from somf.data.formats.feature_names import check_names, texts
from somf.data.formats.hdf5_external import names_of_external_files
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.scaled import Packing, Scaled
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError
from somf.typing import Array

NO_COORDINATE = "This is a netCDF dimension but not a netCDF variable"
"""How netCDF-4 begins the name of a dimension without coordinates."""


def packing_of(attributes: Mapping[str, Any]) -> Packing:
    """Return what stored numbers stand for by the conventions of netCDF.

    Parameters
    ----------
    attributes : mapping
        Those of a variable.
    """

    def number(name: str, default: float) -> float:
        return float(np.ravel(attributes[name])[0]) if name in attributes else default

    missing = [number(name, np.nan) for name in ("_FillValue", "missing_value")]
    return Packing(
        scale=number("scale_factor", 1.0),
        offset=number("add_offset", 0.0),
        missing=tuple(value for value in missing if not np.isnan(value)),
    )


def scale_names(dataset: Any, axis: int) -> list[str] | None:
    """Return the coordinates of an axis of an HDF5 dataset as text, if it has a dimension scale.

    Parameters
    ----------
    dataset : h5py.Dataset
    axis : int
    """
    if len(dataset.dims[axis]) == 0:
        return None
    scale = dataset.dims[axis][0]
    title = scale.attrs.get("NAME", b"")
    title = title.decode(errors="replace") if isinstance(title, bytes) else str(title)
    is_usable = scale.shape == (dataset.shape[axis],) and not names_of_external_files(scale)
    if title.startswith(NO_COORDINATE) or not is_usable:
        return None
    return texts(scale[:])


def netcdf3_source(path: str, name: str | None, transposed: bool) -> Source:
    """Map a variable of a netCDF-3 file.

    Parameters
    ----------
    path : str
    name : str, optional
        The variable; may be left out if there is only one matrix of numbers.
    transposed : bool
        Whether it is of shape (p, n).
    """
    with guarded(path, "a NetCDF file"), open(path, "rb") as opened:
        file = _parsed(opened)
        try:
            X, packing, found = _variable(path, file.variables, name, transposed)
        finally:
            with _without_complaint():
                file.close()
    source: Source = (
        ArraySource(X.T if transposed else X)
        if packing.is_trivial
        else SlicedSource(Scaled(X, packing), transposed, path)
    )
    source.feature_names = check_names(path, found, source.shape[1])
    return source


def _parsed(opened: BinaryIO) -> Any:
    """Return SciPy's object of a file, which maps it.

    After an error the frames of SciPy are cleared, so that its object is deleted here.
    """
    from scipy.io import netcdf_file

    try:
        return netcdf_file(opened, "r", mmap=True)
    except Exception as error:
        with _without_complaint():
            traceback.clear_frames(error.__traceback__)
        raise


@contextmanager
def _without_complaint() -> Iterator[None]:
    """Do not tell that SciPy leaves it to Python to unmap a file, which is as good."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _variable(
    path: str, variables: dict[str, Any], name: str | None, transposed: bool
) -> tuple[Array, Packing, list[str] | None]:
    """Return the map of a variable, its packing, and the coordinates of its features as text."""
    names = [n for n, v in variables.items() if is_real(v.data.dtype) and v.data.ndim == 2]
    chosen = choose(path, names, name)
    if chosen not in variables:
        raise not_in_file(path, name, names)
    variable = variables[chosen]
    check_dimensions(path, variable.data.shape, name=name)
    coordinate = variables.get(variable.dimensions[0 if transposed else 1])
    is_usable = coordinate is not None and coordinate.data.ndim == 1
    found = texts(coordinate.data) if coordinate is not None and is_usable else None
    return _mapped(path, variable.data), packing_of(vars(variable)), found


def _mapped(path: str, data: Array) -> Array:
    """Return a map of our own of an array that SciPy has mapped: it must outlive SciPy's file."""
    whole: Any = data
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    offset = _address(data) - _address(whole)
    n_bytes = sum((n - 1) * s for n, s in zip(data.shape, data.strides, strict=True))
    if data.size == 0 or offset + n_bytes + data.itemsize > whole.nbytes:
        raise DamagedFileError(f"{path!r} is damaged: it does not hold what its header promises.")
    piece = np.memmap(path, np.uint8, "r", offset, (n_bytes + data.itemsize,))
    return np.ndarray(data.shape, data.dtype, piece, strides=data.strides)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
