"""Checkpoints: a fit may be killed at any moment, and goes on later as if nothing had happened.

A checkpoint is a model file with the state of the fit, which holds also what the fit was: its
parameters, and a fingerprint of its data. It replaces the one before only once it is on the disk,
and the one before is kept as ``<path>.previous``.
"""

import hashlib
import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from somf.algorithm.state import State
from somf.data import Source, as_source
from somf.data.order import buffered_chunks
from somf.errors import DamagedFileError, ParameterError
from somf.persistence import modelfile
from somf.persistence.atomic import remove_leftovers
from somf.persistence.modelfile import Model
from somf.scratch import scratch_zeros
from somf.training.callbacks import History, Progress
from somf.typing import Array, Ints

logger = logging.getLogger("somf")

EVERY_SECONDS = 60.0
SHARE_OF_TIME = 0.05
"""Unless told otherwise, a fit spends at most this share of its time on writing checkpoints."""

SAMPLED_ROWS = 32
SAMPLED_ENTRIES = 2**24
"""How much of the data goes into its fingerprint, at most."""

MAY_DIFFER = {
    "n_epochs",  # more of them: the fit goes on
    "record_every",  # these say what is shown, not what is learned
    "callbacks",
    "verbose",
    "device",  # these change results by rounding only
    "n_threads",
    "checkpoint",
    "random_state",  # the seed is in the checkpoint, and compared
}


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps what it needs to go on after it has been interrupted, and how often.

    Parameters
    ----------
    path : path-like
        The checkpoint; the one before it is kept as ``<path>.previous``.
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
class FitIdentity:
    """What is fitted to what: a fit goes on only if this is the same.

    Attributes
    ----------
    kind : str
        Name of the estimator's class.
    params : dict
        Its constructor parameters.
    seed : int or None
        The seed that it must have; None is any.
    feature_names : ndarray of str of shape (p,), or None
    patches : dict or None
        How the samples are cut out of an image; of this their fingerprint tells all that matters.
    data : dict
        The fingerprint of the data.
    validation : dict, float or None
        The fingerprint of other data, or a fraction of the samples.
    """

    kind: str
    params: dict[str, Any]
    seed: int | None
    feature_names: Array | None
    patches: dict[str, Any] | None
    data: dict[str, Any]
    validation: Any

    def differences(self, then: Model, fit: dict[str, Any]) -> list[str]:
        """Return, in words, what is not as it was when a checkpoint was written."""
        if then.kind != self.kind:
            return [f"estimator: {then.kind!r} then, {self.kind!r} now"]
        pairs: dict[str, tuple[Any, Any]] = {}
        now = modelfile.plain(self.params)
        ignored = MAY_DIFFER | {"init"}
        if now["alpha"] != "auto":
            ignored = ignored | {"code_density"}  # which older checkpoints do not have
        for name in sorted((now.keys() | then.params.keys()) - ignored):
            pairs[name] = (then.params.get(name), now.get(name))
        pairs |= _pairs("X", fit["data"], self.data)
        pairs |= _pairs("validation", fit["validation"], self.validation)
        if then.state is not None and self.seed not in (None, then.state.seed):
            pairs["random_state"] = (then.params.get("random_state"), now["random_state"])
        found = [f"{name}: {a!r} then, {b!r} now" for name, (a, b) in pairs.items() if a != b]
        if not np.array_equal(then.params["init"], self.params["init"]):
            found.append("init: another one then")
        return found


