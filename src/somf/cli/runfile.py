"""Runs as TOML files: options that come from one, and the file that repeats a run."""

import shlex
import tomllib
from collections.abc import Mapping
from typing import Any

import click
import tomli_w

import somf
from somf.cli.files import replacing

HEAD = """\
The run of somf {version} that wrote {output}. To repeat it, in the same folder:
  {command}
"""

NOT_IN_FILES = ("config", "force", "quiet", "as_json", "help")
"""Options that are not about the run."""


VALUES: dict[type[Any], tuple[tuple[type, ...], str]] = {
    click.types.BoolParamType: ((bool,), "true or false"),
    click.types.IntParamType: ((int,), "an integer"),
    click.types.FloatParamType: ((int, float), "a number"),
    click.types.FuncParamType: ((int, float, str), "a number or a text"),
}
"""What values in a file are, by the types of options; all others are texts."""


def config_option(command: Any) -> Any:
    """Give a command the option --config, a file that has values for all others."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False),
        is_eager=True,
        callback=lambda ctx, _, path: None if path is None else _use(ctx, path),
        help="TOML file with options (without dashes), which those on the command line override; "
        "a finished run leaves one beside its output.",
    )(command)


def _use(ctx: click.Context, path: str) -> str:
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(
            f"{path!r} is not TOML: {error}.", param_hint="--config"
        ) from error
    except OSError as error:
        raise click.ClickException(f"{path!r} cannot be read: {error.strerror}.") from error
    parameters = _by_key(ctx.command)
    for key, value in values.items():
        if key not in parameters:
            wrong = f"has {key!r}, which is not an option of {ctx.command.name}."
        elif rule := _broken_rule(parameters[key], value):
            wrong = f"cannot be used: {key} must be {rule}, got {value!r}."
        else:
            continue
        raise click.BadParameter(f"{path!r} {wrong}", param_hint="--config")
    ctx.default_map = {str(parameters[key].name): value for key, value in values.items()}
    return path


def _by_key(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command by what they are called in a file."""
    return {
        max(parameter.opts, key=len).lstrip("-"): parameter
        for parameter in command.params
        if parameter.name not in NOT_IN_FILES
    }


def _broken_rule(parameter: click.Parameter, value: Any) -> str | None:
    """Return what a value must be, if it is something else; how large it may be is asked later."""
    kinds, rule = next(
        (accepted for kind, accepted in VALUES.items() if isinstance(parameter.type, kind)),
        ((str,), "a text"),
    )
    if parameter.nargs != 1:
        is_list = isinstance(value, list) and all(type(v) in kinds for v in value)
        return None if is_list else f"a list, each {rule}"
    return None if type(value) in kinds else rule


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
        key: _plain(values[str(parameter.name)])
        for key, parameter in _by_key(command).items()
        if values.get(str(parameter.name)) is not None
    }
    output, command_line = values["output"], command_to_repeat(path)
    head = HEAD.format(output=output, version=somf.__version__, command=command_line)
    comments = "".join(f"# {line}\n" for line in head.splitlines())  # names may have line breaks
    with replacing(path) as name, open(name, "w", encoding="utf-8") as file:
        file.write(comments + "\n" + tomli_w.dumps(found))


def command_to_repeat(path: str) -> str:
    """Return what to type to repeat the run of a TOML file."""
    return shlex.join(["somf", "fit", "--config", path, "--force"])


def _plain(value: Any) -> Any:
    """Return a value as it would be written on a command line."""
    if not isinstance(value, tuple):
        return value
    is_size = all(isinstance(v, int) for v in value)
    return "x".join(map(str, value)) if is_size else list(value)
