"""Options made of the parameters of classes and functions: their signatures and docstrings."""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from somf.algorithm.config import AUTO
from somf.cli.values import number_or_auto

SHORT_NAMES = {
    "n_components": "components",
    "code_density": "density",
    "n_epochs": "epochs",
    "n_threads": "threads",
    "random_state": "seed",
}
"""Parameters whose options have another name."""

TYPES: dict[str, Any] = {
    f'float or "{AUTO}"': number_or_auto,
    "float": click.FLOAT,
    "int": click.INT,
    "path-like": click.Path(),
}
"""Types of options, by how the type of the parameter begins in the docstring."""

Function = TypeVar("Function", bound=Callable[..., Any])


def flag_of(name: str) -> str:
    """Return the option for a parameter, such as ``--components`` for ``n_components``."""
    return "--" + SHORT_NAMES.get(name, name).replace("_", "-")


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return a decorator that gives a command several options; its help lists them in order."""

    def decorate(command: Function) -> Function:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option_for(
    name: str, owner: Any, default: str | None = None, more_help: str = ""
) -> Callable[[Function], Function]:
    """Return the decorator that gives a command an option for a parameter.

    The value is None if the option is not given, so that the default of the parameter applies.

    Parameters
    ----------
    name : str
        The parameter.
    owner : class or function
        What has the parameter.
    default : str, optional
        What the help says of the default; by default the value in the signature.
    more_help : str
        What the help says after the description of the parameter.
    """
    kind, _ = documented(owner)[name]
    flag = flag_of(name)
    is_switch = kind.startswith("bool")
    return click.option(
        f"{flag}/--no-{flag.removeprefix('--')}" if is_switch else flag,
        name,
        type=click.BOOL if is_switch else _type(kind),
        default=None,
        help=help_for(name, owner, default, more_help),
        metavar=_metavar(kind),
    )


def help_for(name: str, owner: Any, default: str | None = None, more_help: str = "") -> str:
    """Return the help text of the option for a parameter; see `option_for`."""
    kind, text = documented(owner)[name]
    if default is None:
        value = inspect.signature(owner).parameters[name].default
        default = "" if value in (None, inspect.Parameter.empty) else str(value)
        default = default.lower() if kind.startswith("bool") else default
    else:
        text = re.sub(r"; by default .*?(?=\.)", "", text)
    text += more_help
    return f"{text}  [default: {default}]" if default else text


def documented(owner: Any) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each parameter in a numpydoc docstring."""
    doc = inspect.getdoc(owner) or ""
    _, _, section = doc.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w[\w ]*\n-+\n", section)[0]
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        for name in names.split(", "):
            found[name] = kind, " ".join(text.replace("`", "").split())
    return found


def _metavar(kind: str) -> str | None:
    """Return the placeholder for a value that may be of several types."""
    if words := re.match(r"\{(.*?)\} or array", kind):
        return "|".join([*re.findall(r'"(.*?)"', words[1]), "FILE"])
    return f"FLOAT|{AUTO}" if "float or" in kind else None


def _type(kind: str) -> Any:
    """Return the type of an option, from the type in the docstring."""
    if choices := re.match(r"\{(.*?)\}(?! or)", kind):
        return click.Choice(re.findall(r'"(.*?)"', choices[1]))
    return next((t for start, t in TYPES.items() if kind.startswith(start)), click.STRING)
