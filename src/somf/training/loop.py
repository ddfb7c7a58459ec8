"""The loop over minibatches: clock, records, callbacks, checkpoints, signals."""

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np

from somf.algorithm.passes import PASS_ENTRIES, begin_pass, is_pass_due
from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.data import Loader
from somf.distributed import Communicator
from somf.errors import ParameterError
from somf.kernels.observed import Observed
from somf.training.callbacks import Callback, Progress
from somf.training.checkpoint import CheckpointManager
from somf.training.config import TrainingConfig
from somf.training.contents import CheckpointContents
from somf.training.convergence import Convergence
from somf.training.minibatches import Minibatch, Rest, epochs, weights_of
from somf.training.recorder import Recorder, ValidationSet
from somf.training.samples import unvisited
from somf.training.signals import Interrupted, SignalGuard
from somf.training.start import Split
from somf.typing import Array, History, Ints

logger = logging.getLogger("somf")


class Loop:
    """A number of epochs over the data, from the position that the state has reached.

    Parameters
    ----------
    config : TrainingConfig
    state : State
        Changed in place.
    loader : Loader
    split : Split
        With the samples to learn from.
    validation : ValidationSet, optional
    callbacks : sequence of callables
    bar : callable, optional
        A callback that shows progress, and has no say in when the fit ends.
    manager : CheckpointManager, optional
    progress : Progress
        A new one, or that of the checkpoint from which the fit resumes.
    convergence : Convergence
        Likewise.
    guard : SignalGuard
        Has been entered, and defers signals.
    communicator : Communicator
    began : float
        When this call of `fit` began, by the clock of `perf_counter`.
    sample_weight : ndarray of shape (n,), optional
        How much each row of the source counts.
    """

    def __init__(
        self,
        config: TrainingConfig,
        state: State,
        loader: Loader,
        split: Split,
        validation: ValidationSet | None,
        callbacks: Sequence[Callback],
        bar: Callback | None,
        manager: CheckpointManager | None,
        progress: Progress,
        convergence: Convergence,
        guard: SignalGuard,
        communicator: Communicator,
        began: float,
        sample_weight: Array | None = None,
    ) -> None:
        self.sample_weight = sample_weight
        self.config, self.state, self.loader = config, state, loader
        self.split, self.samples = split, split.samples
        self.callbacks, self.bar = callbacks, bar
        self.manager, self.progress, self.guard = manager, progress, guard
        self.convergence, self.communicator = convergence, communicator
        self.solver = Solver(config, state, communicator)
        n = self.samples.n
        self.solver.forgetting.expect_epochs(n, convergence.noisy_from, convergence.quiet_from)
        self.recorder = Recorder(
            progress, self.solver, convergence, validation, config.record_every, n
        )
        self.start = began - progress.wall_seconds
        self.is_between_steps = False  # when a signal ends the fit, so that the state can be kept
        self._is_resumed, self._is_over = state.n_iter > 0, convergence.is_over
        progress.n_samples_planned, progress.noisy = config.n_epochs * n, convergence.noisy
        if state.n_samples_seen > progress.n_samples_planned:
            raise ParameterError(
                "n_epochs",
                f"not be less than the checkpoint has done, {state.n_samples_seen / n:.1f}",
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
            self.is_between_steps = True
            self.guard.deliver()  # returns if the program has a handler that does
            self.is_between_steps = False
            self.communicator.any(False)  # ranks without a signal go on if those with one do
        self.solver.forget_samples()
        return self.progress.history

    def _run_until_signal(self) -> bool:
        """Do what is left of the fit; return False if a signal has interrupted it."""
        n_iter, n_records = self.state.n_iter, self.recorder.n_records
        try:
            if self.recorder.is_due(self._is_done()):
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
        if (self.state.n_iter, self.recorder.n_records) != (n_iter, n_records):
            self._write_checkpoint()
        else:
            logger.info("nothing is left to do after %d samples", self.state.n_samples_seen)
        return True

    def _learn(self) -> None:
        """Learn from all minibatches that are left, or until the fit is over."""
        minibatches = epochs(
            self.loader,
            self.samples,
            self.state.seed,
            self._batch_size,
            self.config.n_epochs,
            self.state.n_samples_seen,
            self._rest_of_epoch(),
        )
        is_first = True
        with closing(minibatches), self.communicator.when_idle(self.loader.advance):
            while not self._is_over:
                tick = perf_counter()
                minibatch = self._next(minibatches)
                if minibatch is None:
                    return
                self._step(minibatch, tick, is_first)
                del minibatch  # its memory is for the next one, unless that was loaded ahead
                is_first = False
                self._is_over = self._should_stop() or self.convergence.is_over
                if self._is_checkpoint_due():
                    self._write_checkpoint()
                self._heed_signals()

    def _batch_size(self) -> int:
        """Return the samples of a minibatch of this epoch, on all ranks."""
        if self.state.phase not in (Phase.PASS, Phase.BETWEEN):
            return self.config.batch_size
        k = self.config.n_components
        per_row = max(self.loader.source.entries_per_row, k * k if self.config.has_weights else k)
        return max(self.config.batch_size, int(PASS_ENTRIES / per_row))

    def _is_checkpoint_due(self) -> bool:
        if self.manager is None:
            return False
        is_due = self.manager.is_due(self.state.n_samples_seen)
        return self.communicator.agree("checkpoint", is_due)

    def _heed_signals(self) -> None:
        """Interrupt the fit on all ranks in the same iteration, after a signal on any of them.

        A single process is interrupted while it waits for the next minibatch.
        """
        if self.communicator.size > 1 and self.communicator.agree(
            "signal", bool(self.guard.pending)
        ):
            raise Interrupted

    def _interruptible(self) -> AbstractContextManager[None]:
        """Return a context that a signal may end, unless other ranks would wait for this one."""
        return self.guard.interruptible() if self.communicator.size == 1 else nullcontext()

    def _rest_of_epoch(self) -> Rest | None:
        """Return what is left of an epoch that the fit has begun on another number of ranks."""
        if self.manager is None or not self.manager.shifts:
            return None
        epoch = self.state.n_samples_seen // self.samples.n
        shifts = self.manager.shifts_within(epoch * self.samples.n)
        if not shifts:
            return None
        if self.samples.rows.has_own_source:
            raise ParameterError(
                "ranks",
                "be 'share' to go on with an epoch that another number of ranks has begun",
                "own",
                "Resume with the same rows on the same ranks.",
            )
        ids = unvisited(self.loader, self.split.ids, self.state.seed, epoch, shifts)
        return Rest(self.samples.rows.among(ids), shifts[-1][0])

    def _next(self, minibatches: Generator[Minibatch]) -> Minibatch | None:
        """Return the next minibatch, or None after the last.

        Until it is there, the state is consistent: signals and errors may interrupt.
        """
        try:
            with self._interruptible():
                return next(minibatches, None)
        except Exception as error:
            self._write_after(error)
            raise

    def _step(self, minibatch: Minibatch, tick: float, is_first: bool) -> None:
        """Learn from a minibatch that was requested at `tick`, and record if a record is due."""
        progress, state = self.progress, self.state
        self._hash(minibatch)
        if is_first:
            tick += self._step_and_compile(minibatch)
        else:
            self._do_step(minibatch)
        self.recorder.complete_first()
        if self.convergence.is_due(state.n_samples_seen):
            self.convergence.conclude(self.solver)
        is_due = self.recorder.is_due(self._is_done())
        if is_due:
            self.solver.check()  # waits for a device, so that its time is counted
        now = perf_counter()
        progress.n_iter, progress.n_samples_seen = state.n_iter, state.n_samples_seen
        progress.compute_seconds += now - tick
        progress.wall_seconds = now - self.start
        progress.objective = None
        if is_due:
            progress.n_unused = self.recorder.count_unused()
            self._measure_and_record()

    def _do_step(self, minibatch: Minibatch) -> None:
        if is_pass_due(self.state):
            own = self.samples.rows.own
            begin_pass(self.solver, own, self.samples.rows.n - len(own))
        ids = minibatch.ids
        weights = weights_of(ids, self.sample_weight, self.state, self.solver.kernels)
        self.solver.step(minibatch.X, self.samples.slots(ids), minibatch.size, weights)

    def _hash(self, minibatch: Minibatch) -> None:
        """Add a minibatch to the hash of its epoch, if the checkpoint has one."""
        X: Any = minibatch.X
        if self.manager is not None and self.manager.request.hash_data:
            self.manager.epoch_hash.add(
                X.values if isinstance(X, Observed) else X,
                minibatch.ids,
                self.config.device,
                self.state.n_samples_seen,
                self.samples.n,
                minibatch.size,
            )

    def _step_and_compile(self, minibatch: Minibatch) -> float:
        """Do the first step; return the seconds of it that Numba spent on compiling kernels."""
        from somf.kernels.cpu.jit import compilation_timer  # Numba is slow to import

        with compilation_timer() as seconds:
            self._do_step(minibatch)
        if seconds() > 0:
            logger.info("compiled kernels for %.1f s; later processes reuse them", seconds())
        return seconds()

    def _is_done(self) -> bool:
        return self.state.n_samples_seen == self.progress.n_samples_planned

    def _should_stop(self) -> bool:
        """Call all callbacks; return whether one of them ends the fit, on any rank."""
        if not self.callbacks and self.bar is None:
            return False
        with self._checkpoint_on_error():
            answers = [callback(self.progress) for callback in self.callbacks]
            if self.bar is not None:
                self.bar(self.progress)
        return self.communicator.any(any(answers)) if answers else False

    def _measure_and_record(self) -> None:
        self.solver.align()
        if self.recorder.validation is not None:
            with self._checkpoint_on_error(), self._interruptible():
                self.recorder.measure(self.recorder.validation)
        self.progress.wall_seconds = perf_counter() - self.start
        self.recorder.add()

    def _write_checkpoint(self) -> str:
        """Write a checkpoint, if the fit has checkpoints; return a sentence about it."""
        if self.manager is None:
            return ""
        self.convergence.add(self.solver)
        return self.manager.try_to_write(self._checkpoint_contents())

    def _checkpoint_contents(self) -> CheckpointContents:
        alpha = self.config.penalty.alpha
        fields, edges = self.convergence.fields(self.communicator), self.samples.rows.edges
        return CheckpointContents(self.state, self.progress, alpha, fields, self._seen(), edges)

    @contextmanager
    def _checkpoint_on_error(self) -> Iterator[None]:
        """Write a checkpoint after an error that left the state as it was."""
        try:
            yield
        except Exception as error:
            self._write_after(error)
            raise

    def _write_after(self, error: Exception) -> None:
        # Other ranks do not know of the error yet, and a checkpoint takes all of them.
        if self.manager is not None and self.communicator.size == 1:
            error.add_note(self._write_checkpoint())

    def _seen(self) -> Ints | None:
        """Return the samples that have been seen, without repetition; None is all there are."""
        n_seen, seed, samples = self.state.n_samples_seen, self.state.seed, self.samples
        is_shifted = self.manager is not None and bool(self.manager.shifts)
        if n_seen < samples.n and not is_shifted:
            order = samples.order(self.loader, seed, 0)
            return samples.slots(np.sort(order[: samples.before([n_seen])[0]]))
        return samples.slots(samples.ids) if samples.n < samples.rows.n else None
