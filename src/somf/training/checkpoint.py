"""Checkpoints: a fit may be killed at any moment, and resumes as if it had not been.

A checkpoint is a model file with the state of the fit and its identity: parameters, and a
fingerprint of the data. It replaces the previous checkpoint only once it is on the disk, and the
previous one is kept as ``<path>.previous``. A checkpoint is never missing once there was one, so a
fit whose checkpoint was removed starts again; ``<path>.previous`` only replaces a damaged one.
"""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from somf.algorithm.state import State
from somf.errors import DamagedFileError, ParameterError
from somf.persistence import modelfile
from somf.persistence.atomic import remove_leftovers
from somf.persistence.locking import InUse, LockFile
from somf.persistence.modelfile import Model
from somf.scratch import scratch_zeros
from somf.training.callbacks import Progress
from somf.training.epoch_hash import EpochHash
from somf.training.identity import FitIdentity
from somf.typing import History, Ints

logger = logging.getLogger("somf")

EVERY_SECONDS = 60.0
"""Seconds between two checkpoints by default."""

SHARE_OF_TIME = 0.05
"""By default a fit spends at most this share of its time on writing checkpoints."""

BEGINNING = 2**12
"""Bytes at the beginning of a damaged file that are searched for the name of the format."""


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
    hash_data : bool
        Whether to hash all samples of every epoch, and to raise an error after an epoch whose
        samples are not those of the first one. Without it, only 32 rows are compared when a fit
        resumes.
    """

    path: str | os.PathLike[str]
    every_seconds: float | None = None
    every_samples: int | None = None
    hash_data: bool = False


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
    convergence : dict or None
        See `Convergence.fields`; files of older versions have none.
    """

    state: State
    progress: Progress
    alpha: float
    convergence: dict[str, Any] | None


@dataclass(frozen=True)
class CheckpointContents:
    """What a checkpoint stores beside the identity of the fit.

    Attributes
    ----------
    state : State
    progress : Progress
    alpha : float
        λ of the fit.
    convergence : dict
        See `Convergence.fields`.
    seen : ndarray of int, or None
        The samples seen so far, without repetition; None is all.
    """

    state: State
    progress: Progress
    alpha: float
    convergence: dict[str, Any]
    seen: Ints | None


