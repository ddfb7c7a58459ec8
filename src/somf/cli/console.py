"""Output of the commands: results to stdout, logs, warnings and errors to stderr.

All text for people goes through `echo` or `escaped_errors`. They escape characters that control the
terminal: text may come from an untrusted file or from its name.
"""

import json
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from somf.errors import SparsityWarning

logger = logging.getLogger("somf")
alpha_logger = logging.getLogger("somf.training.alpha_search")

OPTIONS = {
    'alpha="auto" with code_density': "--density",
    "normalize=True": "--normalize",
    "atom_density=": "--atom-density ",
    " alpha=": " --alpha ",
    " transform_alpha=": " --transform-alpha ",
}
"""Options of the command for what warnings call parameters."""


def escape_control_characters(text: str) -> str:
    """Return a text, perhaps from an untrusted file, that cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escape_lines(text: str) -> str:
    """Return a text of several lines that cannot control the terminal."""
    return "\n".join(map(escape_control_characters, text.split("\n")))


def echo(text: str, err: bool = False) -> None:
    """Print a text that cannot control the terminal."""
    click.echo(escape_lines(text), err=err)


@contextmanager
def escaped_errors() -> Iterator[None]:
    """Let errors that click prints have messages that cannot control the terminal."""
    try:
        yield
    except click.ClickException as error:
        message = escape_lines(error.format_message())
        error.format_message = lambda: message  # type: ignore[method-assign] # every kind prints it
        raise


@dataclass(frozen=True)
class Console:
    """Prints the results of a command.

    Parameters
    ----------
    quiet : bool
        Whether to print only warnings and errors.
    as_json : bool
        Whether to print the result as JSON.
    """

    quiet: bool = False
    as_json: bool = False

    @property
    def verbose(self) -> int:
        """The estimators' parameter: 1, for a progress bar, if stderr is a terminal."""
        return int(not self.quiet and sys.stderr.isatty())

    def print(self, text: str) -> None:
        """Print a line for people; with --quiet or --json, nothing."""
        if not self.quiet and not self.as_json:
            echo(text)

    def print_facts(self, facts: Mapping[str, Any]) -> None:
        """Print names and values, one pair per line; values that are None are left out."""
        if self.as_json:
            click.echo(json.dumps(_without_nan(facts)))
            return
        width = max(map(len, facts)) + 2
        for name, value in facts.items():
            if value is not None:
                self.print(f"{name.replace('_', ' '):{width}}{format_value(value)}")

    def print_table(self, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print facts, then a table. All rows have the same columns."""
        if self.as_json:
            click.echo(json.dumps(_without_nan({**facts, "rows": rows})))
            return
        self.print_facts(facts)
        cells = [[name.replace("_", " ") for name in rows[0]]]
        cells += [[format_value(value) for value in row.values()] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            self.print("  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)))

    @contextmanager
    def forward_logs(self) -> Iterator[None]:
        """Print the logs and warnings of the library to stderr while the context lasts."""
        if any(isinstance(handler, StderrHandler) for handler in logger.handlers):
            yield  # a command that another command runs
            return
        handler = StderrHandler()
        before = logger.level
        # A progress bar shows what the log would say, except for the search for alpha before it.
        hides_info = self.quiet or self.as_json or self.verbose
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING if hides_info else logging.INFO)
        alpha_logger.setLevel(logging.INFO if self.verbose and not self.as_json else logging.NOTSET)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.showwarning = _print_warning
                yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
            alpha_logger.setLevel(logging.NOTSET)


class StderrHandler(logging.Handler):
    """Prints log messages to the stderr of the moment: a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        echo(self.format(record), err=True)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = str(message)
    if isinstance(message, SparsityWarning):
        for parameter, option in OPTIONS.items():
            text = text.replace(parameter, option)
    echo(f"Warning: {text}", err=True)


def console_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --quiet and --json, and a `Console` as ``console``."""

    @click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    @wraps(command)
    def run(*arguments: Any, quiet: bool, as_json: bool, **options: Any) -> None:
        console = Console(quiet, as_json)
        with console.forward_logs():
            command(*arguments, console=console, **options)

    return run


def _without_nan(value: Any) -> Any:
    """Return a value with text for NaN and infinity, which JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _without_nan(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def format_value(value: Any) -> str:
    """Return a value as text for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{escape_control_characters(str(name))} {format_value(v)}"
            for name, v in value.items()
            if v is not None
        )
    if isinstance(value, list | tuple):
        return " x ".join(escape_control_characters(str(v)) for v in value)
    return escape_control_characters(str(value))
