"""Patches of an image, cut out when they are needed."""

import os
from typing import Any

import numpy as np

from somf.data.checks import is_real
from somf.data.images.files import files_of, open_image
from somf.data.readahead.memory_map import CAN_PREFETCH, Mapping, is_mapped
from somf.data.source import Source
from somf.errors import FileRequestError, ParameterError
from somf.typing import Array, Ints

BAND_ENTRIES = 2**24
"""Entries of an image that are compared at once with the value that stands for no data."""

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
    no_data : float, optional
        The value, which may be NaN, of pixels without data; by default the one that the file
        declares, if any. Only used without a mask.
    dataset : str, optional
        Name of the image in an HDF5, Zarr or ``.mat`` file; needed if there are several.
    allow_external : bool
        Whether an HDF5 file may have data in other files, which it names: by an external link, by
        external storage, or as a virtual dataset. Allow it only for files that you trust.

    Attributes
    ----------
    shape : tuple of (int, int)
        Number of patches, number of values in a patch.
    patch_shape : tuple of int
        (height, width) or (height, width, channels): reshape an atom to this to show it.
    positions : ndarray of shape (n, 2)
        Row and column of the upper left corner of every patch.
    geometry : dict
        How patches are cut out, in plain values: ``patch_size``, ``stride``, ``center``, ``scale``,
        ``no_data``, and of the image ``image_shape``, ``dtype``, ``path`` (None for an array),
        ``dataset``, and ``mask`` (None for an array).
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
        no_data: float | None = None,
        dataset: str | None = None,
        allow_external: bool = False,
    ) -> None:
        path = None
        if isinstance(image, str | os.PathLike):
            path = os.fspath(image)
            image, declared = open_image(image, dataset, allow_external)
            no_data = declared if no_data is None else no_data
        _check_image(image)
        height, width = _pair(patch_size, "patch_size")
        if height > image.shape[0] or width > image.shape[1]:
            rule = f"fit into the image of {image.shape[:2]}"
            raise ParameterError("patch_size", rule, (height, width))
        if isinstance(image, np.ma.MaskedArray):
            image, has_data = image.data, _all_channels(~np.ma.getmaskarray(image))
        else:
            has_data = None
        self.image, self.center, self.scale = image, center, scale
        self.is_in_memory = not is_mapped(image)
        if not self.is_in_memory:
            self._mapping = Mapping(image)
        if path is not None:
            self.files = tuple(files_of(path))
        elif not self.is_in_memory:
            self.files = self._mapping.files
        self.reads_in_parallel = self.is_in_memory or CAN_PREFETCH
        self._is_prefetched = False
        self.patch_shape: tuple[int, ...] = (height, width, *image.shape[2:])
        steps = _pair(stride, "stride")
        self.positions = _positions(
            (image.shape[0] - height + 1, image.shape[1] - width + 1), steps
        )
        mask_path = None
        if isinstance(mask, str | os.PathLike):
            mask_path = os.fspath(mask)
            mask = _read_mask(mask_path, image.shape, allow_external)
        if mask is None and no_data is not None:
            mask = _has_data(image, no_data)
        for valid in (mask, has_data):
            if valid is not None:
                self.positions = self.positions[_inside(valid, image.shape, self)]
        self.shape = (len(self.positions), int(np.prod(self.patch_shape)))
        self.dtype = _float_for(image.dtype) if center or scale else image.dtype
        self.geometry = {
            "patch_size": (height, width),
            "stride": steps,
            "center": bool(center),
            "scale": bool(scale),
            "no_data": None if no_data is None else float(no_data),
            "image_shape": tuple(image.shape),
            "dtype": image.dtype.name,
            "path": path,
            "dataset": dataset,
            "mask": mask_path,
        }

    def rows(self, ids: Ints) -> Array:
        """Return patches as rows, normalised."""
        from somf.data.images.cutting import cut_patches  # Numba is slow to import

        if not self.is_in_memory:
            self._mapping.check_file()
        cube = self.image if self.image.ndim == 3 else self.image[:, :, None]
        size = (self.patch_shape[0], self.patch_shape[1])
        at = self.positions[ids]
        patches = cut_patches(cube, at, size, self.center, self.scale, self.dtype)
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


def _pair(value: int | tuple[int, int], name: str) -> tuple[int, int]:
    pair = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value, value)
    if len(pair) != 2 or not all(isinstance(v, int | np.integer) and v >= 1 for v in pair):
        raise ParameterError(name, "be one or two integers of at least 1", value)
    return int(pair[0]), int(pair[1])


def _float_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating type of normalised patches: float32 if it holds every pixel exactly."""
    is_single = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if is_single else np.float64)


def _positions(counts: tuple[int, int], stride: tuple[int, int]) -> Ints:
    grid = np.meshgrid(
        *(np.arange(0, n, s) for n, s in zip(counts, stride, strict=True)), indexing="ij"
    )
    return np.stack([axis.ravel() for axis in grid], axis=1)


def _has_data(image: Array, no_data: float) -> Array:
    """Return the pixels in which no channel has the value `no_data`, some rows at a time."""
    mask = np.empty(image.shape[:2], dtype=bool)
    step = max(1, BAND_ENTRIES // (image.size // image.shape[0]))
    for top in range(0, len(image), step):
        rows = image[top : top + step]
        mask[top : top + step] = _all_channels(
            ~np.isnan(rows) if np.isnan(no_data) else rows != no_data
        )
    return mask


def _read_mask(path: str, image_shape: tuple[int, ...], allow_external: bool) -> Array:
    """Return the pixels in which the image in a file is not zero."""
    mask, _ = open_image(path, allow_external=allow_external)
    if mask.shape != image_shape[:2] or mask.dtype.kind == "f":
        raise FileRequestError(
            path,
            "mask",
            f"hold booleans or integers of shape {image_shape[:2]} in {path!r}",
            mask,
            got=f"{mask.dtype} of shape {mask.shape}",
        )
    return np.asarray(mask != 0)


def _all_channels(mask: Array) -> Array:
    return mask if mask.ndim == 2 else np.asarray(mask.all(axis=2))


def _inside(mask: Array, image_shape: tuple[int, ...], patches: ImagePatches) -> Array:
    """Return which patches hold no pixel where the mask is False."""
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != image_shape[:2]:
        rule = f"be a boolean array of shape {image_shape[:2]}"
        raise ParameterError("mask", rule, mask, got=f"{mask.dtype} of shape {mask.shape}")
    # Number of missing pixels in every rectangle that starts in the upper left corner.
    missing = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), dtype=np.int64)
    missing[1:, 1:] = np.cumsum(np.cumsum(~mask, axis=0), axis=1)
    (height, width), (top, left) = patches.patch_shape[:2], patches.positions.T
    bottom, right = top + height, left + width
    count = (
        missing[bottom, right] - missing[top, right] - missing[bottom, left] + missing[top, left]
    )
    return np.asarray(count == 0)
