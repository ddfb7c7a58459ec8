"""Runs: 4-D images of which a few volumes are read at a time."""

import glob
import math
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from somf.errors import DamagedFileError, DataError, MissingFileError, ParameterTypeError
from somf.optional import import_optional
from somf.typing import Array

SLAB_BYTES = 2**25
"""Bytes of the volumes that are in memory at a time, as float32."""

MOST_EXPANSION = 1040
"""Bytes that one byte of a gzip file can stand for, at most; the format allows 1,032."""

READ_ERRORS = (OSError, EOFError, ValueError, zlib.error)
"""What nibabel raises when the data of an image cannot be read."""


def library(module: str) -> Any:
    """Import a module of nilearn, or of nibabel, which nilearn needs.

    Parameters
    ----------
    module : str
        Such as ``"nilearn.masking"``.

    Returns
    -------
    module : module

    Raises
    ------
    MissingLibraryError
        If it is not installed.
    """
    return import_optional(module, "nilearn", "BrainFactorization")


@dataclass(frozen=True)
class Run:
    """A 4-D image, in a file or in memory.

    Parameters
    ----------
    name : str
        What to call it in errors.
    image : path or nibabel image
    """

    name: str
    image: Any

    @cached_property
    def header(self) -> Any:
        """The image, of which nothing but the header is read."""
        return self._open()

    @property
    def n_scans(self) -> int:
        """Number of volumes."""
        return int(self.header.shape[3])

    def slabs(self) -> Iterator[tuple[slice, Any]]:
        """Give consecutive volumes, from the first to the last, as small 4-D images in memory.

        A compressed file is decompressed once, from its beginning to its end.

        Yields
        ------
        scans : slice
            Which volumes.
        slab : Nifti1Image
            They are float32.

        Raises
        ------
        DamagedFileError
            If the file is shorter than its header says, or damaged in another way.
        """
        image = self._open()
        volume_bytes = math.prod(image.shape[:3]) * np.dtype(np.float32).itemsize
        step = max(1, SLAB_BYTES // volume_bytes)
        for start in range(0, self.n_scans, step):
            scans = slice(start, min(start + step, self.n_scans))
            yield scans, _in_memory(self._volumes(image, scans), image.affine)

    def mean(self) -> Any:
        """Return the mean volume as a 3-D image; voxels that are not finite count as zero."""
        total = np.zeros(self.header.shape[:3], np.float64)
        for _, slab in self.slabs():
            volumes = slab.get_fdata(dtype=np.float32, caching="unchanged")
            total += np.nan_to_num(volumes, posinf=0, neginf=0).sum(axis=3, dtype=np.float64)
        return _in_memory((total / self.n_scans).astype(np.float32), self.header.affine)

    def _open(self) -> Any:
        """Return the image; that of a path is opened anew, so that its file is closed after use."""
        if not isinstance(self.image, str):
            return self.image
        nibabel = library("nibabel")
        errors: tuple[type[Exception], ...] = (*READ_ERRORS, *_format_errors(nibabel))
        try:
            image = nibabel.load(self.image, keep_file_open=True)
        except errors as error:
            raise DamagedFileError(
                f"{self.image!r} must be a 4-D image that nibabel reads, such as NIfTI, "
                f"got: {error}"
            ) from error
        _check_size(image, self.image)
        return image

    def _volumes(self, image: Any, scans: slice) -> Array:
        try:
            return np.asarray(image.dataobj[..., scans], dtype=np.float32)
        except READ_ERRORS as error:
            raise DamagedFileError(f"{self.name!r} cannot be read to its end: {error}") from error


def open_runs(imgs: Any) -> list[Run]:
    """Return the runs that are given as one image or as a list of them.

    Parameters
    ----------
    imgs : path, pattern of paths, nibabel image, or list of them

    Returns
    -------
    runs : list of Run
        At least one. Headers have been read and checked.
    """
    library("nilearn")
    if _is_path(imgs) and glob.has_magic(os.fspath(imgs)) and not os.path.exists(imgs):
        found: list[Any] = sorted(glob.glob(os.path.expanduser(imgs)))
        if not found:
            raise MissingFileError(f"No file matches {os.fspath(imgs)!r}.")
        imgs = found
    if _is_path(imgs) or hasattr(imgs, "affine"):
        imgs = [imgs]
    if not hasattr(imgs, "__iter__"):
        rule = "be a 4-D image, a path, or a list of them"
        raise ParameterTypeError("imgs", rule, imgs, got=type(imgs).__name__)
    runs = [_run(image, f"imgs[{index}]") for index, image in enumerate(imgs)]
    if not runs:
        raise DataError("imgs must have at least one image, got an empty list.", "imgs")
    for run in runs:
        _check_shape(run)
    return runs


def _run(image: Any, name: str) -> Run:
    if _is_path(image):
        path = os.path.expanduser(os.fspath(image))
        if not os.path.isfile(path):
            raise MissingFileError(f"{name} must be a file, got {path!r}, which is not there.")
        return Run(path, path)
    if not all(hasattr(image, part) for part in ("affine", "dataobj", "shape")):
        rule = "be a 4-D image or a path"
        hint = "A run of 3-D images is put together by nilearn.image.concat_imgs."
        raise ParameterTypeError(name, rule, image, hint, got=type(image).__name__)
    return Run(name, image)


def _is_path(image: Any) -> bool:
    return isinstance(image, str | os.PathLike)


def _check_shape(run: Run) -> None:
    shape = getattr(run.header, "shape", ())
    if len(shape) != 4 or min(shape) < 1:
        raise DataError(
            f"{run.name!r} must be a 4-D image (x, y, z, scans), got shape {shape}. A run of 3-D "
            "images is put together by nilearn.image.concat_imgs.",
            "imgs",
        )
    if np.dtype(run.header.get_data_dtype()).kind not in "iuf":
        got = run.header.get_data_dtype()
        raise DataError(f"{run.name!r} must hold real numbers, got {got}.", "imgs")


def _check_size(image: Any, path: str) -> None:
    """Raise DamagedFileError if a file is too short for its header, before memory is taken."""
    file = image.file_map.get("image", None)
    name = path if file is None or file.filename is None else file.filename
    if not os.path.isfile(name) or not hasattr(image.dataobj, "offset"):
        return
    stored = os.path.getsize(name)
    needed = (
        math.prod(image.shape) * np.dtype(image.get_data_dtype()).itemsize + image.dataobj.offset
    )
    ending = os.path.splitext(name)[1].lower()
    most = {".gz": MOST_EXPANSION, ".mgz": MOST_EXPANSION, ".bz2": math.inf, ".zst": math.inf}
    if needed > stored * most.get(ending, 1):
        raise DamagedFileError(
            f"{path!r} is too short: its header speaks of {needed:,} bytes, "
            f"the file has {stored:,}."
        )


def _format_errors(nibabel: Any) -> tuple[type[Exception], ...]:
    """Return what nibabel raises for a file that is no image, or has a damaged header.

    A `TypeError` or `KeyError` comes from fields of the header, or from a kind of file that is not
    a volume, such as CIFTI, and takes other arguments.
    """
    header_error = nibabel.spatialimages.HeaderDataError
    return TypeError, KeyError, header_error, nibabel.filebasedimages.ImageFileError


def _in_memory(volumes: Array, affine: Array) -> Any:
    return library("nibabel").Nifti1Image(volumes, affine)