def _pairs(name: str, then: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Return what is to be compared of two fingerprints."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {f"{name} ({key})": (then.get(key), now[key]) for key in now}
    return {name: (then, now)}


def fingerprint(data: Any, is_shuffled: bool = False) -> Any:
    """Return what can be compared with little reading: shape, type, a hash of some rows.

    Parameters
    ----------
    data : Source, array-like, float or None
        Numbers and None stand for themselves.
    is_shuffled : bool
        Whether samples are visited in a random order, which depends on how they are stored.
    """
    if data is None or isinstance(data, Real):
        return None if data is None else float(data)
    source = as_source(data)
    n = source.shape[0]
    count = max(1, min(SAMPLED_ROWS, n, int(SAMPLED_ENTRIES / source.entries_per_row)))
    rows = source.rows(np.linspace(0, n - 1, count).astype(np.int64))
    digest = hashlib.sha256()
    if isinstance(rows, np.ndarray):
        digest.update(_little(rows))
    else:
        for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            digest.update(_little(part))
    found = {
        "shape": list(source.shape),
        "dtype": source.dtype.name,
        "content of sampled rows": digest.hexdigest()[:16],
    }
    return found | {"storage": _storage(source)} if is_shuffled else found


def _storage(source: Source) -> str:
    """Return what the order of samples depends on, besides the seed."""
    if source.chunk_starts is None:
        return "rows"
    starts = hashlib.sha256(_little(source.chunk_starts.astype(np.int64))).hexdigest()[:8]
    count = len(source.chunk_starts)
    return f"{count} chunks ({starts}), {buffered_chunks(source)} shuffled at a time"


def _little(array: Array) -> memoryview:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data


class CheckpointManager:
    """Writes the checkpoints of a fit, and finds those of the fit before.

    Parameters
    ----------
    request : Checkpoint
    identity : FitIdentity

    Attributes
    ----------
    alpha : float
        λ of the fit, which is to be set before anything is written.
    """

    alpha: float

    def __init__(self, request: Checkpoint, identity: FitIdentity) -> None:
        self.request, self.identity = request, identity
        # The directory may change during the fit, and a link may lead to another disk.
        self.path = Path(os.path.realpath(request.path))
        self.previous = self.path.with_name(f"{self.path.name}.previous")
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(
                "checkpoint must be a file in a folder that exists, "
                f"got {os.fspath(request.path)!r}."
            )
        self._n_samples, self._time, self._cost = 0, perf_counter(), 0.0

    def write(self, state: State, progress: Progress, seen: Ints | None) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        state : State
        progress : Progress
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
            alpha=self.alpha,
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

    def try_to_write(self, state: State, progress: Progress, seen: Ints | None) -> str:
        """Write a checkpoint if possible; return what became of it, as a sentence."""
        try:
            self.write(state, progress, seen)
        except OSError as error:
            report = (
                f"The checkpoint {str(self.path)!r} could not be written ({error}); "
                "the last one that could remains."
            )
            warnings.warn(report, RuntimeWarning, stacklevel=3)
            return report
        return f"The checkpoint is {str(self.path)!r}; the same call of fit goes on from there."

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
        self, n_samples: int, check: Callable[[State], None]
    ) -> tuple[State, Progress, float] | None:
        """Return where the fit before has ended, and its λ; None if there was none.

        Parameters
        ----------
        n_samples : int
            How many there are in the data.
        check : callable
            Raises ValueError if a state is not one that this fit can have left.

        Raises
        ------
        ValueError
            If what is there is no checkpoint, or that of another fit. It is left as it is.
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
                    self._make_way(damages)
                    logger.info("going on after %d samples, from %s", found[0].n_samples_seen, path)
                    return found
        if damages:
            raise DamagedFileError(
                f"{' '.join(map(str, damages))} Choose another path; if this is a checkpoint of "
                "yours, you may also remove it to start again."
            ) from damages[0]
        return None

    def _read(
        self, path: Path, n_samples: int, check: Callable[[State], None]
    ) -> tuple[State, Progress, float]:
        model = modelfile.load(path)
        if model.fit is None or model.state is None:
            raise ParameterError(
                "checkpoint",
                "be a checkpoint or a new file",
                path,
                "Choose another path.",
                got=f"{str(path)!r}, which is a model",
            )
        with modelfile.refuse_malformed(path):
            differences = self.identity.differences(model, model.fit)
        if differences:
            raise ValueError(
                f"checkpoint must be that of the same fit, got {str(path)!r} with "
                f"{'; '.join(differences)}. Call fit as then to go on; remove the file or choose "
                "another path to start again."
            )
        with modelfile.refuse_malformed(path):
            check(model.state)
            state = _with_all_samples(model.state, n_samples)
            return state, _progress(model.fit, model.history, state), model.alpha

    def _make_way(self, damages: list[DamagedFileError]) -> None:
        """Make sure that nothing is lost when the next checkpoint is written."""
        if damages:
            damaged = self.path.with_name(f"{self.path.name}.damaged")
            os.replace(self.path, damaged)
            warnings.warn(
                f"{damages[0]} It has been renamed to {str(damaged)!r}; the fit goes on from "
                f"{str(self.previous)!r}.",
                RuntimeWarning,
                stacklevel=4,
            )
        elif self.previous.exists() and not self._may_replace(self.previous):
            raise ValueError(
                f"{str(self.previous)!r} must be a checkpoint, which the next one may replace. "
                "Remove or rename it, or choose another path."
            )

    def _may_replace(self, path: Path) -> bool:
        """Return whether a file is a checkpoint, or what is left of one."""
        try:
            return modelfile.is_checkpoint(path)
        except DamagedFileError:
            with path.open("rb") as file:
                beginning = file.read(2**12)
            return not beginning or b'"somf' in beginning


def _with_all_samples(state: State, n_samples: int) -> State:
    """Return a state that remembers something, if only zeros, of all samples."""
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
