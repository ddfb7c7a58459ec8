"""``--workers``: start the command again, as several ranks on this machine."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from somf.distributed.environment import THREAD_SETTINGS, launched
from somf.optional import import_optional

FLAG = "--workers"
"""The option."""


def workers_option(command: Any) -> Any:
    """Give a command the option."""
    return click.option(
        FLAG,
        type=click.IntRange(min=1),
        help="Start so many processes on this machine, by torchrun, which share the samples. "
        "Needs somf[distributed].",
    )(command)


def start_workers(n_workers: int | None) -> None:
    """Replace this process by torchrun, which starts the same command in several processes.

    Parameters
    ----------
    n_workers : int or None
        The value of the option. Nothing happens without it, for one worker, and in the processes
        that torchrun has started.
    """
    if n_workers is None or n_workers == 1 or launched() is not None:
        return
    import_optional("torch", "distributed", FLAG)
    command = [sys.executable, *torchrun(n_workers), "-m", "somf", *without_option(sys.argv[1:])]
    sys.stdout.flush()
    os.execve(sys.executable, command, THREAD_SETTINGS | os.environ)


def torchrun(n_workers: int) -> list[str]:
    """Return the arguments of Python that start processes on this machine."""
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_workers}"]


def without_option(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command line without the option."""
    kept, skips = [], False
    for argument in arguments:
        is_option = argument == FLAG
        if not skips and not is_option and not argument.startswith(f"{FLAG}="):
            kept.append(argument)
        skips = is_option
    return kept
