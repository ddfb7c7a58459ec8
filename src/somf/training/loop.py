"""The loop over minibatches: order, clock, records, callbacks, checkpoints."""

import logging
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from time import perf_counter

import numpy as np

from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader
from somf.inference.coding import Coder
from somf.kernels.host import to_host
from somf.training.callbacks import Callback, History, Progress
from somf.training.checkpoint import CheckpointManager
from somf.training.config import TrainingConfig
from somf.training.signals import Interrupted, SignalGuard
from somf.typing import Ints, Matrix

logger = logging.getLogger("somf")

VALIDATION_TOL = 1e-4
"""Relative duality gap of the codes behind a recorded objective."""


class Loop:
    """A number of epochs over the data, from wherever the state is.

    Parameters
    ----------
    config : TrainingConfig
    state : State
        Changed in place.
    loader : Loader
    ids : ndarray of shape (n,)
        The samples to learn from.
    validation : tuple of (Loader, ndarray of int), optional
        The samples on which the objective is measured.
    callbacks : sequence of callables
    manager : CheckpointManager, optional
        Writes checkpoints.
    progress : Progress
        A new one, or that of the checkpoint from which the fit goes on.
    """

    def __init__(
        self,
        config: TrainingConfig,
        state: State,
        loader: Loader,
        ids: Ints,
        validation: tuple[Loader, Ints] | None,
        callbacks: Sequence[Callback],
        manager: CheckpointManager | None,
        progress: Progress,
    ) -> None:
        self.config, self.state, self.loader, self.ids = config, state, loader, ids
        self.validation, self.callbacks, self.manager = validation, callbacks, manager
        self.progress = progress
        self.solver = Solver(config, state)
        self.record_every = config.record_every or len(ids)
        self.start = perf_counter() - progress.wall_seconds
        self.interruptions = SignalGuard()
        progress.n_samples_planned = config.n_epochs * len(ids)
        if state.n_samples_seen > progress.n_samples_planned:
            raise ValueError(
                f"n_epochs must not be less than the checkpoint has done, got {config.n_epochs} "
                f"after {state.n_samples_seen / len(ids):.1f}."
            )

    def run(self) -> History:
        """Fit until all epochs are done, or a callback says that it is enough.

        Returns
        -------
        history : dict of lists
        """
        history = self.progress.history
        if not history:
            if self.manager is not None:  # raises what would else be found out in an hour
                self.manager.write(self.state, self.progress, self._seen())
            self._record()
        signals = () if self.manager is None else (signal.SIGINT, signal.SIGTERM)
        with SignalGuard(*signals, impatient=True) as interruptions:
            # A fit that goes on asks its callbacks again: they may have ended the one before.
            if self.state.n_iter > 0 and (self._is_enough() or self._is_done()):
                logger.info("nothing is left to do after %d samples", self.state.n_samples_seen)
                return history
            self.interruptions = interruptions
            while not self._learn_on():
                logger.warning("Interrupted. %s", self._keep())
                interruptions.deliver()  # if this comes back, somebody else has taken care of it
            if history["n_iter"][-1] < self.state.n_iter:
                self._record()
            self._keep()
        return history

    def _learn_on(self) -> bool:
        """Go through minibatches; return False if a signal wants to be delivered."""
        with closing(self._batches()) as batches:
            for number, (batch, minibatches) in enumerate(batches):
                try:
                    self._step(batch, minibatches, is_first=number == 0)
                except Interrupted:
                    return False
                if self._is_enough():
                    break
                if self.manager is not None and self.manager.is_due(self.state.n_samples_seen):
                    self._keep()
        return True

    def _batches(self) -> Generator[tuple[Ints, Iterator[Matrix]]]:
        """Yield the samples of every minibatch still to come, and where it is the next to come."""
        epoch, position = divmod(self.state.n_samples_seen, len(self.ids))
        while epoch < self.config.n_epochs:
            order = self.loader.order(self.ids, self.state.seed, epoch)[position:]
            size = self.config.batch_size
            batches = np.split(order, range(size, len(order), size))
            with self.loader.stream(batches) as minibatches:
                for batch in batches:
                    yield batch, minibatches
            epoch, position = epoch + 1, 0

    def _step(self, batch: Ints, minibatches: Iterator[Matrix], is_first: bool) -> None:
        """Learn from a minibatch, and record it if it is time."""
        progress, state = self.progress, self.state
        tick = perf_counter()
        if is_first:
            tick += self._learn_and_compile(batch, minibatches)
        else:
            self._learn(batch, minibatches)
        records_before = progress.n_samples_seen // self.record_every
        is_due = self._is_done() or state.n_samples_seen // self.record_every > records_before
        if is_due:
            self.solver.check()
        now = perf_counter()
        progress.n_iter, progress.n_samples_seen = state.n_iter, state.n_samples_seen
        progress.compute_seconds += now - tick
        progress.wall_seconds = now - self.start
        progress.objective = None
        if is_due:
            progress.n_unused = self._count_unused()
            with self._keeping_on_error():
                self._record()

    def _learn(self, batch: Ints, minibatches: Iterator[Matrix]) -> None:
        # Until the minibatch is there, nothing has changed: a good moment for signals and errors.
        with self._keeping_on_error(), self.interruptions.welcome():
            X = next(minibatches)
        self.solver.step(X, batch)

    def _learn_and_compile(self, batch: Ints, minibatches: Iterator[Matrix]) -> float:
        """Learn; return the seconds of it that went into compiling kernels."""
        from somf.kernels.cpu.jit import compilation_timer  # Numba is slow to import

        with compilation_timer() as seconds:
            self._learn(batch, minibatches)
        if seconds() > 0:
            logger.info(
                "compiled kernels for %.1f s; they are kept on disk for next time", seconds()
            )
        return seconds()

    def _is_done(self) -> bool:
        return self.state.n_samples_seen == self.progress.n_samples_planned

    def _is_enough(self) -> bool:
        """Ask the callbacks, all of them."""
        with self._keeping_on_error():
            answers = [callback(self.progress) for callback in self.callbacks]
        return any(answers)

    def _record(self) -> None:
        progress = self.progress
        if self.validation is not None:
            coder = Coder(self.solver.kernels, self.state.D, self.config.penalty, VALIDATION_TOL)
            progress.objective = coder.objective(*self.validation)
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

    def _keep(self) -> str:
        """Write a checkpoint if one is wanted; return what there is to say about it."""
        if self.manager is None:
            return ""
        self.solver.check()
        return self.manager.try_to_write(self.state, self.progress, self._seen())

    @contextmanager
    def _keeping_on_error(self) -> Iterator[None]:
        """Write a checkpoint if something goes wrong that leaves the state as it was."""
        try:
            yield
        except Exception as error:
            if self.manager is not None:
                error.add_note(self._keep())
            raise

    def _seen(self) -> Ints | None:
        """Return the samples that have been seen, without repetition; None is all there are."""
        n_seen, seed = self.state.n_samples_seen, self.state.seed
        if n_seen < len(self.ids):
            return np.sort(self.loader.order(self.ids, seed, 0)[:n_seen])
        return self.ids if len(self.ids) < self.loader.source.shape[0] else None
