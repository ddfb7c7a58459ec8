"""What a checkpoint stores beside the identity of the fit, and what a fit resumes from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from somf.algorithm.state import State
from somf.errors import DamagedFileError
from somf.persistence import modelfile
from somf.training.callbacks import Progress
from somf.typing import History, Ints

BEGINNING = 2**12
"""Bytes at the beginning of a damaged file that are searched for the name of the format."""

Check: TypeAlias = Callable[[State, dict[str, Any] | None], None]
"""Raises ValueError if a fit cannot have reached a state and its record of convergence."""


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
        The slots of the samples seen so far, without repetition; None is all.
    edges : ndarray of int
        The rows of each rank.
    """

    state: State
    progress: Progress
    alpha: float
    convergence: dict[str, Any]
    seen: Ints | None
    edges: Ints


def progress_of(fit: dict[str, Any], history: History, state: State) -> Progress:
    """Return the progress that a checkpoint stores."""
    return Progress(
        n_iter=state.n_iter,
        n_samples_seen=state.n_samples_seen,
        compute_seconds=float(fit["compute_seconds"]),
        wall_seconds=float(fit["wall_seconds"]),
        objective=None if fit["objective"] is None else float(fit["objective"]),
        n_unused=int(fit["n_unused"]),
        history=history,
    )


def position_of(state: State, progress: Progress) -> tuple[int, int]:
    """Return how far a fit has come, in iterations and records."""
    return state.n_iter, len(progress.history.get("n_iter", ()))


def may_replace(path: Path) -> bool:
    """Return whether a file is a checkpoint, or the rest of one."""
    if not path.is_file():
        return False
    try:
        return modelfile.is_checkpoint(path)
    except DamagedFileError:
        with path.open("rb") as file:
            beginning = file.read(BEGINNING)
        return not beginning or b'"somf' in beginning
