"""Numbers of patches as images with one pixel per patch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data.formats.open import as_source
from somf.data.images.image import PatchedImage
from somf.errors import ParameterError
from somf.typing import Array, Ints


def map_of(values: Any, parts: Sequence[PatchedImage], starts: Ints) -> list[Array]:
    """Return numbers of patches as one image for every image; see `ImagePatches.map`.

    Parameters
    ----------
    values : array-like, sparse matrix, path or Source of shape (n,) or (n, m)
    parts : sequence of PatchedImage
    starts : ndarray of shape (n_images + 1,)
        The first patch of every image, then n.

    Returns
    -------
    images : list of ndarray of shape (*grid, m), or of shape (*grid,) for one number per patch
    """
    is_column = np.ndim(values) == 1 and not isinstance(values, str)
    source = as_source(np.asarray(values)[:, None] if is_column else values)
    n = int(starts[-1])
    if source.shape[0] != n:
        rule = f"have a row for each of the {n} patches"
        raise ParameterError("values", rule, values, got=f"shape {source.shape}")
    images = []
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        rows: Any = source.rows(np.arange(start, stop))
        rows = rows.toarray() if sp.issparse(rows) else rows
        dtype = rows.dtype if rows.dtype.kind == "f" else np.float64
        image = np.full((np.prod(part.grid_shape), source.shape[1]), np.nan, dtype=dtype)
        image[part.cells] = rows
        shape = part.grid_shape if is_column else (*part.grid_shape, source.shape[1])
        images.append(image.reshape(shape))
    return images
