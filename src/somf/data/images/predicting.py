"""The samples that codes stand for, a chunk at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from somf.data.formats.open import as_source
from somf.errors import ParameterError
from somf.typing import Array, Ints


class Predictor:
    """Multiplies codes, from memory or a file, with atoms.

    Parameters
    ----------
    codes : array-like, sparse matrix, path or Source of shape (n, k)
    components : ndarray of shape (k, p)
    shape : tuple of (int, int)
        Of the samples, (n, p).
    progress : callable, optional
        Called with the number of samples that are done, after every chunk of them.
    """

    def __init__(
        self,
        codes: Any,
        components: Array,
        shape: tuple[int, int],
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self.codes, self.components = as_source(codes), np.asarray(components)
        if self.components.ndim != 2 or self.components.shape[1] != shape[1]:
            rule = f"have shape (n_components, {shape[1]})"
            raise ParameterError("components", rule, components, got=str(self.components.shape))
        wanted = (shape[0], len(self.components))
        if self.codes.shape != wanted:
            rule = f"have shape {wanted}, a row for every patch and a column for every atom"
            raise ParameterError("codes", rule, codes, got=str(self.codes.shape))
        self.progress, self.n_done = progress, 0

    def rows(self, ids: Ints) -> Array:
        """Return samples, of shape (b, p)."""
        rows = np.asarray(self.codes.rows(ids) @ self.components)
        self.n_done += len(ids)
        if self.progress is not None:
            self.progress(self.n_done)
        return rows
