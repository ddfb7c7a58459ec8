"""Callbacks: what they are called with, and early stopping.

A callback is any callable that takes a `Progress`. It is called after every iteration; the fit
ends early if it returns a true value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from somf.errors import ParameterError
from somf.typing import History


@dataclass
class Progress:
    """How far a fit has come.

    Attributes
    ----------
    n_iter : int
        Iterations done.
    n_samples_seen : int
        Samples seen, repeated visits counted.
    n_samples_planned : int
        Samples that a fit without early stopping will have seen.
    compute_seconds : float
        Time spent on loading and computing: not on initial atoms or the search for λ, not on
        validation, not in callbacks, and not on the compilation of kernels at the very first fit.
    wall_seconds : float
        Time since the fit began, with all that it did before its first iteration.
    objective : float or None
        The objective on the validation data, if this iteration has measured it.
    training_objective : float
        The mean objective of the minibatches since the record before, each before it was learned
        from; at a start, that of the first minibatch, which is NaN until there is one.
    n_unused : int
        Atoms that no sample has used in the last epoch, or in the last `record_every` samples.
    noisy : range
        Numbers of samples seen at which the atoms are noisy on purpose, or the noise is averaged
        out: until the first pass over all samples begins. At most of them objectives are higher
        than before and after. Empty if there are none.
    history : dict of lists
        All records so far.
    """

    n_iter: int = 0
    n_samples_seen: int = 0
    n_samples_planned: int = 0
    compute_seconds: float = 0.0
    wall_seconds: float = 0.0
    objective: float | None = None
    training_objective: float = math.nan
    n_unused: int = 0
    noisy: range = range(0)
    history: History = field(default_factory=dict)

    @property
    def objective_in_words(self) -> str:
        """The objective of the last record, and what it is; empty if there is none."""
        if "objective" in self.history:
            return f"objective {self.history['objective'][-1]:.6g}"
        if math.isnan(self.training_objective) or "training_objective" not in self.history:
            return ""
        return f"training objective {self.training_objective:.6g}"

    def record(self) -> None:
        """Append a record to the history."""
        columns = ["n_samples_seen", "n_iter", "compute_seconds", "wall_seconds"]
        # The records of a checkpoint of an earlier version do not have this column.
        if not self.history or "training_objective" in self.history:
            columns.append("training_objective")
        if self.objective is not None:
            columns.append("objective")
        for column in columns:
            self.history.setdefault(column, []).append(getattr(self, column))


Callback: TypeAlias = Callable[[Progress], Any]
"""A callable that takes a `Progress`. The fit ends if it returns a true value."""


@dataclass(frozen=True)
class EarlyStopping:
    """Ends a fit whose validation objective no longer improves.

    It does not end a fit while atoms are noisy on purpose (see `Progress`), and compares what comes
    after that with nothing before it.

    Parameters
    ----------
    patience : int
        How many records in a row may bring no improvement.
    min_improvement : float
        What counts as improvement, relative to the best objective before.
    """

    patience: int = 3
    min_improvement: float = 1e-3

    def __call__(self, progress: Progress) -> bool:
        """Return whether the last `patience` records brought no improvement."""
        objectives = progress.history.get("objective")
        if objectives is None:
            raise ParameterError(
                "validation", "be given for EarlyStopping", None, "Call fit(X, validation=...)."
            )
        if progress.objective is None or progress.n_samples_seen in progress.noisy:
            return False
        noisy, seen = progress.noisy, progress.history.get("n_samples_seen", ())
        if noisy and progress.n_samples_seen >= noisy.stop:
            objectives = objectives[sum(n < noisy.stop for n in seen) :]
        if len(objectives) <= self.patience:
            return False
        best_before = min(objectives[: -self.patience])
        best_since = min(objectives[-self.patience :])
        return best_since > best_before - self.min_improvement * abs(best_before)
