"""Runs as TOML files: options that come from one, and the file that repeats a run."""

import tomllib
from collections.abc import Mapping
from typing import Any

import click
import tomli_w

import somf

HEAD = """\
# The run of somf {version} that wrote {output}. To repeat it, in the same folder:
#   somf fit --config {path} --force
"""

NOT_IN_FILES = ("config", "force", "quiet", "as_json", "help")
"""Options that are not about the run."""


def config_option(command: Any) -> Any:
    """Give a command the option --config, a file that has values for all others."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, path: None if path is None else _use(ctx, path),
        help="TOML file with options (without dashes), which those on the command line override; "
        "a finished run leaves one beside its output.",
    )(command)


def _use(ctx: click.Context, path: str) -> None:
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(
            f"{path!r} is not TOML: {error}.", param_hint="--config"
        ) from error
    except OSError as error:
        raise click.ClickException(f"{path!r} cannot be read: {error.strerror}.") from error
    keys = _keys(ctx.command)
    for key in values.keys() - keys.keys():
        raise click.BadParameter(
            f"{path!r} has {key!r}, which is not an option of {ctx.command.name}.",
            param_hint="--config",
        )
    ctx.default_map = {keys[key]: _as_typed(value) for key, value in values.items()}


def _keys(command: click.Command) -> dict[str, str]:
    """Return the parameters of a command by what they are called in a file."""
    found = {}
    for parameter in command.params:
        if parameter.name is not None and parameter.name not in NOT_IN_FILES:
            longest = max(parameter.opts, key=len)
            found[longest.lstrip("-")] = parameter.name
    return found


def _as_typed(value: Any) -> Any:
    """Return a value as it would be on a command line, so that it is checked in the same way."""
    if isinstance(value, list):
        return [_as_typed(v) for v in value]
    return value if isinstance(value, bool) else str(value)


def write(path: str, command: click.Command, values: Mapping[str, Any]) -> None:
    """Write the TOML that repeats a run.

    Parameters
    ----------
    path : str
    command : click.Command
    values : mapping
        Of its parameters, by their names; None is not given.
    """
    found = {
        key: _plain(values[name])
        for key, name in _keys(command).items()
        if values.get(name) is not None
    }
    head = HEAD.format(output=values["output"], version=somf.__version__, path=path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + "\n" + tomli_w.dumps(found))


def _plain(value: Any) -> Any:
    """Return a value as it would be written on a command line."""
    if not isinstance(value, tuple):
        return value
    is_size = all(isinstance(v, int) for v in value)
    return "x".join(map(str, value)) if is_size else list(value)
