"""The records of a fit: when one is due, and what is in it."""

import logging
import math
from dataclasses import dataclass

import numpy as np

from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.data import Loader
from somf.inference.coding import Coder
from somf.kernels.host import to_host
from somf.training.callbacks import Progress
from somf.training.convergence import Convergence
from somf.training.record_times import RecordTimes
from somf.typing import Ints

logger = logging.getLogger("somf")

VALIDATION_TOL = 1e-4
"""Relative duality gap of the codes behind a recorded objective."""


@dataclass(frozen=True)
class ValidationSet:
    """Samples on which the objective is measured."""

    loader: Loader
    ids: Ints


class Recorder:
    """Measures objectives, and appends records to the history of a fit.

    Parameters
    ----------
    progress : Progress
        Has the history.
    solver : Solver
    convergence : Convergence
        Has the objectives of minibatches.
    validation : ValidationSet, optional
    record_every : int, optional
        Samples from one record to the next; by default those of an epoch.
    n_samples : int
        Of an epoch.
    """

    def __init__(
        self,
        progress: Progress,
        solver: Solver,
        convergence: Convergence,
        validation: ValidationSet | None,
        record_every: int | None,
        n_samples: int,
    ) -> None:
        self.progress, self.solver, self.convergence = progress, solver, convergence
        self.validation = validation
        # Records without a measurement cost nothing.
        has_early = record_every is None and validation is None
        self.times = RecordTimes(record_every or n_samples, has_early)

    @property
    def n_records(self) -> int:
        """How many there are."""
        return len(self.progress.history.get("n_iter", ()))

    def is_due(self, is_done: bool) -> bool:
        """Return whether the history lacks a record of the present.

        This depends on nothing but the state and the history, so a fit that ended while it
        measured the objective makes up for the record when it is resumed. In the middle of a pass
        there is nothing to record: atoms are as they were at its beginning.

        Parameters
        ----------
        is_done : bool
            Whether the fit has seen all samples that it is to see.
        """
        state, history = self.solver.state, self.progress.history
        if not history:
            return True
        if state.phase == Phase.PASS:
            return False
        last = int(history["n_samples_seen"][-1])
        is_due = state.n_samples_seen >= self.times.next_after(last)
        return is_due or (is_done and last < state.n_samples_seen)

    def measure(self, validation: ValidationSet) -> None:
        """Measure the objective of the present atoms on validation data."""
        solver = self.solver
        coder = Coder(
            solver.kernels,
            solver.state.D,
            solver.config.penalty,
            VALIDATION_TOL,
            None,
            solver.config.atom_alpha,
            solver.config.per_entry,
        )
        self.progress.objective = coder.objective(
            validation.loader, validation.ids, solver.communicator
        )

    def add(self) -> None:
        """Append a record of the progress to the history."""
        progress = self.progress
        last = int(progress.history["n_samples_seen"][-1]) if progress.history else 0
        progress.training_objective = self.convergence.mean_since(last, self.solver)
        self.convergence.unrecorded = 0.0
        progress.record()
        logger.info(
            "%d samples, %.1f s, %s, %d unused atoms",
            progress.n_samples_seen,
            progress.compute_seconds,
            progress.objective_in_words or "objective not measured",
            progress.n_unused,
        )

    def complete_first(self) -> None:
        """Let the record of the start have the objective of the first minibatch."""
        column = self.progress.history.get("training_objective")
        if column is not None and math.isnan(column[0]):
            column[0] = self.convergence.mean_since(0, self.solver)

    def count_unused(self) -> int:
        """Count the atoms that no sample has used for an epoch, or for `record_every` samples."""
        since = self.solver.state.n_samples_seen - self.times.every
        return int(np.count_nonzero(to_host(self.solver.state.last_used) <= since))
