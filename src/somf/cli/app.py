"""The command and its subcommands, and what becomes of errors."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import somf
from somf.cli.bench import bench
from somf.cli.console import examples, printable
from somf.cli.demo import demo
from somf.cli.fit import fit
from somf.cli.info import info
from somf.cli.pictures import plot, report
from somf.cli.use import score, transform
from somf.errors import MissingDeviceError

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM

WHAT_GOES_WRONG = (OSError, ValueError, ImportError, MemoryError, MissingDeviceError)
"""Errors that are about data, files and the machine; anything else is a mistake in somf."""


class Application(click.Group):
    """A group whose errors are one sentence on stderr, with an exit code that scripts can tell."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand."""
        with _ended_by_sigterm():
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                # Nobody reads any more. Python must not stumble over it when it ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(1)
            except WHAT_GOES_WRONG as error:
                notes = getattr(error, "__notes__", [])
                raise click.ClickException(" ".join([_sentence(error), *notes])) from error
            except KeyboardInterrupt:  # who pressed it knows
                ctx.exit(INTERRUPTED)


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"There is not enough memory. {error}".rstrip()
    text = str(error) or type(error).__name__
    text = "\n".join(map(printable, text.splitlines()))
    return re.sub(r'\bdevice="(\w+)"', r"--device \1", text)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program in good order: files that are being written are removed."""

    def leave(*_: object) -> None:
        raise SystemExit(TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # only the main thread may do this
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@click.group(
    epilog=examples(
        "somf info scene.npy",
        "somf fit scene.npy --patches 8x8 --components 20 --density 0.1 -o atoms.somf",
        "somf score atoms.somf scene.npy",
    ),
    cls=Application,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(somf.__version__, prog_name="somf")
def application() -> None:
    """Learn dictionaries of matrices that are huge in both dimensions.

    Exit codes: 0 fine, 1 something is wrong with data or files, 2 wrong options, 130 and 143 ended
    by Ctrl-C and SIGTERM.
    """


for command in (demo, fit, transform, score, info, plot, report, bench):
    application.add_command(command)
