"""What the commands say, and to whom: results on stdout, all else on stderr."""

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

logger = logging.getLogger("somf")
density_logger = logging.getLogger("somf.training.alpha_search")


@dataclass(frozen=True)
class Console:
    """How a command talks.

    Parameters
    ----------
    quiet : bool
        Whether to say nothing but warnings and errors.
    as_json : bool
        Whether results are for programs.
    """

    quiet: bool = False
    as_json: bool = False

    @property
    def verbose(self) -> int:
        """The parameter of the estimators: a progress bar if somebody is looking."""
        return int(not self.quiet and sys.stderr.isatty())

    def say(self, text: str) -> None:
        """Say something that is of no interest to programs."""
        if not self.quiet and not self.as_json:
            click.echo(text)

    def result(self, facts: Mapping[str, Any]) -> None:
        """Say what has come out, a name and a value to a line."""
        if self.as_json:
            click.echo(json.dumps(_strict(facts)))
        else:
            width = max(map(len, facts)) + 2
            for name, value in facts.items():
                if value is not None:
                    self.say(f"{name.replace('_', ' '):{width}}{in_words(value)}")

    def table(self, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Say facts, and a table in which every row has the same columns."""
        if self.as_json:
            click.echo(json.dumps(_strict({**facts, "rows": rows})))
            return
        self.result(facts)
        cells = [[name.replace("_", " ") for name in rows[0]]]
        cells += [[in_words(value) for value in row.values()] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            self.say("  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Pass on what the library logs and warns of for as long as the context lasts."""
        if any(isinstance(handler, Listener) for handler in logger.handlers):
            yield  # a command that is run by another one
            return
        handler = Listener()
        is_terse = self.quiet or self.as_json or self.verbose  # a progress bar shows it better
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING if is_terse else logging.INFO)
        # This comes before there is anything that a bar could show.
        density_logger.setLevel(logging.INFO if self.verbose and not self.as_json else 0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.filterwarnings(
                    "ignore", "X does not have valid feature names"
                )  # no file has
                warnings.showwarning = _warn
                yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
            density_logger.setLevel(logging.NOTSET)


def _strict(value: Any) -> Any:
    """Return a value of which JSON can be made; it has no NaN and no infinity."""
    if isinstance(value, Mapping):
        return {name: _strict(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Listener(logging.Handler):
    """Passes on what is logged to stderr, as it is."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it on what is stderr now: a progress bar lets others write above it."""
        click.echo(self.format(record), err=True)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)


def examples(*lines: str) -> str:
    """Return command lines for the end of a help text, which click is to leave as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def with_console(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --quiet and --json, and a `Console` made of them."""

    @click.option("-q", "--quiet", is_flag=True, help="Say nothing but warnings and errors.")
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    @wraps(command)
    def run(*arguments: Any, quiet: bool, as_json: bool, **options: Any) -> None:
        console = Console(quiet, as_json)
        with console.listening():
            command(*arguments, console=console, **options)

    return run


def in_words(value: Any) -> str:
    """Return a value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{printable(str(name))} {in_words(v)}" for name, v in value.items() if v is not None
        )
    if isinstance(value, list | tuple):
        return " x ".join(printable(str(v)) for v in value)
    return printable(str(value))


def printable(text: str) -> str:
    """Return a text, which may come from a file of others, in which nothing commands a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
