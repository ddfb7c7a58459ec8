"""NetCDF: version 3 mapped through SciPy; what version 4 adds to HDF5."""

import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import numpy as np

from somf.data.channels import Channels, channels_at
from somf.data.checks import is_real
from somf.data.formats.checks import MATRIX, check_dimensions, choose, guarded, not_in_file
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.scaled import Packing, Scaled
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError
from somf.typing import Array


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
    variable = open_variable(path, name)
    X, packing = variable.data, packing_of(variable.attrs)
    found = variable.coordinates[0 if transposed else 1]
    source: Source = (
        ArraySource(X.T if transposed else X)
        if packing.is_trivial
        else SlicedSource(Scaled(X, packing), transposed, path)
    )
    if found is not None and len(found) == source.shape[1]:
        source.channels, source.feature_names = found, found.texts
    return source


@dataclass(frozen=True)
class Variable:
    """A variable of a netCDF-3 file, which has what is used of an h5py dataset.

    Attributes
    ----------
    data : ndarray
        Mapped.
    attrs : dict
    coordinates : tuple of Channels or None
        Those along every dimension, if the file has them.
    """

    data: Array
    attrs: dict[str, Any]
    coordinates: tuple[Channels | None, ...]
    chunks: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which it is stored."""
        return self.data.dtype

    def __getitem__(self, where: Any) -> Array:
        return np.asarray(self.data[where])


def open_variable(
    path: str, name: str | None = None, dimensions: tuple[int, ...] = MATRIX
) -> Variable:
    """Map a variable of a netCDF-3 file.

    Parameters
    ----------
    path : str
    name : str, optional
        May be left out if there is only one of numbers with as many dimensions.
    dimensions : tuple of int
        How many dimensions it may have.
    """
    with guarded(path, "a NetCDF file"), open(path, "rb") as opened:
        file = _parsed(opened)
        try:
            return _variable(path, file.variables, name, dimensions)
        finally:
            with _without_complaint():
                file.close()


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
    path: str, variables: dict[str, Any], name: str | None, dimensions: tuple[int, ...]
) -> Variable:
    numeric = {n: v for n, v in variables.items() if is_real(v.data.dtype)}
    names = [n for n, v in numeric.items() if v.data.ndim in dimensions]
    shapes = {n: v.data.shape for n, v in numeric.items()}
    chosen = choose(path, names, name, dimensions, shapes)
    if chosen not in numeric:
        raise not_in_file(path, name, names)
    variable = numeric[chosen]
    check_dimensions(path, variable.data.shape, dimensions, name)
    along = tuple(_coordinates(variables.get(at), at) for at in variable.dimensions)
    return Variable(_mapped(path, variable.data), dict(vars(variable)), along)


def _coordinates(variable: Any, dimension: str) -> Channels | None:
    """Return what a variable with the name of a dimension says of it."""
    if variable is None or variable.data.ndim != 1:
        return None
    label = getattr(variable, "long_name", dimension)
    return channels_at(np.array(variable.data), getattr(variable, "units", ""), label)


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
