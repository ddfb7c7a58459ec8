"""Patches of images and volumes, cut out when they are needed."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np

from somf.data.formats.kinds import files_matching
from somf.data.images.assembling import reconstructed, residuals
from somf.data.images.image import PatchedImage, floating_type
from somf.data.images.maps import map_of
from somf.data.images.no_data import MISSING
from somf.data.images.predicting import Predictor
from somf.data.readahead.memory_map import CAN_PREFETCH
from somf.data.source import Source
from somf.errors import ParameterError
from somf.typing import Array, Ints

ImageLike: TypeAlias = Array | str | os.PathLike[str]
"""An array, or a file with an image."""


class ImagePatches(Source):
    """All patches of an image or cube, one sample each, none of them stored.

    A sample is a patch in the order (row, column, channel). The matrix that it stands for is
    typically hundreds of times larger than the image. Patches of several images are the samples of
    one matrix, those of the first image first. A patch size of three numbers cuts volumes, whose
    patches are in the order (plane, row, column, channel).

    Parameters
    ----------
    image : ndarray of shape (height, width) or (height, width, channels), path-like, or list
        An array or a memory map, which is not copied; or a file (``.npy``, HDF5, NetCDF, Zarr, ENVI
        ``.hdr``, TIFF and GeoTIFF, ``.mat``, PNG, JPEG), which is mapped into memory where its kind
        allows it (see `somf.data.images.files.open_image`). Also a cube of xarray or HyperSpy, and
        a Dask array, which is computed once. A list, or a pattern such as
        ``"photos/*.png"``, is several images, of any sizes but with the same channels. A volume
        has the shape (depth, height, width) or (depth, height, width, channels).
    patch_size : int or tuple of int
        Height and width of a patch; or depth, height and width of a patch of a volume.
    stride : int or tuple of int
        Distance between neighbouring patches.
    mask : ndarray of bool of shape (height, width), path-like, or list of one per image, optional
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
    images : tuple of ndarray
        The images.
    patch_shape : tuple of int
        (height, width) or (height, width, channels), of a volume with the depth before them:
        reshape an atom to this to show it.
    positions : ndarray of shape (n, 2) or (n, 3)
        Row and column of the upper left corner of every patch, of a volume with the plane before.
    starts : ndarray of shape (n_images + 1,)
        The first patch of every image, then the number of all patches.
    geometry : dict
        How patches are cut out, in plain values: ``patch_size``, ``stride``, ``center``, ``scale``,
        ``no_data``, and ``images``, which has for every image its ``shape``, ``dtype``, ``path``
        (None for an array), ``dataset``, and ``mask`` (None for an array).
    channels : somf.data.Channels or None
        Wavelengths with their unit, or names, of the channels, if the image says so. It may be set.

    Notes
    -----
    With ``no_data="missing"`` a patch may have dead pixels, stripes or bands without data. A model
    learns from its other entries, and `impute` fills these in. An entry has no data if any of these
    says so:

    - it is NaN;
    - it has the value that the file declares, even if other channels of the pixel have data;
    - `mask` is False there, which may then also have the shape of the image, for single channels;
    - it is a masked entry of a masked array.

    For another value, give ``mask=image != value``. Means and norms are those of the entries with
    data. A patch without any is a row of NaN, whose code is zero. Rows are floating.

    Examples
    --------
    >>> import numpy as np
    >>> from somf import DictionaryLearning, ImagePatches
    >>> image = np.random.default_rng(0).random((32, 40))
    >>> patches = ImagePatches(image, 8)
    >>> model = DictionaryLearning(10, n_epochs=1, random_state=0).fit(patches)
    >>> codes = model.transform(patches)
    >>> patches.reconstruct(codes, model.components_).shape
    (32, 40)
    >>> patches.map(codes).shape
    (25, 33, 10)
    """

    def __init__(
        self,
        image: ImageLike | Sequence[ImageLike],
        patch_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        mask: ImageLike | Sequence[ImageLike | None] | None = None,
        center: bool = True,
        scale: bool = True,
        *,
        no_data: float | Literal["missing"] | None = None,
        dataset: str | None = None,
        allow_external: bool = False,
    ) -> None:
        images = _listed(image)
        self._is_list = isinstance(images, list)
        size = _sizes(patch_size, "patch_size")
        steps = _sizes(stride, "stride", len(size))
        masks = _one_each(mask, images)
        self._parts: list[PatchedImage] = []
        for part, valid in zip(images if self._is_list else [images], masks, strict=True):
            with _naming(part, len(self._parts), self._is_list):
                self._parts.append(
                    PatchedImage(part, size, steps, valid, no_data, dataset, allow_external)
                )
        self._check_channels(len(size))
        self.center, self.scale, self.has_missing = center, scale, no_data == MISSING
        self.images: tuple[Array, ...] = tuple(part.image for part in self._parts)
        self.patch_shape: tuple[int, ...] = (*size, *self.images[0].shape[len(size) :])
        self.starts: Ints = np.cumsum([0, *(len(part.positions) for part in self._parts)])
        self.shape = (int(self.starts[-1]), int(np.prod(self.patch_shape)))
        is_floating = center or scale or self.has_missing
        types = [floating_type(x.dtype) if is_floating else x.dtype for x in self.images]
        self.dtype = np.result_type(*types) if len(types) > 1 else types[0]
        self.is_in_memory = all(part.is_in_memory for part in self._parts)
        self.reads_in_parallel = self.is_in_memory or CAN_PREFETCH
        self.files = tuple(file for part in self._parts for file in part.files)
        self.channels = next((part.channels for part in self._parts if part.channels), None)
        values = [part.no_data for part in self._parts if part.no_data is not None]
        self.geometry = {
            "patch_size": size,
            "stride": steps,
            "center": bool(center),
            "scale": bool(scale),
            "no_data": values[0] if values else None,
            "images": [part.description for part in self._parts],
        }

    def _check_channels(self, n_axes: int) -> None:
        channels = [part.image.shape[n_axes:] for part in self._parts]
        for i, found in enumerate(channels):
            if found != channels[0]:
                name = self._parts[i].path or f"image {i}"
                rule = f"have the channels of the first one, {channels[0] or 1}"
                raise ParameterError("image", rule, name, got=f"{found or 1} in {name!r}")

    @property
    def positions(self) -> Ints:
        """Where every patch begins, of shape (n, 2) or (n, 3)."""
        axes = [0, 2] if len(self._parts[0].grid_shape) == 2 else [0, 1, 2]
        return np.concatenate([part.positions[:, axes] for part in self._parts])

    def rows(self, ids: Ints) -> Array:
        """Return patches as rows, normalised."""
        shares = self._shares(ids)
        if len(shares) == 1:
            part, own, _ = shares[0]
            return part.cut(own, self.center, self.scale, self.dtype)[0]
        rows = np.empty((len(ids), self.shape[1]), dtype=self.dtype)
        for part, own, at in shares:
            rows[at] = part.cut(own, self.center, self.scale, self.dtype)[0]
        return rows

    def prefetch(self, ids: Ints) -> None:
        """Let the system read pages of images that are mapped; small images once, as a whole."""
        for part, own, _ in self._shares(ids):
            part.prefetch(own)

    def _shares(self, ids: Ints) -> list[tuple[PatchedImage, Ints, Ints]]:
        """Return for every image that has some of the patches: it, its own ids, their places."""
        if len(self._parts) == 1:
            return [(self._parts[0], ids, np.arange(len(ids)))]
        owners = np.searchsorted(self.starts, ids, side="right") - 1
        present = np.unique(owners).tolist() or [0]
        places = {owner: np.flatnonzero(owners == owner) for owner in present}
        return [(self._parts[o], ids[at] - self.starts[o], at) for o, at in places.items()]

    def reconstruct(
        self,
        codes: Any,
        components: Array,
        out: Any = None,
        *,
        dtype: Any = None,
        fill: float | Literal["original"] = "original",
        progress: Callable[[int], object] | None = None,
    ) -> Any:
        """Put the patches that codes stand for together to an image.

        A patch is its code times the atoms, times its norm and plus its mean, where these were
        taken from it. A pixel is the mean of all patches that cover it. Some rows of the image are
        computed and written at a time, so that neither patches nor image have to fit into memory.

        Parameters
        ----------
        codes : array-like, sparse matrix, path or Source of shape (n, n_components)
            One row for every patch, such as the result, or the file, of `transform`.
        components : ndarray of shape (n_components, n_features)
            The atoms, ``model.components_``.
        out : ndarray, array-like with slices of rows, or path-like, optional
            Where to write: an array of the shape of the image; or a file, ``.npy``, ``.zarr``,
            ``.tif`` (GeoTIFF tags of a TIFF source are kept), ``.hdr`` (ENVI; its pixels go to the
            ``.img`` beside it, and map info, wavelengths and band names of an ENVI source are
            kept), or ``.png``, which must not exist yet, and appears when it is complete. For
            several images, a list.
        dtype : numpy.dtype, optional
            Type of the result: by default that of `out`, or the floating type that holds all pixels
            of the image; for PNG the type of the image. Integers are rounded, and clipped to the
            range of the type.
        fill : float or "original"
            What pixels get that no patch covers, such as those without data, or at the border if
            the stride does not reach it: the pixel of the image, or a number, which may be NaN.
        progress : callable, optional
            Called with the number of patches that are done, after every chunk of them.

        Returns
        -------
        image : ndarray, or list of ndarray for several images
            What was given as `out`; for a file, the image in it, mapped into memory.
        """
        predictor = Predictor(codes, components, self.shape, progress)
        outs = _one_each(out, list(self._parts) if self._is_list else None, "out")
        found = [
            reconstructed(self._patches_of(i, predictor), part, target, dtype, fill)
            for i, (part, target) in enumerate(zip(self._parts, outs, strict=True))
        ]
        return found if self._is_list else found[0]

    def residual_map(self, codes: Any, components: Array) -> Any:
        """Return how far every pixel is from its reconstruction, for a picture of what is missed.

        Parameters
        ----------
        codes, components
            See `reconstruct`.

        Returns
        -------
        residuals : ndarray of shape (height, width), or list of them for several images
            The root of the mean over channels of (pixel − reconstruction)². NaN where no patch
            covers the pixel, or it has no data. That of a volume has three axes.
        """
        predictor = Predictor(codes, components, self.shape)
        found = [
            residuals(self._patches_of(i, predictor), part) for i, part in enumerate(self._parts)
        ]
        return found if self._is_list else found[0]

    def map(self, values: Any) -> Any:
        """Return numbers of patches, such as codes, as an image with one pixel per patch.

        With patches of one pixel and a stride of 1, this is an image of the size of the original:
        the abundance maps of a scene, if `values` are codes.

        Parameters
        ----------
        values : array-like, sparse matrix, path or Source of shape (n,) or (n, m)
            One or m numbers for every patch.

        Returns
        -------
        image : ndarray of shape (grid height, grid width) or (grid height, grid width, m), or list
            One pixel for every patch, m channels; NaN where a patch is left out. For several
            images, a list. The map of a volume has three axes before the channels.
        """
        found = map_of(values, self._parts, self.starts)
        return found if self._is_list else found[0]

    def _patches_of(self, i: int, predictor: Predictor) -> Callable[[Ints], Array]:
        """Return the function that predicts patches of one image, with their means and norms."""
        part, first, is_plain = self._parts[i], self.starts[i], not (self.center or self.scale)

        def predict(ids: Ints) -> Array:
            patches = predictor.rows(first + ids)
            if not is_plain:
                _, moments = part.cut(ids, self.center, self.scale, self.dtype)
                moments = moments.astype(patches.dtype)
                patches *= moments[:, 1:]
                patches += moments[:, :1]
            return patches

        return predict

    def __repr__(self) -> str:
        of = f" of {len(self._parts)} images" if len(self._parts) > 1 else ""
        return (
            f"ImagePatches({self.shape[0]} patches of shape {self.patch_shape}{of}, {self.dtype})"
        )


@contextmanager
def _naming(image: Any, number: int, is_list: bool) -> Iterator[None]:
    """Say in an error which one of several images it is about."""
    try:
        yield
    except ParameterError as error:
        if is_list:
            is_file = isinstance(image, str | os.PathLike)
            error.add_note(f"This is {os.fspath(image)!r}." if is_file else f"Image {number}.")
        raise


def _listed(image: Any) -> Any:
    """Return the files that a pattern matches, or several images, as a list; else the image."""
    if isinstance(image, str):
        found = files_matching(image)
        return found if found not in ([image], []) else image
    if not isinstance(image, list | tuple):
        return image
    if not image:
        raise ParameterError("image", "be an image, or a list of at least one", image)
    return list(image)


def _one_each(value: Any, images: Any, name: str = "mask") -> list[Any]:
    """Return a value for every image."""
    if not isinstance(images, list):
        return [value]
    if value is None:
        return [None] * len(images)
    if not isinstance(value, list | tuple) or len(value) != len(images):
        got = len(value) if isinstance(value, list | tuple) else type(value).__name__
        raise ParameterError(
            name, f"be a list with one for each of the {len(images)} images", value, got=str(got)
        )
    return list(value)


def _sizes(value: Any, name: str, count: int | None = None) -> tuple[int, ...]:
    """Return two or three sizes; one number is the size along every axis."""
    is_one = not isinstance(value, tuple | list | np.ndarray)
    sizes = (value,) * (count or 2) if is_one else tuple(value)
    allowed = (2, 3) if count is None else (count,)
    is_whole = all(isinstance(v, int | np.integer) and v >= 1 for v in sizes)
    if len(sizes) not in allowed or not is_whole:
        words = {2: "one or two", 3: "one or three"}[count] if count else "one, two or three"
        raise ParameterError(name, f"be {words} integers of at least 1", value)
    return tuple(map(int, sizes))
