"""The reader of every kind of file that may hold a matrix."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from somf.data.checks import check_not_empty, check_real
from somf.data.formats.arrow import arrow_source, parquet_source
from somf.data.formats.checks import check_dimensions
from somf.data.formats.coordinates import zarr_coordinates
from somf.data.formats.folders import why_no_data
from somf.data.formats.hdf5 import hdf5_is_anndata, hdf5_source
from somf.data.formats.kinds import (
    Kind,
    ending_of,
    envi_header_of,
    kind_by_ending,
    matrix_of_10x,
    readable_kinds,
    recognise,
    why_compressed,
)
from somf.data.formats.matlab import matlab_73_source, matlab_source
from somf.data.formats.matrix_market import matrix_market_source
from somf.data.formats.netcdf import netcdf3_source
from somf.data.formats.nifti import nifti_source
from somf.data.formats.npy import map_npy, map_raw
from somf.data.formats.npz import npz_source
from somf.data.formats.text import text_source
from somf.data.formats.zarr import zarr_is_anndata, zarr_source
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError, DataError, FileRequestError, UnknownKindError
from somf.typing import Array


@dataclass(frozen=True)
class Request:
    """A file, and what the caller says of it; `open_source` documents the fields."""

    path: str
    dataset: str | None = None
    shape: tuple[int, int] | None = None
    dtype: Any = None
    transposed: bool = False
    allow_external: bool = False
    header: bool | None = None


def read_file(request: Request) -> Source:
    """Open a file by its kind.

    Parameters
    ----------
    request : Request

    Returns
    -------
    source : Source
    """
    request = replace(request, path=matrix_of_10x(request.path) or request.path)
    source = _by_kind(request)
    try:
        check_real(source.dtype)
        check_not_empty(source.shape)
    except DataError as error:
        raise DamagedFileError(f"{request.path!r} cannot be used: {error}") from error
    source.files = (request.path,)
    return source


def _by_kind(request: Request) -> Source:
    path = request.path
    # Raw numbers may begin with any bytes, so that their content says nothing.
    is_raw = request.shape is not None and kind_by_ending(path) is None and os.path.isfile(path)
    kind = None if is_raw else recognise(path)
    is_known = kind is not None and kind.holds_matrix
    _check_applies(request, "dataset", kind in NAMED, "HDF5, Zarr, NetCDF, .mat and .npz files")
    _check_applies(request, "shape", not is_known, "raw files")
    _check_applies(request, "dtype", not is_known or kind is Kind.TEXT, "raw files and text")
    _check_applies(request, "header", kind is Kind.TEXT, "tables of text")
    if (message := why_no_data(path)) is not None and ending_of(path) != ".zarr":
        raise UnknownKindError(message)
    if not is_raw and (message := why_compressed(path, kind)) is not None:
        raise UnknownKindError(message)
    if kind is not None and is_known:
        return READERS[kind](request)
    if request.shape is None and request.dtype is None:
        raise UnknownKindError(_why_not(path, kind))
    X = _raw(request)
    check_dimensions(path, X.shape)
    return ArraySource(X.T if request.transposed else X)


def _raw(request: Request) -> Array:
    """Map a file of nothing but numbers, if their shape and type are given."""
    path, shape, dtype = request.path, request.shape, request.dtype
    if shape is None or dtype is None:
        raise FileRequestError(
            path,
            "shape and dtype",
            f"both be given for {path!r}",
            (shape, dtype),
            got=f"{shape!r} and {dtype!r}",
        )
    return map_raw(path, shape, dtype)


def _check_applies(request: Request, name: str, applies: bool, kinds: str) -> None:
    value = getattr(request, name)
    if value is not None and not applies:
        rule = f"not be given for {request.path!r}"
        raise FileRequestError(request.path, name, rule, value, f"It is for {kinds}.")


def _why_not(path: str, kind: Kind | None) -> str:
    """Return why a file cannot be opened, and what to do instead."""
    if kind is Kind.IMAGE:
        return f"cannot read {path!r}: it is an image. Wrap it: ImagePatches(path, patch_size)."
    if kind is Kind.MODEL:
        return f"cannot read {path!r}: it is a model or checkpoint of somf, not data."
    header = envi_header_of(path)
    if header is not None:
        return (
            f"cannot read {path!r}: it is the data of an image. Wrap its header: "
            f"ImagePatches({header!r}, patch_size)."
        )
    return (
        f"cannot read {path!r}, whose content and ending ({ending_of(path) or 'none'}) are of no "
        f"known kind; readable are {readable_kinds()}. Give shape and dtype of raw numbers: "
        "somf.data.open_source(path, shape=(n, p), dtype='float32')."
    )


def holds_anndata(path: str) -> bool:
    """Return whether a file or folder is an AnnData object, whose matrix is X by default."""
    kind = recognise(path)
    is_group = kind is Kind.HDF5 or (kind is Kind.ZARR and os.path.isdir(path))
    if not is_group:
        return False
    return hdf5_is_anndata(path) if kind is Kind.HDF5 else zarr_is_anndata(path)


def _npy(request: Request) -> Source:
    X = map_npy(request.path)
    check_dimensions(request.path, X.shape)
    return ArraySource(X.T if request.transposed else X)


def _zarr(request: Request) -> Source:
    source = zarr_source(request.path, request.dataset, request.transposed)
    if isinstance(source, SlicedSource) and source.X.path and source.feature_names is None:
        source.channels = zarr_coordinates(source.X, 0 if request.transposed else 1)
        source.feature_names = None if source.channels is None else source.channels.texts
    return source


READERS: dict[Kind, Callable[[Request], Source]] = {
    Kind.NPY: _npy,
    Kind.NPZ: lambda r: npz_source(r.path, r.dataset, r.transposed),
    Kind.TEXT: lambda r: text_source(r.path, r.dtype, r.transposed, r.header),
    Kind.PARQUET: lambda r: parquet_source(r.path, r.transposed),
    Kind.ARROW: lambda r: arrow_source(r.path, r.transposed),
    Kind.HDF5: lambda r: hdf5_source(r.path, r.dataset, r.transposed, r.allow_external),
    Kind.ZARR: _zarr,
    Kind.NETCDF: lambda r: netcdf3_source(r.path, r.dataset, r.transposed),
    Kind.MATLAB: lambda r: matlab_source(r.path, r.dataset, r.transposed),
    Kind.MATLAB_73: lambda r: matlab_73_source(r.path, r.dataset, r.transposed, r.allow_external),
    Kind.MATRIX_MARKET: lambda r: matrix_market_source(r.path, r.transposed),
    Kind.NIFTI: lambda r: nifti_source(r.path, r.transposed),
}
"""What opens a file of every kind that may hold a matrix."""

NAMED = (Kind.NPZ, Kind.HDF5, Kind.ZARR, Kind.NETCDF, Kind.MATLAB, Kind.MATLAB_73)
"""Kinds that hold several matrices, of which `dataset` names one."""
