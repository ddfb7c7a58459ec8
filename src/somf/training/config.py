"""The hyper-parameters of a fit: those of the algorithm, and of all that is around it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from somf.algorithm.config import AUTO, Config
from somf.algorithm.schedule import can_pay
from somf.penalties import CodePenalty
from somf.training.checkpoint import Checkpoint
from somf.typing import Array

SAMPLES_PER_ATOM = 2
"""Samples of a minibatch for every atom, or for every feature if these are fewer, where
`batch_size` is "auto"."""

BATCH_SIZES = {"cpu": (16, 256), "cuda": (256, 1024)}
"""The smallest and the largest batch size by device; a GPU is idle with small ones."""

MOST_SPARSE = 2
"""The factor by which minibatches of sparse samples may exceed the largest batch size."""

COSTLY_UPDATE = 2**16
"""p k², from which the update of the dictionary takes time, so that it matters how many samples
share it."""

LARGEST_BATCH = 2**26
"""Entries of a minibatch, at most, unless even the smallest one has more."""

LEAST_STEPS = 10
"""Iterations of an epoch, at least."""


KEPT_SHRINKAGE = 0.01
"""λ of codes in sparse PCA, relative to that of the fit, where it is not given."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Config):
    """All parameters of an estimator, checked (see `somf.estimators.config`).

    Attributes
    ----------
    code_density : float or None
        The density of codes for which λ is still to be found (see `somf.training.alpha_search`);
        None if λ is known, or is to be found for atoms.
    atom_density : float or None
        Likewise the density of atoms.
    transform_alpha : float or None
        λ of the codes that the user gets; None is that of the fit.
    batch_size : int
        0 if it is still to be chosen (see `for_samples`).
    n_epochs : int
        At most.
    tol : float
        Relative improvement of the objective below which a fit has converged; 0 is never.
    patience : int
        Intervals without such an improvement after which it ends.
    init : {"samples", "random", "nndsvd", "auto"} or ndarray of shape (n_components, n_features)
    record_every : int or None
        Samples between two records of the history; None is an epoch.
    n_threads : int or None
    dtype : numpy.dtype or None
    callbacks : tuple of callables
    checkpoint : Checkpoint or None
    verbose : int
    is_centred : bool
        Whether the offsets of samples and of features are subtracted.
    """

    code_density: float | None
    batch_size: int
    n_epochs: int
    tol: float
    patience: int
    init: str | Array
    record_every: int | None
    n_threads: int | None
    dtype: np.dtype[Any] | None
    callbacks: tuple[Callable[..., Any], ...]
    checkpoint: Checkpoint | None
    verbose: int
    is_centred: bool = False
    atom_density: float | None = None
    transform_alpha: float | None = None

    def with_alpha(self, alpha: float) -> Self:
        """Return the same with λ known."""
        return replace(
            self, penalty=replace(self.penalty, alpha=alpha), code_density=None, atom_density=None
        )

    @property
    def has_open_alpha(self) -> bool:
        """Whether λ is still to be found."""
        return self.code_density is not None or self.atom_density is not None

    @property
    def transform_penalty(self) -> CodePenalty:
        """The penalty on the codes that the user gets."""
        if self.transform_alpha is not None:
            return replace(self.penalty, alpha=self.transform_alpha)
        # In sparse PCA the penalty is there for the atoms: without it the ball is no restriction.
        # Codes need it only where atoms are nearly dependent, or fewer entries than atoms known.
        is_for_atoms = self.penalty.l1_ratio == 0 and self.ball.l1_ratio > 0
        share = KEPT_SHRINKAGE if is_for_atoms and not self.has_weights else 1.0
        return replace(self.penalty, alpha=share * self.penalty.alpha)

    def for_samples(
        self, n_samples: int | None, n_features: int, stored_share: float = 1.0
    ) -> Self:
        """Return the same with a batch size that is a number.

        Twice as many samples as atoms make the codes of a minibatch about as expensive as the
        update of the dictionary. Smaller minibatches spend most of the time on the update, larger
        ones learn later from what they have seen. With fewer features than atoms the update is
        cheap, and minibatches are smaller. Codes of sparse samples are cheap, and so there are more
        samples: about as many entries as there would be otherwise. Where the entries that are not
        stored are unknown rather than zero, the update is more expensive, and there are twice as
        many entries.

        Parameters
        ----------
        n_samples : int or None
            Samples of an epoch; None for a stream.
        n_features : int
        stored_share : float
            Which part of the entries is stored; the others are zero, or unknown.
        """
        if self.batch_size > 0:
            return self
        least, most = BATCH_SIZES[self.device]
        size = min(max(SAMPLES_PER_ATOM * min(self.n_components, n_features), least), most)
        if self.has_weights:
            size *= 2 if stored_share < 1 else 1
            size = round(size / max(stored_share, size / LARGEST_BATCH))
            per_sample = float(max(n_features, self.n_components**2))
        else:
            share = min(max(stored_share, 1 / most), 1.0)  # entries may be stored several times
            if n_features * self.n_components**2 >= COSTLY_UPDATE:
                size = round(min(size / share, MOST_SPARSE * most))
            # A GPU makes sparse minibatches dense.
            per_sample = n_features * (1.0 if self.device == "cuda" else share)
        size = min(size, max(int(LARGEST_BATCH / per_sample), least))
        if n_samples is not None:
            size = min(size, max(1, n_samples // LEAST_STEPS))
        return replace(self, batch_size=size)

    def is_on_top(self, n_samples: int) -> bool:
        """Return whether ``reduction="auto"`` begins with everything, and stays there.

        Parameters
        ----------
        n_samples : int
            Those of an epoch, or of the first portion of a stream.
        """
        size = min(self.batch_size, n_samples)
        return self.reduction == AUTO and not can_pay(self.n_components, size)

    @property
    def init_in_use(self) -> str | Array:
        """The initial atoms; "auto" is samples, unless trials are made."""
        return "samples" if isinstance(self.init, str) and self.init == AUTO else self.init

    @property
    def tries_initial_atoms(self) -> bool:
        """Whether a fit begins with the best of some trials: NMF without a penalty, "auto"."""
        has_penalty = self.penalty.alpha > 0 or self.has_open_alpha
        is_auto = isinstance(self.init, str) and self.init == AUTO
        return is_auto and self.is_non_negative and not has_penalty

    def dtype_for(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the floating type in which data of some type is worked on."""
        if self.dtype is not None:
            return self.dtype
        is_single = dtype.kind == "f" and dtype.itemsize <= 4
        return np.dtype(np.float32 if is_single else np.float64)
