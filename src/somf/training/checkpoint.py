"""Checkpoints: a fit may be killed at any moment, and resumes as if it had not been.

A checkpoint is a model file with the state of the fit and its identity: parameters, and a
fingerprint of the data. It replaces the previous checkpoint only once it is on the disk, and the
previous one is kept as ``<path>.previous``.
"""

import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from somf.algorithm.state import State
from somf.errors import DamagedFileError, ParameterError
from somf.persistence import modelfile
from somf.persistence.atomic import remove_leftovers
from somf.persistence.modelfile import Model
from somf.scratch import scratch_zeros
from somf.training.callbacks import Progress
from somf.training.identity import FitIdentity
from somf.typing import History, Ints

logger = logging.getLogger("somf")

EVERY_SECONDS = 60.0
"""Seconds between two checkpoints by default."""

SHARE_OF_TIME = 0.05
"""By default a fit spends at most this share of its time on writing checkpoints."""

BEGINNING = 2**12
"""Bytes at the beginning of a damaged file in which the name of the format is looked for."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit writes its checkpoints, and how often.

    Parameters
    ----------
    path : path-like
        The checkpoint; the previous one is kept as ``<path>.previous``.
    every_seconds : float, optional
        Seconds between two checkpoints.
    every_samples : int, optional
        Samples between two checkpoints; with both, the first that comes counts. By default a
        checkpoint is written every 60 seconds, or less often where this would take more than 5 %
        of the time.
    """

    path: str | os.PathLike[str]
    every_seconds: float | None = None
    every_samples: int | None = None


@dataclass(frozen=True)
class ResumePoint:
    """Where an interrupted fit has stopped.

    Attributes
    ----------
    state : State
        On the host.
    progress : Progress
    alpha : float
        λ of the fit.
    """

    state: State
    progress: Progress
    alpha: float


