"""Patches of an image, cut out when they are needed."""

import os
from typing import Any, Literal

import numpy as np

from somf.data.checks import is_real
from somf.data.images.files import files_of, open_image
from somf.data.images.no_data import (
    MISSING,
    Unknown,
    all_channels,
    checked_mask,
    checked_no_data,
    pixels_with_data,
    read_mask,
    unknown_entries,
)
from somf.data.readahead.memory_map import CAN_PREFETCH, Mapping, is_mapped
from somf.data.source import Source
from somf.errors import ParameterError
from somf.typing import Array, Ints

SMALL_IMAGE = 2**28
"""Bytes up to which an image is prefetched as a whole: patches overlap, and soon need all of it."""


class ImagePatches(Source):
    """All patches of an image or cube, one sample each, none of them stored.

    A sample is a patch in the order (row, column, channel). The matrix that it stands for is
    typically hundreds of times larger than the image.

    Parameters
    ----------
    image : ndarray of shape (height, width) or (height, width, channels), or path-like
        An array or a memory map, which is not copied; or a file (``.npy``, HDF5, Zarr, ENVI
        ``.hdr``, TIFF and GeoTIFF, ``.mat``, PNG, JPEG), which is mapped into memory where its kind
        allows it (see `somf.data.images.files.open_image`).
    patch_size : int or tuple of (int, int)
        Height and width of a patch.
    stride : int or tuple of (int, int)
        Distance between neighbouring patches.
    mask : ndarray of bool of shape (height, width), or path-like, optional
        Where the image has data: an array, or a file of any of these kinds that is zero where there
        is none. Only patches that lie wholly inside are taken. By default, a pixel has data if no
        channel has the value `no_data`. Masked entries of a masked array are never data.
    center : bool
        Whether to subtract its mean from every patch.
    scale : bool
        Whether to divide every patch by its Euclidean norm; a zero patch stays zero.
    no_data : float or "missing", optional
        The value, which may be NaN, of pixels without data; by default the one that the file
        declares, if any. Only used without a mask. With ``"missing"`` no patch is left out:
        entries without data are NaN, which models with ``missing="nan"`` take as unknown.
    dataset : str, optional
        Name of the image in an HDF5, Zarr or ``.mat`` file; needed if there are several.
    allow_external : bool
        Whether an HDF5 file may have data in other files, which it names: by an external link, by
        external storage, or as a virtual dataset. Allow it only for files that you trust.

    Attributes
    ----------
    shape : tuple of (int, int)
        Number of patches, number of values in a patch.
    has_missing : bool
        Whether entries without data are NaN, rather than patches with them left out.
    patch_shape : tuple of int
        (height, width) or (height, width, channels): reshape an atom to this to show it.
    positions : ndarray of shape (n, 2)
        Row and column of the upper left corner of every patch.
    geometry : dict
        How patches are cut out, in plain values: ``patch_size``, ``stride``, ``center``, ``scale``,
        ``no_data``, and of the image ``image_shape``, ``dtype``, ``path`` (None for an array),
        ``dataset``, and ``mask`` (None for an array).

    Notes
    -----
    With ``no_data="missing"`` a patch may have dead pixels, stripes or bands without data. A model
    learns from its other entries, and `impute` fills these in. An entry has no data if any of these
    says so:

    - it is NaN;
    - it has the value that the file declares, whatever other channels of the pixel have;
    - `mask` is False there, which may then also have the shape of the image, for single channels;
    - it is a masked entry of a masked array.

    For another value, give ``mask=image != value``. Means and norms are those of the entries with
    data. A patch without any is a row of NaN, whose code is zero. Rows are floating.
    """

    def __init__(
        self,
        image: Array | str | os.PathLike[str],
        patch_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        mask: Array | str | os.PathLike[str] | None = None,
        center: bool = True,
        scale: bool = True,
        *,
        no_data: float | Literal["missing"] | None = None,
        dataset: str | None = None,
        allow_external: bool = False,
    ) -> None:
        path = mask_path = declared = None
        if isinstance(image, str | os.PathLike):
            path = os.fspath(image)
            image, declared = open_image(image, dataset, allow_external)
        _check_image(image)
        no_data = checked_no_data(declared if no_data is None else no_data)
        self.has_missing = no_data == MISSING
        size, steps = _pair(patch_size, "patch_size"), _pair(stride, "stride")
        _check_fits(size, image)
        image, has_data = _unmasked(image)
        if isinstance(mask, str | os.PathLike):
            mask_path = os.fspath(mask)
            mask = read_mask(mask_path, image.shape, self.has_missing, allow_external)
        self.center, self.scale = center, scale
        self._use(image, path)
        self.patch_shape: tuple[int, ...] = (*size, *image.shape[2:])
        self.positions = _positions(image.shape, size, steps)
        if mask is not None:
            mask = checked_mask(mask, image.shape, self.has_missing)
        self._unknown: Unknown | None = None
        if isinstance(no_data, str):
            self._unknown = unknown_entries(image, (mask, has_data), declared)
        else:
            self._leave_out((mask, has_data), no_data)
        self.shape = (len(self.positions), int(np.prod(self.patch_shape)))
        is_floating = center or scale or self.has_missing
        self.dtype = _float_for(image.dtype) if is_floating else image.dtype
        self.geometry = {
            "patch_size": size,
            "stride": steps,
            "center": bool(center),
            "scale": bool(scale),
            "no_data": no_data,
            "image_shape": tuple(image.shape),
            "dtype": image.dtype.name,
            "path": path,
            "dataset": dataset,
            "mask": mask_path,
        }

    def _leave_out(self, masks: tuple[Array | None, Array | None], no_data: float | None) -> None:
        """Leave out patches with a pixel where a mask is False or, without one, of no data."""
        mask, has_data = masks
        if mask is None and no_data is not None:
            mask = pixels_with_data(self.image, no_data)
        for valid in (mask, has_data):
            if valid is not None:
                self.positions = self.positions[_inside(all_channels(valid), self)]

    def _use(self, image: Array, path: str | None) -> None:
        """Set the image, and how it is read: from memory, or from the file that it is mapped to."""
        self.image, self.is_in_memory, self._is_prefetched = image, not is_mapped(image), False
        self.reads_in_parallel = self.is_in_memory or CAN_PREFETCH
        if not self.is_in_memory:
            self._mapping = Mapping(image)
            self.files = self._mapping.files
        if path is not None:
            self.files = tuple(files_of(path))

    def rows(self, ids: Ints) -> Array:
        """Return patches as rows, normalised."""
        from somf.data.images.cutting import cut_patches  # Numba is slow to import

        if not self.is_in_memory:
            self._mapping.check_file()
        cube = self.image if self.image.ndim == 3 else self.image[:, :, None]
        size = (self.patch_shape[0], self.patch_shape[1])
        at = self.positions[ids]
        patches = cut_patches(cube, at, size, self.center, self.scale, self.dtype, self._unknown)
        if not self.is_in_memory:
            self._mapping.check_file()
        return patches

    def prefetch(self, ids: Ints) -> None:
        """Let the system read pages, if the image is mapped; a small image once, as a whole."""
        if self.is_in_memory or self._is_prefetched:
            return
        if self.image.flags.c_contiguous and self.image.nbytes <= SMALL_IMAGE:
            self._is_prefetched = True
            self._mapping.prefetch(np.zeros(1, dtype=np.int64), self.image.nbytes)
        else:
            down, right = self.image.strides[:2]
            height, width = self.patch_shape[:2]
            lines = self.positions[ids] @ np.array([down, right])
            offsets = lines[:, None] + down * np.arange(height)
            self._mapping.prefetch(offsets.ravel(), width * right)

    def __repr__(self) -> str:
        return f"ImagePatches({self.shape[0]} patches of shape {self.patch_shape}, {self.dtype})"


