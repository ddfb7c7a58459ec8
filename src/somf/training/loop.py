"""The loop over minibatches: clock, records, callbacks, checkpoints, signals."""

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader
from somf.errors import ParameterError
from somf.inference.coding import Coder
from somf.kernels.host import to_host
from somf.training.callbacks import Callback, Progress
from somf.training.checkpoint import CheckpointContents, CheckpointManager
from somf.training.config import TrainingConfig
from somf.training.convergence import Convergence
from somf.training.minibatches import Minibatch, epochs
from somf.training.signals import Interrupted, SignalGuard
from somf.typing import History, Ints

logger = logging.getLogger("somf")

VALIDATION_TOL = 1e-4
"""Relative duality gap of the codes behind a recorded objective."""


@dataclass(frozen=True)
class ValidationSet:
    """Samples on which the objective is measured."""

    loader: Loader
    ids: Ints


class Loop:
    """A number of epochs over the data, from the position that the state has reached.

    Parameters
    ----------
    config : TrainingConfig
    state : State
        Changed in place.
    loader : Loader
    ids : ndarray of shape (n,)
        The samples to learn from.
    validation : ValidationSet, optional
    callbacks : sequence of callables
    manager : CheckpointManager, optional
    progress : Progress
        A new one, or that of the checkpoint from which the fit resumes.
    convergence : Convergence
        Likewise.
    guard : SignalGuard
        Has been entered, and defers signals.
    """

    def __init__(
        self,
        config: TrainingConfig,
        state: State,
        loader: Loader,
        ids: Ints,
        validation: ValidationSet | None,
        callbacks: Sequence[Callback],
        manager: CheckpointManager | None,
        progress: Progress,
        convergence: Convergence,
        guard: SignalGuard,
    ) -> None:
        self.config, self.state, self.loader, self.ids = config, state, loader, ids
        self.validation, self.callbacks, self.manager = validation, callbacks, manager
        self.progress, self.convergence, self.guard = progress, convergence, guard
        self.solver = Solver(config, state)
        self.solver.forgetting.window = convergence.window
        self.record_every = config.record_every or len(ids)
        self.start = perf_counter() - progress.wall_seconds
        self._is_resumed, self._is_over = state.n_iter > 0, convergence.is_over
        progress.n_samples_planned = config.n_epochs * len(ids)
        if state.n_samples_seen > progress.n_samples_planned:
            raise ParameterError(
                "n_epochs",
                f"not be less than the checkpoint has done, {state.n_samples_seen / len(ids):.1f}",
                config.n_epochs,
            )

    def run(self) -> History:
        """Fit until the objective has converged, all epochs are done, or a callback ends the fit.

        Returns
        -------
        history : dict of lists
        """
        if not self.progress.history and self.manager is not None:
            # A path that cannot be written to is an error now, rather than after an hour.
            self.manager.write(self._checkpoint_contents())
        while not self._run_until_signal():
            if self.manager is not None and not self.manager.has_written(self.state, self.progress):
                self._write_checkpoint()
            self.guard.deliver()  # returns if the program has a handler that does
        return self.progress.history

    def _run_until_signal(self) -> bool:
        """Do what is left of the fit; return False if a signal has interrupted it."""
        n_iter, n_records = self.state.n_iter, self._n_records()
        try:
            if self._is_record_due():
                self._measure_and_record()
            if self._is_resumed:
                # Call the callbacks again: they may have ended the fit before.
                self._is_resumed = False
                self._is_over = self._should_stop() or self._is_over or self._is_done()
            if not self._is_over:
                self._learn()
            self.solver.check_result()
            if self.progress.history["n_iter"][-1] < self.state.n_iter:
                self._measure_and_record()
        except Interrupted:
            return False
        if (self.state.n_iter, self._n_records()) != (n_iter, n_records):
            self._write_checkpoint()
        else:
            logger.info("nothing is left to do after %d samples", self.state.n_samples_seen)
        return True

    def _learn(self) -> None:
        """Learn from all minibatches that are left, or until the fit is over."""
        minibatches = epochs(
            self.loader,
            self.ids,
            self.state.seed,
            self.config.batch_size,
            self.config.n_epochs,
            self.state.n_samples_seen,
        )
        is_first = True
        with closing(minibatches):
            while not self._is_over:
                tick = perf_counter()
                minibatch = self._next(minibatches)
                if minibatch is None:
                    return
                self._step(minibatch, tick, is_first)
                del minibatch  # its memory is for the next one
                is_first = False
                self._is_over = self._should_stop() or self.convergence.is_over
                if self.manager is not None and self.manager.is_due(self.state.n_samples_seen):
                    self._write_checkpoint()

    def _next(self, minibatches: Generator[Minibatch]) -> Minibatch | None:
        """Return the next minibatch, or None after the last.

        Until it is there, the state is consistent: signals and errors may interrupt.
        """
        with self._checkpoint_on_error(), self.guard.interruptible():
            return next(minibatches, None)

    def _step(self, minibatch: Minibatch, tick: float, is_first: bool) -> None:
        """Learn from a minibatch that was requested at `tick`, and record if a record is due."""
        progress, state = self.progress, self.state
        self._hash(minibatch)
        if is_first:
            tick += self._step_and_compile(minibatch)
        else:
            self.solver.step(minibatch.X, minibatch.ids)
        if self.convergence.is_due(state.n_samples_seen):
            self.convergence.conclude(self.solver)
        is_due = self._is_record_due()
        if is_due:
            self.solver.check()  # waits for a device, so that its time is counted
        now = perf_counter()
        progress.n_iter, progress.n_samples_seen = state.n_iter, state.n_samples_seen
        progress.compute_seconds += now - tick
        progress.wall_seconds = now - self.start
        progress.objective = None
        if is_due:
            progress.n_unused = self._count_unused()
            self._measure_and_record()

    def _hash(self, minibatch: Minibatch) -> None:
        """Add a minibatch to the hash of its epoch, if the checkpoint has one."""
        if self.manager is not None and self.manager.request.hash_data:
            self.manager.epoch_hash.add(
                minibatch.X,
                minibatch.ids,
                self.config.device,
                self.state.n_samples_seen,
                len(self.ids),
            )

    def _step_and_compile(self, minibatch: Minibatch) -> float:
        """Do the first step; return the seconds of it that Numba spent on compiling kernels."""
        from somf.kernels.cpu.jit import compilation_timer  # Numba is slow to import

        with compilation_timer() as seconds:
            self.solver.step(minibatch.X, minibatch.ids)
        if seconds() > 0:
            logger.info("compiled kernels for %.1f s; later processes reuse them", seconds())
        return seconds()

    def _n_records(self) -> int:
        return len(self.progress.history.get("n_iter", ()))

    def _is_done(self) -> bool:
        return self.state.n_samples_seen == self.progress.n_samples_planned

    def _should_stop(self) -> bool:
        """Call all callbacks; return whether one of them ends the fit."""
        if not self.callbacks:
            return False
        with self._checkpoint_on_error():
            answers = [callback(self.progress) for callback in self.callbacks]
        return any(answers)

    def _is_record_due(self) -> bool:
        """Return whether the history lacks a record of the present.

        This depends on nothing but the state and the history, so a fit that ended while it
        measured the objective makes up for the record when it is resumed.
        """
        n_seen, history = self.state.n_samples_seen, self.progress.history
        if not history:
            return True
        last = history["n_samples_seen"][-1]
        is_interval_over = n_seen // self.record_every > last // self.record_every
        return is_interval_over or (self._is_done() and last < n_seen)

    def _measure_and_record(self) -> None:
        progress = self.progress
        if self.validation is not None:
            with self._checkpoint_on_error(), self.guard.interruptible():
                kernels, penalty = self.solver.kernels, self.config.penalty
                coder = Coder(kernels, self.state.D, penalty, VALIDATION_TOL)
                progress.objective = coder.objective(self.validation.loader, self.validation.ids)
        progress.wall_seconds = perf_counter() - self.start
        progress.record()
        logger.info(
            "%d samples, %.1f s, objective %s, %d unused atoms",
            progress.n_samples_seen,
            progress.compute_seconds,
            "not measured" if progress.objective is None else f"{progress.objective:.6g}",
            progress.n_unused,
        )

    def _count_unused(self) -> int:
        """Count the atoms that no sample has used since the last record."""
        last = self.progress.history["n_samples_seen"][-1]
        return int(np.count_nonzero(to_host(self.state.last_used) <= last))

    def _write_checkpoint(self) -> str:
        """Write a checkpoint, if the fit has checkpoints; return a sentence about it."""
        if self.manager is None:
            return ""
        self.convergence.add(self.solver)
        return self.manager.try_to_write(self._checkpoint_contents())

    def _checkpoint_contents(self) -> CheckpointContents:
        alpha = self.config.penalty.alpha
        fields = self.convergence.fields()
        return CheckpointContents(self.state, self.progress, alpha, fields, self._seen())

    @contextmanager
    def _checkpoint_on_error(self) -> Iterator[None]:
        """Write a checkpoint after an error that left the state as it was."""
        try:
            yield
        except Exception as error:
            if self.manager is not None:
                error.add_note(self._write_checkpoint())
            raise

    def _seen(self) -> Ints | None:
        """Return the samples that have been seen, without repetition; None is all there are."""
        n_seen, seed = self.state.n_samples_seen, self.state.seed
        if n_seen < len(self.ids):
            return np.sort(self.loader.order(self.ids, seed, 0)[:n_seen])
        return self.ids if len(self.ids) < self.loader.source.shape[0] else None
