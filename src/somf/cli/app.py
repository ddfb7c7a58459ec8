"""The `somf` command: its subcommands, its errors and its exit codes."""

import os
import signal
import sys
import traceback
from typing import Any

import click

import somf
from somf.cli.bench import bench
from somf.cli.command import examples
from somf.cli.compare import compare
from somf.cli.console import echo, escaped_errors
from somf.cli.ctrl_c import handler_of, handler_of_ctrl_c, interrupt, was_pressed
from somf.cli.demo import demo
from somf.cli.errors import message_of
from somf.cli.fit import fit
from somf.cli.impute import impute
from somf.cli.info import info
from somf.cli.plot import plot
from somf.cli.reconstruct import reconstruct
from somf.cli.report import report
from somf.cli.score import score
from somf.cli.transform import transform
from somf.errors import SomfError

INTERRUPTED = 128 + signal.SIGINT
"""The exit code after Ctrl-C, as shells have it."""

TERMINATED = 128 + signal.SIGTERM
"""The exit code after SIGTERM, as shells have it."""

WIDEST_HELP = 120
"""The largest number of characters in a line of a help text; a narrower terminal has fewer."""

EXPECTED_ERRORS = (SomfError, OSError, MemoryError)
"""Errors about data, files and the machine. Any other error is a bug, and has a traceback."""


class Application(click.Group):
    """The group of subcommands: prints an expected error as one line, and sets the exit code."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the command line."""
        with escaped_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand."""
        with handler_of(signal.SIGTERM, _leave), handler_of_ctrl_c(interrupt), escaped_errors():
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                # The reader of stdout is gone. Python must not write to it again when it exits.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(1)
            except (ImportError, *EXPECTED_ERRORS) as error:
                if isinstance(error, ImportError) and was_pressed():
                    ctx.exit(INTERRUPTED)
                if not isinstance(error, EXPECTED_ERRORS):
                    raise
                raise click.ClickException(message_of(error)) from error
            except KeyboardInterrupt:
                ctx.exit(INTERRUPTED)


def _leave(*_: object) -> None:
    """Raise SystemExit, so that temporary files are removed; a handler of signals."""
    raise SystemExit(TERMINATED)


@click.group(
    epilog=examples(
        "somf info scene.npy",
        "somf fit scene.npy --patches 8x8 --components 20 --density 0.1 -o atoms.somf",
        "somf score atoms.somf scene.npy",
    ),
    cls=Application,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP},
)
@click.version_option(somf.__version__, prog_name="somf")
def application() -> None:
    """Learn dictionaries of matrices that are huge in both dimensions.

    A matrix is samples x features. A dictionary is a set of atoms. Each sample is coded as a
    combination of few atoms.

    Exit codes: 0 success, 1 an error in data, files or the machine, 2 wrong options, 130 stopped by
    Ctrl-C, 143 stopped by SIGTERM.
    """


def print_traceback(*error: Any) -> None:
    """Print an error that is a bug, with its traceback; see `sys.excepthook`."""
    echo("".join(traceback.format_exception(*error)).rstrip(), err=True)


for command in (
    demo,
    fit,
    transform,
    reconstruct,
    impute,
    score,
    info,
    plot,
    report,
    compare,
    bench,
):
    application.add_command(command)
