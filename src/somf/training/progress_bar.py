"""The progress bar of ``verbose=1``, on a terminal or in a notebook."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter

from somf.optional import import_optional
from somf.training.callbacks import Callback, Progress

NOTEBOOK_SECONDS = 0.2
"""Time between two updates of a progress bar in a notebook."""


@contextmanager
def progress_bar() -> Iterator[Callback]:
    """Show a progress bar on the terminal or in the notebook for as long as the context lasts.

    On a terminal the bar is written to stderr, since stdout is for results. At the end one line
    remains.
    """
    with _notebook_bar() if _is_notebook() else _terminal_bar() as show:
        yield show


def _is_notebook() -> bool:
    """Return whether this runs in a Jupyter kernel rather than in a terminal."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@dataclass
class _Status:
    """The texts beside the bar."""

    rate: str = ""
    objective: str = ""
    unused: str = ""

    def update(self, progress: Progress) -> None:
        self.rate = f"{progress.n_samples_seen / max(progress.compute_seconds, 1e-9):.0f}/s"
        self.objective = progress.objective_in_words or self.objective
        self.unused = f"{progress.n_unused} unused atoms" if progress.n_unused else ""


def _time_left(progress: Progress) -> str:
    """Return how long the rest will take at the present speed; empty before the first sample."""
    if progress.n_samples_seen == 0:
        return ""
    n_left = progress.n_samples_planned - progress.n_samples_seen
    seconds = n_left * progress.compute_seconds / progress.n_samples_seen
    return f"{timedelta(seconds=round(seconds))} left"


@contextmanager
def _terminal_bar() -> Iterator[Callback]:
    import_optional("rich.progress", "progress", "The progress bar of verbose=1")
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

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
    """Show a bar in one output of the cell, updated in place (rich would need ipywidgets)."""
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
