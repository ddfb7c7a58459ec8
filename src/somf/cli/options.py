"""Options made of the parameters of classes and functions.

Types and defaults come from signatures, help texts from docstrings. ``python -OO`` removes the
docstrings: the options are then the same, without help texts.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, get_args, get_origin

import click

from somf.cli.values import integer_or_auto, number_or_auto
from somf.estimators.config import DTYPES

SHORT_NAMES = {
    "n_components": "components",
    "code_density": "density",
    "n_epochs": "epochs",
    "n_threads": "threads",
    "random_state": "seed",
}
"""Parameters whose options have another name."""

TYPES: dict[Any, Any] = {
    bool: click.BOOL,
    int: click.INT,
    float: click.FLOAT,
    str: click.Path(),
}
"""Types of options, by the first type in the annotation of the parameter."""

NUMBERS_OR_WORDS: dict[Any, Any] = {
    float: ("FLOAT", number_or_auto),
    int: ("INTEGER", integer_or_auto),
}
"""Placeholders and types of options that are a number or the word ``auto``."""

NARROWER_TYPES: dict[str, Any] = {
    "dtype": click.Choice([dtype.name for dtype in DTYPES]),
    "random_state": click.INT,
}
"""Types of options whose parameters accept anything in Python."""

Function = TypeVar("Function", bound=Callable[..., Any])
"""The function of a command, which decorators return as it is."""


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
    annotation = inspect.signature(owner).parameters[name].annotation
    flag = flag_of(name)
    return click.option(
        f"{flag}/--no-{flag.removeprefix('--')}" if annotation is bool else flag,
        name,
        type=NARROWER_TYPES.get(name) or _type(annotation),
        default=None,
        help=help_for(name, owner, default, more_help),
        metavar=_metavar(annotation),
    )


def help_for(name: str, owner: Any, default: str | None = None, more_help: str = "") -> str:
    """Return the help text of the option for a parameter; see `option_for`."""
    _, text = documented(owner).get(name, ("", ""))
    if default is None:
        value = inspect.signature(owner).parameters[name].default
        default = "" if value in (None, inspect.Parameter.empty) else str(value)
        default = default.lower() if isinstance(value, bool) else default
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
            found[name] = kind, " ".join(text.split())
    return {name: (kind, _in_options(text, found)) for name, (kind, text) in found.items()}


def _in_options(text: str, parameters: Iterable[str]) -> str:
    """Return a description with the names of parameters as options, and without backticks."""
    for name in parameters:
        text = re.sub(rf"(?<!`)`{name}`(?!`)", flag_of(name), text)
        text = re.sub(rf"``{name}=(\w+)``", rf"{flag_of(name)} \1", text)
    return text.replace("`", "")


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type that is none."""
    is_literal = get_origin(annotation) is Literal
    return (annotation,) if is_literal else get_args(annotation) or (annotation,)


def _words(annotation: Any) -> tuple[str, ...]:
    """Return the words that a parameter accepts."""
    return tuple(
        word
        for member in _members(annotation)
        if get_origin(member) is Literal
        for word in get_args(member)
    )


def _metavar(annotation: Any) -> str | None:
    """Return the placeholder for a value that may be of several types."""
    words, members = _words(annotation), _members(annotation)
    if not words or len(members) == 1:
        return None
    for kind, (metavar, _) in NUMBERS_OR_WORDS.items():
        if kind in members:
            return "|".join([metavar, *words])
    return "|".join([*words, "FILE"])


def _type(annotation: Any) -> Any:
    """Return the type of an option, from the annotation of the parameter."""
    first, *others = _members(annotation)
    if words := _words(annotation):
        if not others:
            return click.Choice(words)
        return NUMBERS_OR_WORDS[first][1] if first in NUMBERS_OR_WORDS else click.STRING
    return TYPES[first]
