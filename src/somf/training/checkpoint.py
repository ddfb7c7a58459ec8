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
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from somf.algorithm.state import State
from somf.distributed import ALONE, Communicator, together
from somf.errors import DamagedFileError, ParameterError
from somf.files.atomic import remove_leftovers
from somf.files.locking import InUse, LockFile
from somf.persistence import modelfile
from somf.persistence.modelfile import Model
from somf.training.callbacks import Progress
from somf.training.contents import (
    Check,
    CheckpointContents,
    ResumePoint,
    may_replace,
    position_of,
    progress_of,
)
from somf.training.epoch_hash import EpochHash
from somf.training.identity import FitIdentity
from somf.training.samples import Rows
from somf.training.shares import (
    Division,
    new_token,
    own_state,
    remove_other_shares,
    share_file,
    whole_state,
    write_share,
)
from somf.typing import Ints

logger = logging.getLogger("somf")

EVERY_SECONDS = 60.0
"""Seconds between two checkpoints by default."""

SHARE_OF_TIME = 0.05
"""By default a fit spends at most this share of its time on writing checkpoints."""


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


class CheckpointManager:
    """Writes the checkpoints of a fit, and reads those of the interrupted fit before it.

    Parameters
    ----------
    request : Checkpoint
    identify : callable
        Returns the identity of the fit. It reads some samples, so `resume` calls it.
    communicator : Communicator
        With several ranks, rank 0 writes the checkpoint, and each of them its share.

    Attributes
    ----------
    shifts : list of (int, ndarray)
        Up to how many samples the fit had other numbers of ranks, and where their rows began.
    """

    identity: FitIdentity

    def __init__(
        self,
        request: Checkpoint,
        identify: Callable[[], FitIdentity],
        communicator: Communicator = ALONE,
    ) -> None:
        self.request, self.identify, self.communicator = request, identify, communicator
        self.shifts: list[tuple[int, Ints]] = []
        # An absolute path: the working directory may change, and a link may lead to another disk.
        self.path = Path(os.path.realpath(request.path))
        self.previous = self.path.with_name(f"{self.path.name}.previous")
        is_other = self.path.exists() and not self.path.is_file()
        if not self.path.parent.is_dir() or is_other:
            raise ParameterError(
                "checkpoint", "be a regular file in a folder that exists", os.fspath(request.path)
            )
        self.epoch_hash = EpochHash(communicator)
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
        if self.communicator.rank > 0:  # rank 0 locks it for all
            yield
            return
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
        return self._written == position_of(state, progress)

    def write(self, contents: CheckpointContents) -> None:
        """Write a checkpoint."""
        begin, epoch_hash = perf_counter(), self.epoch_hash.fields()
        try:
            if self.communicator.size == 1:
                self._commit(contents, None, epoch_hash)
            else:
                self._write_shares(contents, epoch_hash)
            self._written = position_of(contents.state, contents.progress)
        finally:
            self._n_samples, self._time = contents.state.n_samples_seen, perf_counter()
            self._cost = self._time - begin

    def _write_shares(self, contents: CheckpointContents, epoch_hash: dict[str, Any]) -> None:
        """Write the share of this rank; when all are written, let rank 0 write the checkpoint."""
        token, ranks = new_token(self.communicator), self.communicator
        with together(ranks):
            write_share(share_file(self.path, token, ranks.rank), contents.state, contents.seen)
        whole = replace(contents, state=whole_state(contents.state, ranks), seen=None)
        with together(ranks):
            if ranks.rank == 0:
                self._commit(whole, token, epoch_hash)
        if ranks.rank == 0:
            remove_other_shares(self.path, self.previous)

    def _commit(
        self, contents: CheckpointContents, token: str | None, epoch_hash: dict[str, Any]
    ) -> None:
        """Write the checkpoint itself."""
        state, progress = contents.state, contents.progress
        ranks = {}
        if token is not None or self.shifts:
            ranks["ranks"] = Division(token, contents.edges, self.shifts).fields()
        model = Model(
            kind=self.identity.kind,
            params=self.identity.params,
            learned=state,
            history=progress.history,
            feature_names=self.identity.feature_names,
            patches=self.identity.patches,
            channels=self.identity.channels,
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
                "epoch_hash": epoch_hash,
                "convergence": contents.convergence,
            }
            | ranks,
        )
        modelfile.save(self.path, model, contents.seen, self.previous)

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

    def shifts_within(self, begin: int) -> list[tuple[int, Ints]]:
        """Return the shifts after some number of samples, counted from there."""
        return [(end - begin, edges) for end, edges in self.shifts if end > begin]

    def resume(self, rows: Rows, check: Check) -> ResumePoint | None:
        """Return where the interrupted fit has stopped; None if there is no checkpoint.

        Parameters
        ----------
        rows : Rows
            Those of the data, and of this rank.
        check : callable
            Raises ValueError if this fit cannot have reached a state, or what `Convergence.fields`
            returned then.

        Raises
        ------
        ParameterError
            If the file is no checkpoint, or that of another fit. It is left as it is.
        """
        found = self._find(rows, check) if self.communicator.rank == 0 else None
        path = self.communicator.tell(None if found is None else str(found[0]))[0]
        if found is not None or path is None:
            return None if found is None else found[1]
        return self._read(Path(path), rows, check)

    def _find(self, rows: Rows, check: Check) -> tuple[Path, ResumePoint] | None:
        """Return the checkpoint that can be read, and what it says."""
        self.identity = self.identify()
        remove_leftovers(self.path)
        if not self.path.exists():
            self._check_start()
            return None
        damages: list[DamagedFileError] = []
        for path in (self.path, self.previous):
            if path.exists():
                try:
                    found = self._read(path, rows, check)
                except DamagedFileError as error:
                    damages.append(error)
                else:
                    self._protect_older_files(damages)
                    n_seen = found.state.n_samples_seen
                    logger.info("resuming after %d samples, from %s", n_seen, path)
                    return path, found
        if damages:
            raise DamagedFileError(
                f"{' '.join(map(str, damages))} Choose another path; if this is a checkpoint of "
                "yours, you may also remove it to start again."
            ) from damages[0]
        return None

    def _read(self, path: Path, rows: Rows, check: Check) -> ResumePoint:
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
            compares = self.communicator.rank == 0  # for all ranks
            differences = self.identity.differences(model, model.fit) if compares else []
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
            division = Division.of(model.fit, rows.n)
            state = own_state(self.path, model.state, division, rows)
            check(state, None)
            self.shifts = division.shifts
            if not np.array_equal(division.edges, rows.edges):
                self.shifts = [*division.shifts, (state.n_samples_seen, division.edges)]
            progress = progress_of(model.fit, model.history, state)
            changes = self._changes(model.fit, progress)
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

    def _changes(self, fit: dict[str, Any], progress: Progress) -> list[str]:
        """Check what only rank 0 knows; return sentences about files that have changed."""
        if self.communicator.rank > 0:
            return []
        is_complete = ("objective" in progress.history) == (self.identity.validation is not None)
        if progress.history and not is_complete:
            raise ValueError("its history is incomplete")
        return self.identity.changed_files(fit)

    def _check_start(self) -> None:
        """Make sure that a fit that starts again replaces nothing but checkpoints."""
        if self.previous.exists():
            if not may_replace(self.previous) or self.previous.stat().st_size == 0:
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
        elif self.previous.exists() and not may_replace(self.previous):
            raise self._other_file(self.previous, "which the next one replaces")

    def _other_file(self, path: Path, purpose: str) -> ParameterError:
        return ParameterError(
            "checkpoint",
            f"have beside it only a file of its own as {path.name!r}, {purpose}",
            str(self.path),
            "Remove or rename that file, or choose another path.",
            got="another file",
        )
