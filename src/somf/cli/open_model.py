"""Open the model and the samples of a command that uses a model."""

from collections.abc import Callable
from typing import Any

import click

from somf.cli.console import Console
from somf.cli.data_options import MODEL_DEFAULT, DataOptions, data_options
from somf.cli.open_data import expand_patterns, open_data
from somf.cli.options import Function, option_for, with_options
from somf.data import Source
from somf.errors import DataError
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load


def model_and_data_arguments(*, needs_data: bool) -> Callable[[Function], Function]:
    """Return a decorator that gives a command MODEL and DATA, and the options for both."""
    return with_options(
        click.argument("model", type=click.Path(dir_okay=False)),
        click.argument("data", nargs=-1, type=click.Path(), required=needs_data),
        option_for("device", MatrixFactorization, MODEL_DEFAULT),
        option_for("n_threads", MatrixFactorization, MODEL_DEFAULT),
        data_options(MODEL_DEFAULT),
    )


def input_files(model: str, data: tuple[str, ...], options: dict[str, Any]) -> list[str | None]:
    """Return the files that such a command reads."""
    return [model, *expand_patterns(data), options["mask"]]


def open_model_and_data(
    model: str, data: tuple[str, ...], console: Console, options: dict[str, Any]
) -> tuple[MatrixFactorization, Source | None]:
    """Return the model with its options set, and the samples, or None without DATA."""
    estimator = load(model).set_params(checkpoint=None, verbose=console.verbose)
    reading = DataOptions.taken_from(options)
    estimator.set_params(**{name: value for name, value in options.items() if value is not None})
    if not data:
        return estimator, None
    source = open_data(data, reading, estimator)
    n_features = source.shape[1]
    if n_features != estimator.n_features_in_:
        text = (
            f"{', '.join(data)} must have {estimator.n_features_in_} features like the model "
            f"{model!r}, got {n_features}."
        )
        if source.shape[0] == estimator.n_features_in_:
            text += " It has as many samples: if it is transposed, add --transposed."
        raise DataError(text)
    return estimator, source
