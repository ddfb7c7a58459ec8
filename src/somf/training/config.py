"""The hyper-parameters of a fit: those of the algorithm, and of all that is around it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from somf.algorithm.config import AUTO, Config
from somf.training.checkpoint import Checkpoint
from somf.typing import Array


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Config):
    """All parameters of an estimator, checked (see `somf.estimators.config`).

    Attributes
    ----------
    code_density : float or None
        The density of codes for which λ is still to be found (see `somf.training.alpha_search`);
        None if λ is known.
    batch_size, n_epochs : int
    init : {"samples", "random", "nndsvd", "auto"} or ndarray of shape (n_components, n_features)
    record_every : int or None
        Samples between two records of the history; None is an epoch.
    n_threads : int or None
    dtype : numpy.dtype or None
    callbacks : tuple of callables
    checkpoint : Checkpoint or None
    verbose : int
    """

    code_density: float | None
    batch_size: int
    n_epochs: int
    init: str | Array
    record_every: int | None
    n_threads: int | None
    dtype: np.dtype[Any] | None
    callbacks: tuple[Callable[..., Any], ...]
    checkpoint: Checkpoint | None
    verbose: int

    def with_alpha(self, alpha: float) -> Self:
        """Return the same with λ known."""
        return replace(self, penalty=replace(self.penalty, alpha=alpha), code_density=None)

    @property
    def init_in_use(self) -> str | Array:
        """The initial atoms; "auto" is what was measured to be best for the problem."""
        if not isinstance(self.init, str) or self.init != AUTO:
            return self.init
        has_penalty = self.penalty.alpha > 0 or self.code_density is not None
        return "nndsvd" if self.is_non_negative and not has_penalty else "samples"

    def dtype_for(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the floating type in which data of some type is worked on."""
        if self.dtype is not None:
            return self.dtype
        is_single = dtype.kind == "f" and dtype.itemsize <= 4
        return np.dtype(np.float32 if is_single else np.float64)
