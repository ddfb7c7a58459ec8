"""The estimator of a command line: every parameter of the estimators is an option."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, get_args

import click
from click.core import ParameterSource

from somf.algorithm.config import AUTO
from somf.cli.options import Function, flag_of, option_for, with_options
from somf.data.formats.npy import map_npy
from somf.estimators.base import MatrixFactorization
from somf.estimators.config import InitialAtoms, check_params
from somf.estimators.loading import load
from somf.estimators.problems import NMF, DictionaryLearning, SparsePCA
from somf.training.checkpoint import Checkpoint
from somf.typing import Array

PROBLEMS: dict[str, type[MatrixFactorization]] = {
    "dictionary-learning": DictionaryLearning,
    "sparse-pca": SparsePCA,
    "nmf": NMF,
    "matrix-factorization": MatrixFactorization,
}
"""The estimator for each value of --problem."""

PYTHON_ONLY = ("callbacks", "verbose")
"""Parameters that are not options."""

CENTER = "center"
"""The parameter that is --center-features and --offsets here: --center is about patches."""

INITS = get_args(InitialAtoms)
"""Values of --init that are not files."""

DEFAULT_SEED = 0
"""The default of --seed. A command that is repeated gives the same result, and can resume from its
checkpoint."""

DENSITY_HELP = " It implies --alpha auto."
"""What the help of --density adds."""

INIT_HELP = " FILE is a .npy file of atoms, or a model."
"""What the help of --init adds: an array comes from a file."""


def estimator_options(command: Function) -> Function:
    """Give a command --problem, --hash-data and an option for each parameter of the estimators."""
    others = (*PYTHON_ONLY, CENTER)
    names = [n for n in inspect.signature(MatrixFactorization).parameters if n not in others]
    problem = click.option(
        "--problem",
        type=click.Choice(list(PROBLEMS)),
        default="dictionary-learning",
        show_default=True,
        help="What to learn: dictionary-learning has sparse codes, sparse-pca sparse atoms, nmf "
        "non-negative codes and atoms; matrix-factorization is the general problem.",
    )
    hash_data = option_for("hash_data", Checkpoint, more_help=" Needs --checkpoint.")
    offsets = click.option(
        "--offsets",
        is_flag=True,
        default=None,
        help="Subtract the mean of all known entries, and the offsets of samples and of features, "
        "before codes are computed; impute adds them.",
    )
    centre = click.option(
        "--center-features",
        is_flag=True,
        default=None,
        help="Subtract the mean of every feature, as PCA does; reconstructions have it again.",
    )
    return with_options(problem, *map(_option, names), centre, offsets, hash_data)(command)


def _option(name: str) -> Callable[[Function], Function]:
    """Return the option for a parameter of the estimators."""
    default = str(DEFAULT_SEED) if name == "random_state" else _defaults(name)
    more_help = {"init": INIT_HELP, "code_density": DENSITY_HELP}.get(name, "")
    return option_for(name, MatrixFactorization, default, more_help + _problems_with(name))


def _defaults(name: str) -> str | None:
    """Return the defaults of a parameter, if that of a problem differs from the general one."""
    general, *others = (
        (problem, inspect.signature(kind).parameters.get(name))
        for problem, kind in reversed(PROBLEMS.items())
    )
    default = general[1].default if general[1] is not None else None
    different = [
        f"{parameter.default} for {problem}"
        for problem, parameter in others
        if parameter is not None and parameter.default != default
    ]
    return ", ".join([str(default), *different]) if different else None


def _problems_with(name: str) -> str:
    """Return which problems have a parameter, unless all of them have it."""
    having = [p for p, kind in PROBLEMS.items() if name in inspect.signature(kind).parameters]
    return "" if len(having) == len(PROBLEMS) else f" Only for --problem {' and '.join(having)}."


def estimator_for(problem: str, options: Mapping[str, Any], verbose: int) -> MatrixFactorization:
    """Return the estimator with the parameters of a command line.

    Parameters
    ----------
    problem : str
        One of `PROBLEMS`.
    options : mapping
        The other options of `estimator_options`; None means that an option is not given.
    verbose : int

    Raises
    ------
    ParameterError
        If a parameter has a wrong value.
    """
    kind = PROBLEMS[problem]
    given = {name: value for name, value in options.items() if value is not None}
    given.setdefault("random_state", DEFAULT_SEED)
    given = _resolve_checkpoint(_resolve_density(given))
    of_features, of_both = given.pop("center_features", False), given.pop("offsets", False)
    if of_features and of_both:
        raise click.UsageError("--center-features and --offsets exclude each other.")
    if of_features or of_both:
        given[CENTER] = "both" if of_both else "features"
    for name in given.keys() - set(inspect.signature(kind).parameters):
        raise click.UsageError(f"{flag_of(name)} is not an option of --problem {problem}.")
    if given.get("init", INITS[0]) not in INITS:
        given["init"] = _read_atoms(given["init"])
    estimator = kind(**given, verbose=verbose)
    check_params(vars(estimator))
    return estimator


def _read_atoms(path: str) -> Array:
    """Return the atoms in a file, of shape (n_components, n_features)."""
    if not os.path.isfile(path):
        words = " or ".join(map(repr, INITS))
        raise click.UsageError(f"--init must be {words} or a file, got {path!r}.")
    return map_npy(path) if path.lower().endswith(".npy") else load(path).components_


def _resolve_checkpoint(given: dict[str, Any]) -> dict[str, Any]:
    """Let --hash-data be part of the checkpoint."""
    others = {name: value for name, value in given.items() if name != "hash_data"}
    if not given.get("hash_data"):
        return others
    if "checkpoint" not in given:
        raise click.UsageError("--hash-data needs --checkpoint, which stores the hash.")
    return others | {"checkpoint": Checkpoint(given["checkpoint"], hash_data=True)}


def _resolve_density(given: dict[str, Any]) -> dict[str, Any]:
    """Let --density and --atom-density imply --alpha auto.

    The command line overrides a configuration file.
    """
    densities = [name for name in ("code_density", "atom_density") if name in given]
    if not densities:
        return given
    if len(densities) > 1:
        raise click.UsageError("--density and --atom-density exclude each other.")
    if given.get("alpha", AUTO) == AUTO:
        return given | {"alpha": AUTO}
    (name,) = densities
    origin = click.get_current_context().get_parameter_source
    if origin("alpha") == origin(name):
        flag = flag_of(name)
        raise click.UsageError(f"--alpha and {flag} exclude each other: each determines lambda.")
    if origin("alpha") is ParameterSource.COMMANDLINE:
        return {key: value for key, value in given.items() if key != name}
    return given | {"alpha": AUTO}
