"""Options made of the parameters of the estimators: their signatures and docstrings say it all."""

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from somf.algorithm.config import AUTO
from somf.data.formats.npy import map_npy
from somf.estimators.base import MatrixFactorization
from somf.estimators.config import INITS, check_params
from somf.estimators.loading import load
from somf.estimators.problems import NMF, DictionaryLearning, SparsePCA
from somf.typing import Array

PROBLEMS: dict[str, type[MatrixFactorization]] = {
    "dictionary-learning": DictionaryLearning,
    "sparse-pca": SparsePCA,
    "nmf": NMF,
    "matrix-factorization": MatrixFactorization,
}

SHORTER = {
    "n_components": "components",
    "code_density": "density",
    "n_epochs": "epochs",
    "n_threads": "threads",
    "random_state": "seed",
}
"""Names of options that are not those of the parameters."""

FOR_PYTHON = ("callbacks", "verbose")
"""Parameters that are no options."""

DEFAULT_SEED = 0
"""So that a command that is given twice does the same twice, and goes on from its checkpoint."""

Function = TypeVar("Function", bound=Callable[..., Any])


def number_or_auto(value: Any) -> float | str:
    """Return a number, or the word that asks for one to be found."""
    try:
        return AUTO if value == AUTO else float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number or {AUTO!r}.") from error


def documented(thing: Any) -> dict[str, tuple[str, str]]:
    """Return type and description of every parameter, as a numpydoc docstring has them."""
    doc = inspect.getdoc(thing) or ""
    _, _, section = doc.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w[\w ]*\n-+\n", section)[0]
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        for name in names.split(", "):
            found[name] = kind, " ".join(text.replace("`", "").split())
    return found


def option_for(name: str, thing: Any, default: str | None = None) -> click.Option:
    """Return an option for a parameter of a class or function.

    It has no value unless it is given: a default is left to what has the parameter.

    Parameters
    ----------
    name : str
        The parameter.
    thing : class or function
    default : str, optional
        What to say of the default; by default what the signature says.
    """
    kind, text = documented(thing)[name]
    flag = flag_of(name)
    is_switch = kind.startswith("bool")
    if default is None:
        value = inspect.signature(thing).parameters[name].default
        default = "" if value in (None, inspect.Parameter.empty) else str(value)
        default = default.lower() if is_switch else default
    else:
        text = re.sub(r"; by default .*?(?=\.)", "", text)
    if re.search(r"\} or array", kind):
        text += " FILE is .npy, or a model whose atoms are taken."
    if thing is MatrixFactorization:
        text += _only_for(name)
    return click.Option(
        [f"{flag}/--no-{flag.removeprefix('--')}" if is_switch else flag, name],
        type=click.BOOL if is_switch else _type(kind),
        default=None,
        help=f"{text}  [default: {default}]" if default else text,
        metavar=_metavar(kind),
    )


def _only_for(name: str) -> str:
    """Return which problems have a parameter, where not all of them have it."""
    having = [p for p, kind in PROBLEMS.items() if name in inspect.signature(kind).parameters]
    return "" if len(having) == len(PROBLEMS) else f" Only for --problem {' and '.join(having)}."


def _metavar(kind: str) -> str | None:
    """Return what to call the value of an option that may be one of several things."""
    if words := re.match(r"\{(.*?)\} or array", kind):
        return "|".join([*re.findall(r'"(.*?)"', words[1]), "FILE"])
    return f"FLOAT|{AUTO}" if "float or" in kind else None


def _type(kind: str) -> Any:
    """Return the type of an option, given that of a parameter in the words of its docstring."""
    if choices := re.match(r"\{(.*?)\}(?! or)", kind):
        return click.Choice(re.findall(r'"(.*?)"', choices[1]))
    return next((t for start, t in TYPES.items() if kind.startswith(start)), click.STRING)


TYPES: dict[str, Any] = {
    f'float or "{AUTO}"': number_or_auto,
    "float": click.FLOAT,
    "int": click.INT,
    "path-like": click.Path(),
}
"""Types of options by how those of parameters begin."""


def estimator_options(command: Function) -> Function:
    """Give a command --problem, and all parameters of the estimators as options."""
    names = [n for n in inspect.signature(MatrixFactorization).parameters if n not in FOR_PYTHON]
    others = {"random_state": str(DEFAULT_SEED)}
    options = [option_for(n, MatrixFactorization, default=others.get(n)) for n in names]
    problem = click.Option(
        ["--problem"],
        type=click.Choice(list(PROBLEMS)),
        default="dictionary-learning",
        show_default=True,
        help="What to solve; matrix-factorization is the general one.",
    )
    return with_options(problem, *options)(command)


def with_options(*options: click.Option) -> Callable[[Function], Function]:
    """Return a decorator that gives a command some options, in this order."""

    def decorate(command: Function) -> Function:
        kept = getattr(command, "__click_params__", [])
        command.__click_params__ = [*kept, *reversed(options)]  # type: ignore[attr-defined] # where click's own decorators keep options
        return command

    return decorate


def estimator_for(problem: str, options: Mapping[str, Any], verbose: int) -> MatrixFactorization:
    """Return the estimator that options ask for.

    Parameters
    ----------
    problem : str
    options : mapping
        All of `estimator_options` but the problem; None is not given.
    verbose : int

    Raises
    ------
    click.UsageError
        If one of them is not what it must be.
    """
    kind = PROBLEMS[problem]
    given = {name: value for name, value in options.items() if value is not None}
    given.setdefault("random_state", DEFAULT_SEED)
    given = _settle_density(given)
    for name in given.keys() - set(inspect.signature(kind).parameters):
        raise click.UsageError(f"{flag_of(name)} is not an option of --problem {problem}.")
    if given.get("init", INITS[0]) not in INITS:
        given["init"] = _atoms(given["init"])
    estimator = kind(**given, verbose=verbose)
    try:
        check_params(vars(estimator))
    except (TypeError, ValueError) as error:
        name = str(error).partition(" ")[0]
        hint = flag_of(name) if name in options else None
        raise click.BadParameter(str(error), param_hint=hint) from error
    return estimator


def _atoms(path: str) -> Array:
    """Return the atoms in a file, of shape (n_components, n_features)."""
    if not os.path.isfile(path):
        words = " or ".join(map(repr, INITS))
        raise click.BadParameter(f"{path!r} is not {words}, and no file.", param_hint="--init")
    return map_npy(path) if path.lower().endswith(".npy") else load(path).components_


def _settle_density(given: dict[str, Any]) -> dict[str, Any]:
    """Let --density mean --alpha auto, and whichever of the two a TOML file has give way."""
    if "code_density" not in given:
        return given
    if given.get("alpha", AUTO) == AUTO:
        return given | {"alpha": AUTO}
    origin = click.get_current_context().get_parameter_source
    if origin("alpha") == origin("code_density"):
        raise click.UsageError("--alpha and --density exclude each other: either gives the other.")
    if origin("alpha") is ParameterSource.COMMANDLINE:
        return {name: value for name, value in given.items() if name != "code_density"}
    return given | {"alpha": AUTO}


def flag_of(name: str) -> str:
    """Return the option for a parameter."""
    return "--" + SHORTER.get(name, name).replace("_", "-")
