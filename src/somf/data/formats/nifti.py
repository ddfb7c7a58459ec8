"""Brain images in NIfTI: a matrix of volumes × voxels."""

import os
from math import prod
from typing import Any

import numpy as np

from somf.data.formats.checks import check_claim, guarded
from somf.data.formats.kinds import is_gzip
from somf.data.formats.streams import open_bounded, read_into
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.scaled import Packing, Scaled
from somf.data.sources.sliced import SlicedSource
from somf.errors import DamagedFileError, NotAMatrixError
from somf.optional import import_optional
from somf.scratch import scratch_zeros
from somf.typing import Array

SLACK_BYTES = 2**20
"""Bytes that a buffer may read after the last volume."""


def nifti_source(path: str, transposed: bool) -> Source:
    """Open an image of 3 or 4 dimensions as a matrix whose rows are volumes.

    A row has the voxels in the order of the file: the first axis varies fastest. It is an image
    again by ``row.reshape(shape, order="F")``.

    Parameters
    ----------
    path : str
        A single file, mapped; if it is compressed, it is decompressed once, to a scratch file if it
        is large.
    transposed : bool
        Whether rows are voxels, and features volumes.
    """
    nibabel = import_optional("nibabel", "nifti", "A NIfTI image")
    with guarded(path, "a NIfTI image"):
        header = _read_header(path, nibabel)
        shape = tuple(int(length) for length in header.get_data_shape())
        if len(shape) not in (3, 4) or min(shape) < 1:
            raise NotAMatrixError(
                f"{path!r} must be an image of 3 or 4 dimensions, got shape {shape}."
            )
        matrix = (shape[3] if len(shape) == 4 else 1, prod(shape[:3]))
        dtype, offset = np.dtype(header.get_data_dtype()), int(header.get_data_offset())
        X = _volumes(path, matrix, dtype, offset)
        packing = _packing(header)
    if packing.is_trivial or dtype.kind not in "iuf":
        return ArraySource(X.T if transposed else X)
    return SlicedSource(Scaled(X, packing), transposed, path)


def _read_header(path: str, nibabel: Any) -> Any:
    """Return the header of a single file; it is checked by nibabel."""
    with open_bounded(path, 2**30) as file:
        start = file.read(4)
        size = int.from_bytes(start, "little")
        is_second = 540 in (size, int.from_bytes(start, "big"))
        kind = nibabel.Nifti2Header if is_second else nibabel.Nifti1Header
        header = kind(start + file.read((540 if is_second else 348) - 4), check=True)
    if not header["magic"].tobytes().startswith(b"n+"):
        raise DamagedFileError(
            f"{path!r} is the header of an image in two files, which cannot be read. Convert it to "
            "one file: nibabel.save(nibabel.load(path), 'image.nii')."
        )
    return header


def _volumes(path: str, shape: tuple[int, int], dtype: np.dtype[Any], offset: int) -> Array:
    if not is_gzip(path):
        return np.memmap(path, dtype, "r", offset, shape)
    n_bytes = prod(shape) * dtype.itemsize
    check_claim(path, offset + n_bytes, os.path.getsize(path))
    volumes = scratch_zeros(shape, dtype)
    with open_bounded(path, offset + n_bytes + SLACK_BYTES) as file:
        file.read(offset)
        read_into(file, volumes)
    return volumes


def _packing(header: Any) -> Packing:
    """Return the scale of stored numbers; a slope of zero or NaN means that there is none."""
    slope, intercept = float(header["scl_slope"]), float(header["scl_inter"])
    if slope == 0 or not np.isfinite(slope):
        return Packing()
    if not np.isfinite(intercept):
        raise ValueError("its intercept is not finite")
    return Packing(slope, intercept)
