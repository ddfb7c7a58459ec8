"""One image or volume, and where its patches are."""

import os
from itertools import product
from typing import Any

import numpy as np

from somf.data.channels import Channels
from somf.data.checks import is_real
from somf.data.images.arrays import foreign_image, is_foreign
from somf.data.images.file_channels import channels_of_file
from somf.data.images.files import IMAGE_AXES, dimensions, files_of, open_image, shapes_in_words
from somf.data.images.no_data import (
    MISSING,
    Unknown,
    checked_mask,
    checked_no_data,
    pixels_with_data,
    read_mask,
    unknown_entries,
)
from somf.data.readahead.memory_map import Mapping, is_mapped
from somf.errors import ParameterError
from somf.typing import Array, Ints

SMALL_IMAGE = 2**28
"""Bytes up to which an image is prefetched as a whole: patches overlap, and soon need all of it."""


class PatchedImage:
    """One image or volume, and the positions of its patches.

    Parameters
    ----------
    image : ndarray or path-like
        See `somf.ImagePatches`, also for the other parameters.
    size, stride : tuple of int
        Along each axis of space.
    mask : ndarray, path-like or None
    no_data : float, "missing" or None
    dataset : str or None
    allow_external : bool

    Attributes
    ----------
    image : ndarray
        In the shape that the user knows.
    cube : ndarray of shape (planes, lines, columns, channels)
        The same pixels; see `as_cube`.
    size : tuple of (int, int, int)
        Planes, lines and columns of a patch.
    positions : ndarray of shape (n, 3)
        The first plane, line and column of every patch, in ascending order.
    grid_shape : tuple of int
        How many patches there are along each axis of space, those that are left out counted.
    unknown : Unknown or None
        Which entries are unknown, if some may be.
    path : str or None
        The file of the image.
    no_data : float, "missing" or None
        The given value, or that of the file.
    files : tuple of str
    channels : Channels or None
        What is known of its channels.
    """

    def __init__(
        self,
        image: Any,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        mask: Any,
        no_data: Any,
        dataset: str | None,
        allow_external: bool,
    ) -> None:
        n_axes, declared = len(size), None
        self.path: str | None = None
        self.mask_path: str | None = None
        self.dataset = dataset
        self.channels: Channels | None = None
        if isinstance(image, str | os.PathLike):
            self.path = os.fspath(image)
            image, declared = open_image(image, dataset, allow_external, n_axes)
            if image.ndim > n_axes:
                self.channels = channels_of_file(self.path, dataset, image.shape, allow_external)
        elif is_foreign(image):
            image, declared, self.channels = foreign_image(image, n_axes)
        _check_image(image, n_axes)
        self.no_data = checked_no_data(declared if no_data is None else no_data)
        self.image, has_data = _unmasked(image)
        self.cube = as_cube(self.image, n_axes)
        self._set_reader()
        self.positions = self._all_positions(size, stride)
        if isinstance(mask, str | os.PathLike):
            self.mask_path = os.fspath(mask)
            mask = read_mask(
                self.mask_path, image.shape, n_axes, self.no_data == MISSING, allow_external
            )
        if mask is not None:
            mask = checked_mask(mask, image.shape, n_axes, self.no_data == MISSING)
        masks = [as_cube(part, n_axes) for part in (mask, has_data) if part is not None]
        self.unknown: Unknown | None = None
        if self.no_data == MISSING:
            self.unknown = unknown_entries(self.cube, masks, declared)
            return
        if mask is None and self.no_data is not None:
            masks.append(pixels_with_data(self.cube, self.no_data)[..., None])
        for valid in masks:
            is_inside = _inside(np.asarray(valid.all(axis=3)), self.positions, self.size)
            self.positions = self.positions[is_inside]

    def _set_reader(self) -> None:
        """Find out whether the image is in memory, or in which file it is mapped."""
        self.is_in_memory, self._is_prefetched = not is_mapped(self.image), False
        self.files: tuple[str, ...] = ()
        if not self.is_in_memory:
            self._mapping = Mapping(self.image)
            self.files = self._mapping.files
        if self.path is not None:
            self.files = tuple(files_of(self.path))

    def _all_positions(self, size: tuple[int, ...], stride: tuple[int, ...]) -> Ints:
        """Return where patches are if none is left out."""
        space = self.image.shape[: len(size)]
        if any(s > n for s, n in zip(size, space, strict=True)):
            raise ParameterError("patch_size", f"fit into the image of {space}", size)
        along = [np.arange(0, n - s + 1, d) for n, s, d in zip(space, size, stride, strict=True)]
        self.grid_shape: tuple[int, ...] = tuple(map(len, along))
        self.size, self._stride = as_triple(size), as_triple(stride)
        if len(size) == IMAGE_AXES:
            along.insert(1, np.zeros(1, dtype=np.int64))
        grid = np.meshgrid(*along, indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1)

    @property
    def cells(self) -> Ints:
        """The place of every patch in the grid, as an index into the flattened grid."""
        grid = self.grid_shape
        shape = grid if len(grid) > IMAGE_AXES else (grid[0], 1, grid[1])
        found = np.ravel_multi_index(tuple((self.positions // self._stride).T), shape)
        return np.asarray(found)

    @property
    def description(self) -> dict[str, Any]:
        """The image in plain values."""
        return {
            "shape": tuple(self.image.shape),
            "dtype": self.image.dtype.name,
            "path": self.path,
            "dataset": self.dataset,
            "mask": self.mask_path,
        }

    def cut(
        self, ids: Ints, center: bool, scale: bool, dtype: np.dtype[Any]
    ) -> tuple[Array, Array]:
        """Return patches as rows, with their moments; see `cutting.cut_patches`."""
        from somf.data.images.cutting import cut_patches  # Numba is slow to import

        self._check_file()
        at = self.positions[ids]
        found = cut_patches(self.cube, at, self.size, center, scale, dtype, self.unknown)
        self._check_file()
        return found

    def _check_file(self) -> None:
        if not self.is_in_memory:
            self._mapping.check_file()

    def prefetch(self, ids: Ints) -> None:
        """Let the system read pages, if the image is mapped; a small image once, as a whole."""
        if self.is_in_memory or self._is_prefetched:
            return
        if self.image.flags.c_contiguous and self.image.nbytes <= SMALL_IMAGE:
            self._is_prefetched = True
            self._mapping.prefetch(np.zeros(1, dtype=np.int64), self.image.nbytes)
            return
        strides = np.array(self.cube.strides[:3])
        planes, lines, columns = self.size
        inside = np.add.outer(strides[0] * np.arange(planes), strides[1] * np.arange(lines))
        offsets = np.add.outer(self.positions[ids] @ strides, inside.ravel())
        self._mapping.prefetch(offsets.ravel(), columns * int(strides[2]))


def as_cube(image: Array, n_axes: int) -> Array:
    """Return an image or a volume in the one shape that is computed with, without a copy.

    Parameters
    ----------
    image : ndarray
        With `n_axes` axes of space and, maybe, channels.
    n_axes : {2, 3}

    Returns
    -------
    cube : ndarray of shape (planes, lines, columns, channels)
        The rows of an image are planes of one line, so that planes are what the first axis has.
    """
    cube = image if image.ndim > n_axes else image[..., None]
    return cube if n_axes > IMAGE_AXES else cube[:, None]


def as_triple(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the sizes of a patch along the axes of a cube."""
    if len(sizes) == IMAGE_AXES:
        return sizes[0], 1, sizes[1]
    return sizes[0], sizes[1], sizes[2]


def floating_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating type for what is made of pixels: float32 if it holds each exactly."""
    is_single = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if is_single else np.float64)


def _check_image(image: Any, n_axes: int) -> None:
    if not isinstance(image, np.ndarray) or image.ndim not in dimensions(n_axes):
        rule = f"be an array of shape {shapes_in_words(n_axes)}"
        hint = "For patches of a volume, give patch_size three numbers." if _is_4d(image) else ""
        raise ParameterError("image", rule, image, hint, got=repr(getattr(image, "shape", image)))
    if not is_real(image.dtype):
        raise ParameterError("image", "be real", image, got=str(image.dtype))
    if image.dtype.kind == "f" and image.dtype.itemsize > 8:
        raise ParameterError(
            "image", "be float64 at most", image, "Convert it.", got=str(image.dtype)
        )


def _is_4d(image: Any) -> bool:
    return isinstance(image, np.ndarray) and image.ndim == 4


def _unmasked(image: Array) -> tuple[Array, Array | None]:
    """Return the values of an image, and where a masked array has data; None is everywhere."""
    if not isinstance(image, np.ma.MaskedArray):
        return image, None
    return image.data, ~np.ma.getmaskarray(image)


def _inside(mask: Array, positions: Ints, size: tuple[int, int, int]) -> Array:
    """Return which patches hold no pixel where the mask is False.

    Parameters
    ----------
    mask : ndarray of bool of shape (planes, lines, columns)
    positions : ndarray of shape (n, 3)
    size : tuple of (int, int, int)
    """
    # Number of missing pixels in every box that starts in the corner of the cube.
    missing = np.zeros([n + 1 for n in mask.shape], dtype=np.int64)
    missing[1:, 1:, 1:] = ~mask
    for axis in range(3):
        np.cumsum(missing, axis=axis, out=missing)
    count = np.zeros(len(positions), dtype=np.int64)
    for end in product((0, 1), repeat=3):  # the corners of a patch, by inclusion and exclusion
        corner = positions + np.array(end) * size
        count += (-1) ** (3 - sum(end)) * missing[tuple(corner.T)]
    return np.asarray(count == 0)
