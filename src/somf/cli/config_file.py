"""TOML files with the options of a command: read by --config, written beside each model."""

import os
import shlex
import stat
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click
import tomli_w

import somf
from somf.files.atomic import atomic_write

HEAD = """\
The options of somf {version} that wrote {output}. To repeat the run, in the same folder:
  {command}
"""
"""The comment at the top of a file."""

NOT_IN_FILES = ("config", "force", "quiet", "as_json", "help", "workers", "partial")
"""Options that a file cannot have: they do not change the result, or belong to a machine."""

MOST_BYTES = 2**24
"""Bytes of a file, at most."""

VALUES: dict[type[Any], tuple[tuple[type, ...], str]] = {
    click.types.BoolParamType: ((bool,), "true or false"),
    click.types.IntParamType: ((int,), "an integer"),
    click.types.FloatParamType: ((int, float), "a number"),
    click.types.FuncParamType: ((int, float, str), "a number or a text"),
}
"""Python types of values in a file, and their names, by the type of the option. All other options
are texts."""


def config_option(command: Any) -> Any:
    """Give a command the option --config, a file with values for the other options."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        is_eager=True,
        callback=lambda ctx, _, path: None if path is None else _read(ctx, path),
        help="TOML file with options, without their dashes. Options on the command line override "
        "it. Each fit writes such a file beside the model.",
    )(command)


def from_config(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the value of a list of arguments: if it is empty, that of the file.

    click 8.1 and 8.2 take an empty list on the command line for a value, and ignore the file.
    """
    return value or tuple((ctx.default_map or {}).get(str(parameter.name), ()))


def _read(ctx: click.Context, path: str) -> str:
    """Make the values in a file the defaults of a command."""
    try:
        values = tomllib.loads(_content(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(
            f"{path!r} is not TOML: {error}.", param_hint="--config"
        ) from error
    except OSError as error:
        raise click.ClickException(f"{path!r} cannot be read: {error.strerror}.") from error
    parameters = _by_key(ctx.command)
    for key, value in values.items():
        if key not in parameters:
            wrong = f"has {key!r}, which is not an option of {ctx.command.name}. "
            wrong = (wrong + _did_you_mean(key, parameters)).rstrip()
        elif rule := _broken_rule(parameters[key], value):
            wrong = f"cannot be used: {key} must be {rule}, got {value!r}."
        else:
            continue
        raise click.BadParameter(f"{path!r} {wrong}", param_hint="--config")
    ctx.default_map = {str(parameters[key].name): value for key, value in values.items()}
    return path


def _content(path: str) -> bytes:
    """Return what a file holds, or what a process writes to a pipe, as in ``--config <(…)``.

    A FIFO that no process writes to is an error, rather than waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        if is_pipe:
            os.set_blocking(descriptor, True)  # a process may take its time to write
        content = file.read(MOST_BYTES + 1)
    if is_pipe and not content:
        wrong = "is a pipe to which no process writes"
    elif len(content) > MOST_BYTES:
        wrong = f"has more than {MOST_BYTES:,} bytes, and so is not a file of options"
    else:
        return content
    raise click.BadParameter(f"{path!r} {wrong}.", param_hint="--config")


def _did_you_mean(key: str, parameters: Mapping[str, click.Parameter]) -> str:
    """Return a sentence with the key that a wrong one may stand for, if there is one.

    That may be the name of a parameter in Python, such as n_components for components.
    """
    names = {str(parameter.name): known for known, parameter in parameters.items()}
    plain = key.replace("-", "_")
    if plain in names:
        return f"Did you mean {names[plain]!r}?"
    close = get_close_matches(key, parameters, n=1) or [
        names[name] for name in get_close_matches(plain, names, n=1)
    ]
    return f"Did you mean {close[0]!r}?" if close else ""


def _by_key(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command by their keys in a file."""
    return {
        max(parameter.opts, key=len).lstrip("-"): parameter
        for parameter in command.params
        if parameter.name not in NOT_IN_FILES
    }


def _broken_rule(parameter: click.Parameter, value: Any) -> str | None:
    """Return what a value must be if its type is wrong; its range is checked later."""
    kinds, rule = next(
        (accepted for kind, accepted in VALUES.items() if isinstance(parameter.type, kind)),
        ((str,), "a text"),
    )
    if parameter.nargs != 1:
        is_list = isinstance(value, list) and all(type(v) in kinds for v in value)
        return None if is_list else f"a list, each {rule}"
    return None if type(value) in kinds else rule


def write_config(path: str, command: click.Command, values: Mapping[str, Any]) -> None:
    """Write the file that repeats a run.

    Parameters
    ----------
    path : str
    command : click.Command
    values : mapping
        Values of the parameters by their names; None means that an option is not given.
    """
    found = {
        key: _plain(values[str(parameter.name)])
        for key, parameter in _by_key(command).items()
        if values.get(str(parameter.name)) is not None
    }
    output, command_line = values["output"], command_to_repeat(path)
    head = HEAD.format(output=output, version=somf.__version__, command=command_line)
    comments = "".join(f"# {line}\n" for line in head.splitlines())  # names may have line breaks
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(comments + "\n" + tomli_w.dumps(found))


def command_to_repeat(path: str) -> str:
    """Return the command line that repeats the run of a file."""
    return shlex.join(["somf", "fit", "--config", path, "--force"])


def _plain(value: Any) -> Any:
    """Return a value as it is written on a command line."""
    if not isinstance(value, tuple):
        return value
    is_size = all(isinstance(v, int) for v in value)
    return "x".join(map(str, value)) if is_size else list(value)
