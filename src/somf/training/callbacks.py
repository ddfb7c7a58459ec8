"""What may look on while a fit runs: records, early stopping, a progress bar.

A callback is any callable that takes a `Progress`. It is called after every iteration; the fit
ends early if it returns something true.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import Any, TypeAlias

NOTEBOOK_SECONDS = 0.2
"""Time between two changes of a progress bar in a notebook."""

History: TypeAlias = dict[str, list[float]]
"""Columns of equal length, one entry per record."""


@dataclass
class Progress:
    """How far a fit has come.

    Attributes
    ----------
    n_iter : int
        Iterations done.
    n_samples_seen : int
        Samples seen, repeated visits counted.
    n_samples_planned : int
        Samples that a fit without early stopping will have seen.
    compute_seconds : float
        Time spent on loading and computing: not on validation, not in callbacks, and not on the
        compilation of kernels at the very first fit.
    wall_seconds : float
        Time since the fit began.
    objective : float or None
        The objective on the validation data, if this iteration has measured it.
    n_unused : int
        Atoms that no sample has used since the record before.
    history : dict of lists
        All records so far.
    """

    n_iter: int = 0
    n_samples_seen: int = 0
    n_samples_planned: int = 0
    compute_seconds: float = 0.0
    wall_seconds: float = 0.0
    objective: float | None = None
    n_unused: int = 0
    history: History = field(default_factory=dict)

    def record(self) -> None:
        """Append the present to the history."""
        columns = ["n_samples_seen", "n_iter", "compute_seconds", "wall_seconds"]
        if self.objective is not None:
            columns.append("objective")
        for column in columns:
            self.history.setdefault(column, []).append(getattr(self, column))


Callback: TypeAlias = Callable[[Progress], Any]


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the validation objective no longer gets better.

    Parameters
    ----------
    patience : int
        How many records without improvement are waited for.
    min_improvement : float
        What counts as improvement, relative to the best objective before.
    """

    patience: int = 3
    min_improvement: float = 1e-3

    def __call__(self, progress: Progress) -> bool:
        """Return whether the last `patience` records brought no improvement."""
        objectives = progress.history.get("objective")
        if objectives is None:
            raise ValueError("EarlyStopping needs validation data: call fit(X, validation=...).")
        if progress.objective is None or len(objectives) <= self.patience:
            return False
        best_before = min(objectives[: -self.patience])
        best_since = min(objectives[-self.patience :])
        return best_since > best_before - self.min_improvement * abs(best_before)


@contextmanager
def progress_bar() -> Iterator[Callback]:
    """Show a progress bar on the terminal or in the notebook for as long as the context lasts.

    On a terminal it is on stderr, since stdout is for results. What remains of it is one line that
    says how far the work came.
    """
    with _notebook_bar() if _is_notebook() else _terminal_bar() as show:
        yield show


def _is_notebook() -> bool:
    """Return whether this runs in a kernel of Jupyter, and not in a terminal."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@dataclass
class _Status:
    """The last that is known, in words."""

    rate: str = ""
    objective: str = ""
    unused: str = ""

    def update(self, progress: Progress) -> None:
        self.rate = f"{progress.n_samples_seen / max(progress.compute_seconds, 1e-9):.0f}/s"
        if progress.objective is not None:
            self.objective = f"objective {progress.objective:.5g}"
        self.unused = f"{progress.n_unused} unused atoms" if progress.n_unused else ""


def _time_left(progress: Progress) -> str:
    """Return how long the rest will take at the speed so far, once there is one."""
    if progress.n_samples_seen == 0:
        return ""
    n_left = progress.n_samples_planned - progress.n_samples_seen
    seconds = n_left * progress.compute_seconds / progress.n_samples_seen
    return f"{timedelta(seconds=round(seconds))} left"


@contextmanager
def _terminal_bar() -> Iterator[Callback]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError as error:
        raise ImportError(
            "verbose=1 shows a progress bar with rich: pip install 'somf[progress]'."
        ) from error
    columns = (
        TextColumn("{task.completed:.0f}/{task.total:.0f} samples"),
        BarColumn(),
        TextColumn("{task.fields[status].rate}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status].objective}"),
        TextColumn("{task.fields[status].unused}"),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        status = _Status()
        task = bar.add_task("", total=1, status=status)

        def show(progress: Progress) -> None:
            status.update(progress)
            bar.update(task, completed=progress.n_samples_seen, total=progress.n_samples_planned)

        yield show


@contextmanager
def _notebook_bar() -> Iterator[Callback]:
    """Show a bar in one output of the cell, which is replaced; rich would need ipywidgets."""
    from IPython.display import display

    status, latest = _Status(), Progress()
    last_shown = -math.inf

    def output(is_over: bool) -> dict[str, str]:
        seen, planned = latest.n_samples_seen, latest.n_samples_planned
        left = "" if is_over else _time_left(latest)
        facts = (f"{seen}/{planned} samples", status.rate, left, status.objective, status.unused)
        line = ", ".join(filter(None, facts))
        bar = "" if is_over else f'<progress value="{seen}" max="{max(planned, 1)}"></progress> '
        return {"text/plain": line, "text/html": f"{bar}{line}"}

    def show(progress: Progress) -> None:
        nonlocal latest, last_shown
        latest = progress
        status.update(progress)
        if perf_counter() - last_shown > NOTEBOOK_SECONDS:
            handle.update(output(is_over=False), raw=True)
            last_shown = perf_counter()

    handle = display(output(is_over=False), raw=True, display_id=True)
    try:
        yield show
    finally:
        handle.update(output(is_over=True), raw=True)
