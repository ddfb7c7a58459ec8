"""`fit` and `partial_fit`, from checked parameters and an opened source to a learned state."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from somf.algorithm.solver import Solver
from somf.algorithm.state import State
from somf.algorithm.state_check import check_state
from somf.data import Loader, ObservedSource, Offsets, Source, loader_for
from somf.data.sources.centred import CentredSource
from somf.distributed import ALONE, Communicator
from somf.kernels import kernels_for
from somf.kernels.cpu.threads import thread_count, threads
from somf.kernels.host import to_host
from somf.training.alpha_search import resolve_alpha
from somf.training.callbacks import Progress
from somf.training.checkpoint import CheckpointManager
from somf.training.config import TrainingConfig
from somf.training.contents import ResumePoint
from somf.training.convergence import Convergence
from somf.training.identity import FitIdentity
from somf.training.loop import Loop
from somf.training.minibatches import one_pass, weights_of
from somf.training.progress_bar import progress_bar
from somf.training.recorder import ValidationSet
from somf.training.samples import Rows, Samples
from somf.training.shares import whole_state
from somf.training.signals import SignalGuard, prompt_signals
from somf.training.start import Split, divide, hold_out, start
from somf.typing import Array, History, Ints


@dataclass(frozen=True)
class Fit:
    """What a fit has learned.

    Attributes
    ----------
    config : TrainingConfig
        With λ known.
    state : State
        On the device of the configuration.
    history : dict of lists
    last_code : ndarray of shape (b, k), or None
        The codes of the last minibatch of this rank, on the host; None without one.
    """

    config: TrainingConfig
    state: State
    history: History
    last_code: Array | None = None


def fit(
    config: TrainingConfig,
    source: Source,
    validation: Any,
    seed: int,
    identify: Callable[[], FitIdentity],
    communicator: Communicator = ALONE,
    own_rows: bool = False,
    sample_weight: Array | None = None,
    keep: Callable[[Fit], None] | None = None,
) -> Fit:
    """Learn a dictionary in some epochs over a source, or resume from a checkpoint.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    validation : float, data or None
        See `hold_out`.
    seed : int
        That of a checkpoint takes precedence.
    identify : callable
        Returns the identity of the fit; called if the configuration asks for checkpoints.
    communicator : Communicator
        The other ranks that fit with this one.
    own_rows : bool
        Whether every rank has a source of its own, rather than all of them the same.
    sample_weight : ndarray of shape (n,), optional
        How much each row of the source counts.
    keep : callable, optional
        Called with what was learned until Ctrl-C ends a fit without a checkpoint.
    """
    seed = communicator.tell(seed)[0]
    if isinstance(source, ObservedSource):
        # Every rank has looked at some rows, which may be its own.
        facts = source.known_share, source.base_weight
        source.known_share, source.base_weight = communicator.tell(facts)[0]
        config = replace(config, base_weight=source.base_weight)
    rows = divide(source, own_rows, communicator)
    # The codes of all samples then take no more memory than the atoms.
    config = config.with_surrogate(rows.n <= source.shape[1])
    if config.checkpoint is None:
        # Several ranks would have to agree on the iteration after which they end.
        is_alone = communicator.size == 1
        guard = SignalGuard(*([signal.SIGINT] if is_alone else []), second_is_immediate=True)
        with guard:
            return _fit(
                config,
                source,
                rows,
                validation,
                seed,
                None,
                guard,
                communicator,
                sample_weight,
                keep,
            )
    manager = CheckpointManager(config.checkpoint, identify, communicator)
    guard = SignalGuard(
        signal.SIGINT, signal.SIGTERM, second_is_immediate=True, announce=manager.announce
    )
    with guard, manager.locked():
        return _fit(
            config, source, rows, validation, seed, manager, guard, communicator, sample_weight
        )


def _fit(
    config: TrainingConfig,
    source: Source,
    rows: Rows,
    validation: Any,
    seed: int,
    manager: CheckpointManager | None,
    guard: SignalGuard,
    communicator: Communicator,
    sample_weight: Array | None,
    keep: Callable[[Fit], None] | None = None,
) -> Fit:
    began = perf_counter()
    with ExitStack() as stack:
        stack.enter_context(prompt_signals())
        with guard.immediate():
            resumed = None if manager is None else _resume(config, source, manager, rows)
            if resumed is not None:
                seed = resumed.state.seed
            split = hold_out(source, validation, seed, rows)
            if sample_weight is not None and communicator.size == 1:
                split = _without_zeros(split, sample_weight, source, rows)
            if config.batch_size == 0 and resumed is not None and resumed.convergence is not None:
                # That of the device on which the fit began.
                config = replace(config, batch_size=int(resumed.convergence["batch_size"]))
            config = _with_batch_size(config, source, len(split.ids), communicator)
            stack.enter_context(threads(_n_threads(config, communicator)))
            stack.enter_context(kernels_for(config.device).explain_out_of_memory())
            callbacks = list(config.callbacks)
            bar = stack.enter_context(progress_bar()) if _is_shown(config, communicator) else None
            if resumed is None:
                config, state = _begun(
                    config,
                    source,
                    split.samples,
                    seed,
                    is_finite=True,
                    communicator=communicator,
                    sample_weight=sample_weight,
                )
                progress = Progress()
            else:
                config = config.with_alpha(resumed.alpha)
                state = resumed.state.on_device(kernels_for(config.device))
                progress = resumed.progress
            mean_weight = _mean_weight(split, sample_weight, communicator)
            convergence = Convergence(config, len(split.ids), mean_weight)
            if resumed is not None and resumed.convergence is not None:
                convergence.restore(resumed.convergence, state.n_samples_seen, communicator)
            loader = _loader(config, source, state, non_negative=config.is_non_negative)
            held_out = _validation_set(config, source, state, split)
            loop = Loop(
                config,
                state,
                loader,
                split,
                held_out,
                callbacks,
                bar,
                manager,
                progress,
                convergence,
                guard,
                communicator,
                began,
                sample_weight,
            )
        try:
            history = loop.run()
        except KeyboardInterrupt:
            if keep is not None and loop.is_between_steps and state.n_iter > 0:
                loop.solver.forget_samples()
                keep(Fit(config, state, progress.history))
            raise
        if communicator.size > 1:
            state = whole_state(state, communicator).on_device(kernels_for(config.device))
        return Fit(config, state, history, loop.solver.last_code)


def _begun(
    config: TrainingConfig,
    source: Source,
    samples: Samples,
    seed: int,
    is_finite: bool,
    communicator: Communicator = ALONE,
    sample_weight: Array | None = None,
) -> tuple[TrainingConfig, State]:
    """Return the configuration with λ known, and the state before the first iteration."""
    offsets = learned_offsets(config, source, samples.ids, sample_weight, communicator)
    config = resolve_alpha(config, source, samples, seed, communicator)
    state = start(config, source, samples, seed, is_finite, communicator, sample_weight)
    state.offsets = offsets
    return config, state


def _mean_weight(split: Split, sample_weight: Array | None, communicator: Communicator) -> float:
    """Return how much a sample counts, on average over those of all ranks."""
    if sample_weight is None:
        return 1.0
    (total,) = communicator.total(float(sample_weight[split.samples.ids].sum()))
    return total / len(split.ids)


def _without_zeros(split: Split, sample_weight: Array, source: Source, rows: Rows) -> Split:
    """Leave out samples of weight zero: they are no initial atoms, and change no offset."""
    ids, held_out = split.ids[sample_weight[split.ids] > 0], split.validation_ids
    if split.validation is source:
        held_out = held_out[sample_weight[held_out] > 0]
    return replace(split, ids=ids, samples=rows.among(ids), validation_ids=held_out)


def _with_batch_size(
    config: TrainingConfig,
    source: Source,
    n_samples: int | None,
    communicator: Communicator = ALONE,
) -> TrainingConfig:
    """Return the configuration with a batch size that is a number; see `for_samples`."""
    share = source.known_share if isinstance(source, ObservedSource) else source.stored_share
    n = float(source.shape[0])
    n_stored, n_rows = communicator.total(share * n, n)  # every rank may have rows of its own
    return config.for_samples(n_samples, source.shape[1], n_stored / n_rows)


def learned_offsets(
    config: TrainingConfig,
    source: Source,
    ids: Ints,
    sample_weight: Array | None = None,
    communicator: Communicator = ALONE,
) -> Array:
    """Find the offsets of the features, if they are wanted, and let the source subtract them."""
    dtype, kernels = config.dtype_for(source.dtype), kernels_for(config.device)

    def total_of(sums: Array) -> Array:
        return to_host(communicator.sum(kernels.to_device(sums))[0])

    if isinstance(source, CentredSource):
        *totals, count = total_of(source.sums(ids, sample_weight))
        source.means = (np.asarray(totals) / count).astype(dtype)
        return source.means
    if not config.is_centred or not isinstance(source, ObservedSource):
        return np.zeros(0, dtype)
    found = Offsets.learn(source, ids, source.weights, sample_weight, total_of)
    features = found.features.astype(dtype)
    source.offsets = Offsets(features)
    return features


def _n_threads(config: TrainingConfig, communicator: Communicator) -> int | None:
    """Return how many threads this rank has, if others share its cores."""
    if config.n_threads is not None or communicator.n_beside == 1:
        return config.n_threads
    return max(1, thread_count(None) // communicator.n_beside)


def _is_shown(config: TrainingConfig, communicator: Communicator) -> bool:
    return config.verbose > 0 and communicator.rank == 0


def _resume(
    config: TrainingConfig, source: Source, manager: CheckpointManager, rows: Rows
) -> ResumePoint | None:
    def check(state: State, convergence: dict[str, Any] | None) -> None:
        check_state(config, state, source.shape[1], config.dtype_for(source.dtype))
        if convergence is not None:
            Convergence(config, rows.n).restore(convergence, state.n_samples_seen)

    return manager.resume(rows, check)


def _validation_set(
    config: TrainingConfig, source: Source, state: State, split: Split
) -> ValidationSet | None:
    if split.validation is None:
        return None
    name = "X" if split.validation is source else "validation"
    loader = _loader(config, split.validation, state, name=name)
    return ValidationSet(loader, split.validation_ids)


def _loader(config: TrainingConfig, source: Source, state: State, **options: Any) -> Loader:
    """Return the loader of minibatches in the form that a state needs; see `Loader` for options."""
    if isinstance(source, ObservedSource):
        # They may have been found on other samples.
        source.base_weight = state.base_weight
        source.offsets = Offsets(state.offsets) if state.offsets.size else None
    elif isinstance(source, CentredSource):
        source.means = state.offsets
    return loader_for(config.device, source, state.dtype, state.permutation, **options)


def partial_fit(
    config: TrainingConfig,
    source: Source,
    sample_ids: Ints | None,
    seed: int,
    state: State | None,
    adopt: Callable[[TrainingConfig, State], None],
    sample_weight: Array | None = None,
) -> Fit:
    """Learn from samples in their order, each minibatch read once.

    Parameters
    ----------
    config : TrainingConfig
    source : Source
    sample_ids : ndarray of shape (n,), or None
        The names by which samples are remembered.
    seed : int
        For a new state.
    state : State or None
        Changed in place; None begins a new one.
    adopt : callable
        Called with the configuration, with λ known, and the state after at least one step, also
        if an error or Ctrl-C ends the pass: what was learned until then is kept.
    sample_weight : ndarray of shape (n,), optional
        How much each row of the source counts.
    """
    kernels, ids = kernels_for(config.device), np.arange(source.shape[0])
    config = _with_batch_size(config, source, None).with_surrogate(
        state is not None and state.remembers
    )
    with prompt_signals(), threads(config.n_threads), kernels.explain_out_of_memory():
        if state is None:
            first = ids if sample_weight is None else ids[sample_weight > 0]
            samples = Rows.alone(source.shape[0]).among(first)
            config, state = _begun(
                config, source, samples, seed, is_finite=False, sample_weight=sample_weight
            )
        state = state.on_device(kernels)
        slots = None
        if state.memory is not None and sample_ids is not None:
            with SignalGuard(signal.SIGINT):
                slots = state.memory.slots(sample_ids, kernels)
        loader = _loader(config, source, state, non_negative=config.is_non_negative)
        solver, n_iter = Solver(config, state), state.n_iter
        solver.forget_samples()  # a checkpoint may have some
        try:
            for minibatch in one_pass(loader, ids, config.batch_size):
                with SignalGuard(signal.SIGINT):  # a step is done as a whole, or not at all
                    solver.step(
                        minibatch.X,
                        None if slots is None else slots[minibatch.ids],
                        sample_weight=weights_of(minibatch.ids, sample_weight, state, kernels),
                    )
            solver.check()
        finally:
            if state.n_iter > n_iter:
                adopt(config, state)
        return Fit(config, state, {}, solver.last_code)