class CheckpointManager:
    """Writes the checkpoints of a fit, and reads those of the interrupted fit before it.

    Parameters
    ----------
    request : Checkpoint
    identity : FitIdentity
    """

    def __init__(self, request: Checkpoint, identity: FitIdentity) -> None:
        self.request, self.identity = request, identity
        # An absolute path: the working directory may change, and a link may lead to another disk.
        self.path = Path(os.path.realpath(request.path))
        self.previous = self.path.with_name(f"{self.path.name}.previous")
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ParameterError(
                "checkpoint", "be a file in a folder that exists", os.fspath(request.path)
            )
        self._n_samples, self._time, self._cost = 0, perf_counter(), 0.0

    def write(self, state: State, progress: Progress, alpha: float, seen: Ints | None) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        state : State
        progress : Progress
        alpha : float
            λ of the fit.
        seen : ndarray of int, or None
            The samples seen so far, without repetition; None is all.
        """
        model = Model(
            kind=self.identity.kind,
            params=self.identity.params,
            learned=state,
            history=progress.history,
            feature_names=self.identity.feature_names,
            patches=self.identity.patches,
            alpha=alpha,
            n_iter=state.n_iter,
            n_samples_seen=state.n_samples_seen,
            fit={
                "data": self.identity.data,
                "validation": self.identity.validation,
                "compute_seconds": progress.compute_seconds,
                "wall_seconds": progress.wall_seconds,
                "objective": progress.objective,
                "n_unused": progress.n_unused,
            },
        )
        begin = perf_counter()
        try:
            modelfile.save(self.path, model, seen, self.previous)
        finally:
            self._n_samples, self._time = state.n_samples_seen, perf_counter()
            self._cost = self._time - begin

    def try_to_write(
        self, state: State, progress: Progress, alpha: float, seen: Ints | None
    ) -> str:
        """Write a checkpoint if possible; return a sentence that says whether it was."""
        try:
            self.write(state, progress, alpha, seen)
        except OSError as error:
            report = (
                f"The checkpoint {str(self.path)!r} could not be written ({error}); "
                "the last one that could remains."
            )
            warnings.warn(report, RuntimeWarning, stacklevel=3)
            return report
        return f"The checkpoint is {str(self.path)!r}; the same call of fit resumes from it."

    def is_due(self, n_samples_seen: int) -> bool:
        """Return whether it is time for the next checkpoint."""
        every_seconds, every_samples = self.request.every_seconds, self.request.every_samples
        if every_samples is not None and n_samples_seen - self._n_samples >= every_samples:
            return True
        if every_seconds is None:
            if every_samples is not None:
                return False
            every_seconds = max(EVERY_SECONDS, self._cost / SHARE_OF_TIME)
        return perf_counter() - self._time >= every_seconds

    def resume(self, n_samples: int, check: Callable[[State], None]) -> ResumePoint | None:
        """Return where the interrupted fit has stopped; None if there is no checkpoint.

        Parameters
        ----------
        n_samples : int
            How many there are in the data.
        check : callable
            Raises ValueError if this fit cannot have reached a state.

        Raises
        ------
        ParameterError
            If the file is no checkpoint, or that of another fit. It is left as it is.
        """
        remove_leftovers(self.path)
        damages: list[DamagedFileError] = []
        for path in (self.path, self.previous):
            if path.exists():
                try:
                    found = self._read(path, n_samples, check)
                except DamagedFileError as error:
                    damages.append(error)
                else:
                    self._protect_older_files(damages)
                    n_seen = found.state.n_samples_seen
                    logger.info("resuming after %d samples, from %s", n_seen, path)
                    return found
        if damages:
            raise DamagedFileError(
                f"{' '.join(map(str, damages))} Choose another path; if this is a checkpoint of "
                "yours, you may also remove it to start again."
            ) from damages[0]
        return None

    def _read(self, path: Path, n_samples: int, check: Callable[[State], None]) -> ResumePoint:
        model = modelfile.load(path)
        if model.fit is None or model.state is None:
            raise ParameterError(
                "checkpoint",
                "be a checkpoint or a new file",
                str(path),
                "Choose another path.",
                got=f"{str(path)!r}, which is a model",
            )
        with modelfile.refuse_malformed(path):
            differences = self.identity.differences(model, model.fit)
        if differences:
            raise ParameterError(
                "checkpoint",
                "be that of the same fit",
                str(path),
                "Call fit as then to go on; remove the file or choose another path to start again.",
                got=f"{str(path)!r} with {'; '.join(differences)}",
            )
        with modelfile.refuse_malformed(path):
            check(model.state)
            state = _with_all_samples(model.state, n_samples)
            return ResumePoint(state, _progress(model.fit, model.history, state), model.alpha)

    def _protect_older_files(self, damages: list[DamagedFileError]) -> None:
        """Make sure that the next checkpoint replaces nothing but checkpoints."""
        if damages:
            damaged = self.path.with_name(f"{self.path.name}.damaged")
            os.replace(self.path, damaged)
            warnings.warn(
                f"{damages[0]} It has been renamed to {str(damaged)!r}; the fit resumes from "
                f"{str(self.previous)!r}.",
                RuntimeWarning,
                stacklevel=4,
            )
        elif self.previous.exists() and not _may_replace(self.previous):
            raise ParameterError(
                "checkpoint",
                f"have beside it only a checkpoint as {self.previous.name!r}, which the next one "
                "replaces",
                str(self.path),
                "Remove or rename that file, or choose another path.",
                got="another file",
            )


def _may_replace(path: Path) -> bool:
    """Return whether a file is a checkpoint, or the rest of one."""
    try:
        return modelfile.is_checkpoint(path)
    except DamagedFileError:
        with path.open("rb") as file:
            beginning = file.read(BEGINNING)
        return not beginning or b'"somf' in beginning


def _with_all_samples(state: State, n_samples: int) -> State:
    """Return a state with a slot for every sample, zero for those that were not seen."""
    arrays = state.arrays()
    ids = arrays.get("memory.ids")
    if ids is None or np.array_equal(ids, np.arange(n_samples)):
        return state
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_samples:
        raise ValueError("its state remembers samples that are not there")
    for name, some in arrays.items():
        if name.startswith("memory."):
            arrays[name] = scratch_zeros((n_samples, *some.shape[1:]), some.dtype)
            arrays[name][ids] = some
    arrays["memory.ids"] = np.arange(n_samples)
    return State.restore(arrays, state.counters())


def _progress(fit: dict[str, Any], history: History, state: State) -> Progress:
    lengths = {len(column) for column in history.values()}
    columns = {"n_samples_seen", "n_iter", "compute_seconds", "wall_seconds"}
    if lengths and (len(lengths) > 1 or not columns <= history.keys()):
        raise ValueError("its history is incomplete")
    return Progress(
        n_iter=state.n_iter,
        n_samples_seen=state.n_samples_seen,
        compute_seconds=float(fit["compute_seconds"]),
        wall_seconds=float(fit["wall_seconds"]),
        objective=None if fit["objective"] is None else float(fit["objective"]),
        n_unused=int(fit["n_unused"]),
        history=history,
    )
