"""What commands that use a model have in common: the model, and data as it wants it."""

from collections.abc import Callable
from typing import Any

import click

from somf.cli.console import Console
from somf.cli.opening import OF_THE_MODEL, Flags, data_options, expanded, open_data
from somf.cli.parameters import Function, option_for, with_options
from somf.data import Source
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load


def model_and_data(*, required: bool) -> Callable[[Function], Callable[..., Any]]:
    """Return a decorator that gives a command a model and data, and options for their use.

    Parameters
    ----------
    required : bool
        Whether there must be data.
    """

    def decorate(command: Function) -> Callable[..., Any]:
        where = (
            option_for(name, MatrixFactorization, default=OF_THE_MODEL)
            for name in ("device", "n_threads")
        )
        command = with_options(*where)(data_options(OF_THE_MODEL)(command))
        command = click.argument("data", nargs=-1, required=required)(command)
        return click.argument("model", type=click.Path(dir_okay=False))(command)

    return decorate


def files_in_use(model: str, data: tuple[str, ...], options: dict[str, Any]) -> list[str | None]:
    """Return the files that such a command reads."""
    return [model, *expanded(data), options["mask"]]


def open_model(
    model: str, data: tuple[str, ...], console: Console, options: dict[str, Any]
) -> tuple[MatrixFactorization, Source | None]:
    """Return a model, set to how it shall be used, and data, if any, as the model wants it."""
    estimator = load(model).set_params(checkpoint=None, verbose=console.verbose)
    flags = Flags(**{name: options.pop(name) for name in vars(Flags())})
    estimator.set_params(**{name: value for name, value in options.items() if value is not None})
    return estimator, open_data(data, flags, estimator) if data else None
