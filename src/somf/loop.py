"""The loop over minibatches: order, clock, records, callbacks."""

import logging
from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

from somf.callbacks import Callback, History, Progress
from somf.coding import Coder
from somf.config import Config
from somf.data import Loader
from somf.kernels.host import to_host
from somf.solver import Solver
from somf.state import State
from somf.typing import Ints, Matrix

logger = logging.getLogger("somf")

VALIDATION_TOL = 1e-4
"""Relative duality gap of the codes behind a recorded objective."""


def run(
    config: Config,
    state: State,
    loader: Loader,
    ids: Ints,
    validation: tuple[Loader, Ints] | None,
    callbacks: Sequence[Callback],
) -> History:
    """Fit for a number of epochs, or until a callback says that it is enough.

    Parameters
    ----------
    config : Config
    state : State
        Changed in place.
    loader : Loader
    ids : ndarray of shape (n,)
        The samples to learn from.
    validation : tuple of (Loader, ndarray of int), optional
        The samples on which the objective is measured.
    callbacks : sequence of callables

    Returns
    -------
    history : dict of lists
    """
    start = perf_counter()
    solver = Solver(config, state)
    progress = Progress(n_samples_planned=config.n_epochs * len(ids))
    record_every = config.record_every or len(ids)

    def record() -> None:
        if validation is not None:
            coder = Coder(solver.kernels, state.D, config.penalty, VALIDATION_TOL)
            progress.objective = coder.objective(*validation)
        progress.wall_seconds = perf_counter() - start
        progress.record()
        _log(progress)

    record()

    for epoch in range(config.n_epochs):
        order = loader.order(ids, state.seed, epoch)
        cuts = range(config.batch_size, len(ids), config.batch_size)
        batches = np.split(order, cuts)
        with loader.stream(batches) as minibatches:
            for batch in batches:
                tick = perf_counter()
                if state.n_iter == 0:
                    tick += _first_step(solver, minibatches, batch)
                else:
                    solver.step(next(minibatches), batch)
                now = perf_counter()

                records_before = progress.n_samples_seen // record_every
                progress.n_iter, progress.n_samples_seen = state.n_iter, state.n_samples_seen
                progress.compute_seconds += now - tick
                progress.wall_seconds = now - start
                progress.objective = None
                is_last = progress.n_samples_seen == progress.n_samples_planned
                if is_last or progress.n_samples_seen // record_every > records_before:
                    progress.n_unused = _count_unused(state, progress)
                    record()
                answers = [callback(progress) for callback in callbacks]
                if any(answers):
                    if progress.history["n_iter"][-1] < progress.n_iter:
                        record()
                    return progress.history
    return progress.history


def _first_step(solver: Solver, minibatches: Iterator[Matrix], batch: Ints) -> float:
    """Do the first step of a fit; return the seconds of it that went into compiling kernels."""
    from somf.kernels.jit import compilation_watched  # Numba is slow to import

    with compilation_watched() as seconds:
        solver.step(next(minibatches), batch)
    if seconds() > 0:
        logger.info("compiled kernels for %.1f s; they are kept on disk for next time", seconds())
    return seconds()


def _count_unused(state: State, progress: Progress) -> int:
    """Count the atoms that no sample has used since the last record."""
    last = progress.history["n_samples_seen"][-1]
    return int(np.count_nonzero(to_host(state.last_used) <= last))


def _log(progress: Progress) -> None:
    logger.info(
        "%d samples, %.1f s, objective %s, %d unused atoms",
        progress.n_samples_seen,
        progress.compute_seconds,
        "not measured" if progress.objective is None else f"{progress.objective:.6g}",
        progress.n_unused,
    )
