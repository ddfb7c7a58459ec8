"""Attributes of a fit that take a pass over X: how well its samples are explained."""

from typing import Any

from somf.data import Source
from somf.data.loader import CHUNK_ENTRIES
from somf.inference.measurement import Measurement

FEW_ENTRIES = 2**20
"""Entries of X, and of its codes, up to which `fit` always measures its own result."""

MOST_ENTRIES = 2**24
"""Entries up to which it does after `MANY_EPOCHS`."""

MANY_EPOCHS = 8
"""Epochs next to which the pass costs little: it takes as long as one or two of them."""

ENTRIES_PER_SAMPLE = CHUNK_ENTRIES // 256
"""As if a sample had so many entries: 256 of them are read at a time, as a minibatch of the fit."""


class OfSmallData:
    """An attribute that `fit` sets if a pass over X costs little; else an error says where it is.

    An attribute of the instance goes before a descriptor that only reads.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: object | None, owner: type) -> Any:
        if estimator is None:
            return self
        raise AttributeError(
            f"This {owner.__name__} has no {self.name}: fit sets it if X is in memory, and X and "
            f"codes have at most {FEW_ENTRIES:,} entries, or {MOST_ENTRIES:,} after {MANY_EPOCHS} "
            f"epochs. measure(X).{self.name.rstrip('_')} is the same for any fit, in one pass.",
            name=self.name,
            obj=estimator,
        )


def is_cheap(source: Source, n_components: int, n_samples_seen: int) -> bool:
    """Return whether a further pass over a source costs little, next to the fit.

    Parameters
    ----------
    source : Source
    n_components : int
    n_samples_seen : int
        By the fit, repetitions included.
    """
    n_samples, entries_per_row = source.shape[0], max(source.entries_per_row, n_components)
    has_many_epochs = n_samples_seen >= MANY_EPOCHS * n_samples
    most = MOST_ENTRIES if has_many_epochs else FEW_ENTRIES
    return source.is_in_memory and n_samples * entries_per_row <= most


def forget_quality(estimator: Any) -> None:
    """Remove what an earlier fit has measured."""
    for name in ("reconstruction_err_", "explained_variance_ratio_"):
        vars(estimator).pop(name, None)


def adopt_quality(estimator: Any, found: Measurement) -> None:
    """Let an estimator know what was measured on the samples of its fit."""
    estimator.reconstruction_err_ = found.reconstruction_err
    if found.explained_variance_ratio is not None:
        estimator.explained_variance_ratio_ = found.explained_variance_ratio