def _check_image(image: Any) -> None:
    if not isinstance(image, np.ndarray) or image.ndim not in (2, 3):
        rule = "be an array of shape (height, width) or (height, width, channels)"
        raise ParameterError("image", rule, image, got=repr(getattr(image, "shape", image)))
    if not is_real(image.dtype):
        raise ParameterError("image", "be real", image, got=str(image.dtype))
    if image.dtype.kind == "f" and image.dtype.itemsize > 8:
        raise ParameterError(
            "image", "be float64 at most", image, "Convert it.", got=str(image.dtype)
        )


def _check_fits(size: tuple[int, int], image: Array) -> None:
    if size[0] > image.shape[0] or size[1] > image.shape[1]:
        raise ParameterError("patch_size", f"fit into the image of {image.shape[:2]}", size)


def _unmasked(image: Array) -> tuple[Array, Array | None]:
    """Return the values of an image, and where a masked array has data; None is everywhere."""
    if not isinstance(image, np.ma.MaskedArray):
        return image, None
    return image.data, ~np.ma.getmaskarray(image)


def _pair(value: int | tuple[int, int], name: str) -> tuple[int, int]:
    pair = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value, value)
    if len(pair) != 2 or not all(isinstance(v, int | np.integer) and v >= 1 for v in pair):
        raise ParameterError(name, "be one or two integers of at least 1", value)
    return int(pair[0]), int(pair[1])


def _float_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating type of normalised patches: float32 if it holds every pixel exactly."""
    is_single = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if is_single else np.float64)


def _positions(
    image_shape: tuple[int, ...], size: tuple[int, int], stride: tuple[int, int]
) -> Ints:
    """Return the upper left corners of all patches, of shape (n, 2)."""
    corners = zip(image_shape[:2], size, stride, strict=True)
    grid = np.meshgrid(*(np.arange(0, n - s + 1, step) for n, s, step in corners), indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def _inside(mask: Array, patches: ImagePatches) -> Array:
    """Return which patches hold no pixel where the mask is False."""
    # Number of missing pixels in every rectangle that starts in the upper left corner.
    missing = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), dtype=np.int64)
    missing[1:, 1:] = np.cumsum(np.cumsum(~mask, axis=0), axis=1)
    (height, width), (top, left) = patches.patch_shape[:2], patches.positions.T
    bottom, right = top + height, left + width
    count = (
        missing[bottom, right] - missing[top, right] - missing[bottom, left] + missing[top, left]
    )
    return np.asarray(count == 0)
