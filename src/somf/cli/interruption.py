"""Ctrl-C during a fit without a checkpoint: the first one ends it, and what it learned is kept."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from somf.cli.console import echo
from somf.cli.ctrl_c import interrupt
from somf.estimators.base import MatrixFactorization
from somf.training.callbacks import Progress

MESSAGE = "Stopping after this iteration. Press Ctrl-C again to stop at once, without a model."
"""What is printed after the first Ctrl-C."""

partial_option = click.option(
    "--partial",
    is_flag=True,
    help="After Ctrl-C write the model with what it has learned until then. On a terminal you are "
    "asked without this option; with --checkpoint a run resumes instead.",
)
"""The option --partial."""


class Interruption:
    """A callback that ends a fit after Ctrl-C.

    Before the first iteration there is nothing to keep, and Ctrl-C ends the command at once. So
    does a second Ctrl-C.

    Attributes
    ----------
    is_asked : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.is_asked, self._has_begun = False, False

    def __call__(self, progress: Progress) -> bool:
        """Return whether the fit shall end."""
        self._has_begun = progress.n_iter > 0
        return self.is_asked

    @contextmanager
    def ending(self, estimator: MatrixFactorization) -> Iterator[None]:
        """Let Ctrl-C end the fit of an estimator while the context lasts."""
        before = signal.signal(signal.SIGINT, self._heed)
        callbacks = estimator.callbacks
        try:
            estimator.set_params(callbacks=self)
            yield
        finally:
            estimator.set_params(callbacks=callbacks)
            signal.signal(signal.SIGINT, before)

    def _heed(self, *_: Any) -> None:
        if self.is_asked or not self._has_begun:
            interrupt()
        self.is_asked = True
        echo(MESSAGE, err=True)


def may_ask() -> bool:
    """Return whether a user at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def wants_partial_model(output: str, n_samples_seen: int) -> bool:
    """Ask whether to write the model of a fit that was interrupted."""
    question = f"Write the model to {output!r}, learned from {n_samples_seen:,} samples until now?"
    return click.confirm(question, default=True, err=True)
