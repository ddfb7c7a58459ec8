"""Attributes of a fit that take a pass over X: how well its samples are explained."""

from typing import Any

from somf.data import Source
from somf.data.loader import CHUNK_ENTRIES
from somf.inference.measurement import Measurement

MOST_ENTRIES = 2**24
"""Entries of X, and of its codes, up to which `fit` measures its own result.

The pass then costs about one of the many epochs of a fit, seconds at most.
"""

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
            f"codes have at most {MOST_ENTRIES:,} entries. measure(X).{self.name.rstrip('_')} is "
            "the same for any data, in one pass over it.",
            name=self.name,
            obj=estimator,
        )


def is_cheap(source: Source, n_components: int) -> bool:
    """Return whether a further pass over a source costs little."""
    n_samples, entries_per_row = source.shape[0], max(source.entries_per_row, n_components)
    return source.is_in_memory and n_samples * entries_per_row <= MOST_ENTRIES


def forget_quality(estimator: Any) -> None:
    """Remove what an earlier fit has measured."""
    for name in ("reconstruction_err_", "explained_variance_ratio_"):
        vars(estimator).pop(name, None)


def adopt_quality(estimator: Any, found: Measurement) -> None:
    """Let an estimator know what was measured on the samples of its fit."""
    estimator.reconstruction_err_ = found.reconstruction_err
    if found.explained_variance_ratio is not None:
        estimator.explained_variance_ratio_ = found.explained_variance_ratio