class CheckpointManager:
    """Writes the checkpoints of a fit, and reads those of the interrupted fit before it.

    Parameters
    ----------
    request : Checkpoint
    identify : callable
        Returns the identity of the fit. It reads some samples, so `resume` calls it.
    """

    identity: FitIdentity

    def __init__(self, request: Checkpoint, identify: Callable[[], FitIdentity]) -> None:
        self.request, self.identify = request, identify
        # An absolute path: the working directory may change, and a link may lead to another disk.
        self.path = Path(os.path.realpath(request.path))
        self.previous = self.path.with_name(f"{self.path.name}.previous")
        is_other = self.path.exists() and not self.path.is_file()
        if not self.path.parent.is_dir() or is_other:
            raise ParameterError(
                "checkpoint", "be a file in a folder that exists", os.fspath(request.path)
            )
        self.epoch_hash = EpochHash()
        self._n_samples, self._time, self._cost = 0, perf_counter(), 0.0
        self._written: tuple[int, int] | None = None
        self._report: str | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other fits, also those of other processes, from using the checkpoint.

        Raises
        ------
        ParameterError
            If another fit uses it; the message has its process and host.
        """
        lock = LockFile(f"{self.path}.lock")
        try:
            lock.acquire()
        except InUse as error:
            if error.owner is None:
                raise self._other_file(Path(lock.path), "that locks it") from None
            raise ParameterError(
                "checkpoint",
                "be used by one fit at a time",
                str(self.path),
                "Wait until that fit has ended, or choose another path.",
                got=f"{str(self.path)!r}, which is used by {error.owner}",
            ) from None
        try:
            yield
        finally:
            lock.release()

    def announce(self) -> None:
        """Log how to resume an interrupted fit, if there is a checkpoint."""
        if self.path.exists():
            logger.warning("Interrupted. %s", self._report or self._how_to_resume)

    @property
    def _how_to_resume(self) -> str:
        return f"The checkpoint is {str(self.path)!r}; the same call of fit resumes from it."

    def has_written(self, state: State, progress: Progress) -> bool:
        """Return whether the checkpoint is that of a state and all its records."""
        return self._written == _position(state, progress)

    def write(self, contents: CheckpointContents) -> None:
        """Write a checkpoint."""
        state, progress = contents.state, contents.progress
        model = Model(
            kind=self.identity.kind,
            params=self.identity.params,
            learned=state,
            history=progress.history,
            feature_names=self.identity.feature_names,
            patches=self.identity.patches,
            alpha=contents.alpha,
            n_iter=state.n_iter,
            n_samples_seen=state.n_samples_seen,
            fit={
                "data": self.identity.data,
                "validation": self.identity.validation,
                "compute_seconds": progress.compute_seconds,
                "wall_seconds": progress.wall_seconds,
                "objective": progress.objective,
                "n_unused": progress.n_unused,
                "files": self.identity.files,
                "epoch_hash": self.epoch_hash.fields(),
                "convergence": contents.convergence,
            },
        )
        begin = perf_counter()
        try:
            modelfile.save(self.path, model, contents.seen, self.previous)
            self._written = _position(state, progress)
        finally:
            self._n_samples, self._time = state.n_samples_seen, perf_counter()
            self._cost = self._time - begin

    def try_to_write(self, contents: CheckpointContents) -> str:
        """Write a checkpoint if possible; return a sentence that says whether it was."""
        try:
            self.write(contents)
        except OSError as error:
            self._report = (
                f"The checkpoint {str(self.path)!r} could not be written ({error}); "
                "the last one that could remains."
            )
            warnings.warn(self._report, RuntimeWarning, stacklevel=3)
        else:
            self._report = self._how_to_resume
        return self._report

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

    def resume(
        self, n_samples: int, check: Callable[[State, dict[str, Any] | None], None]
    ) -> ResumePoint | None:
        """Return where the interrupted fit has stopped; None if there is no checkpoint.

        Parameters
        ----------
        n_samples : int
            How many there are in the data.
        check : callable
            Raises ValueError if this fit cannot have reached a state, or what `Convergence.fields`
            returned then.

        Raises
        ------
        ParameterError
            If the file is no checkpoint, or that of another fit. It is left as it is.
        """
        self.identity = self.identify()
        remove_leftovers(self.path)
        if not self.path.exists():
            self._check_start()
            return None
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

    def _read(
        self, path: Path, n_samples: int, check: Callable[[State, dict[str, Any] | None], None]
    ) -> ResumePoint:
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
                "Call fit as then to resume. To start again, remove the file or use another path.",
                got=f"{str(path)!r} with {'; '.join(differences)}",
            )
        with modelfile.refuse_malformed(path):
            convergence = model.fit.get("convergence")  # older checkpoints have none
            check(model.state, convergence)
            state = _with_all_samples(model.state, n_samples)
            is_validated = self.identity.validation is not None
            progress = _progress(model.fit, model.history, state, is_validated)
            changes = self.identity.changed_files(model.fit)
            if "epoch_hash" in model.fit:  # older checkpoints have none
                self.epoch_hash.restore(model.fit["epoch_hash"])
        if changes:
            warnings.warn(
                f"{' '.join(changes)} The fit resumes, since the rows that are compared are the "
                "same. If others have changed, remove the checkpoint to start again.",
                RuntimeWarning,
                stacklevel=5,
            )
        return ResumePoint(state, progress, model.alpha, convergence)

    def _check_start(self) -> None:
        """Make sure that a fit that starts again replaces nothing but checkpoints."""
        if self.previous.exists():
            if not _may_replace(self.previous) or self.previous.stat().st_size == 0:
                raise self._other_file(self.previous, "which the next one replaces")
            logger.warning(
                "There is no checkpoint %s, so the fit starts again. Its predecessor, %s, is not "
                "used; to resume from it, give it that name.",
                self.path,
                self.previous,
            )

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
            raise self._other_file(self.previous, "which the next one replaces")

    def _other_file(self, path: Path, purpose: str) -> ParameterError:
        return ParameterError(
            "checkpoint",
            f"have beside it only a file of its own as {path.name!r}, {purpose}",
            str(self.path),
            "Remove or rename that file, or choose another path.",
            got="another file",
        )


def _position(state: State, progress: Progress) -> tuple[int, int]:
    return state.n_iter, len(progress.history.get("n_iter", ()))


def _may_replace(path: Path) -> bool:
    """Return whether a file is a checkpoint, or the rest of one."""
    if not path.is_file():
        return False
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


def _progress(fit: dict[str, Any], history: History, state: State, is_validated: bool) -> Progress:
    if history and ("objective" in history) != is_validated:
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
