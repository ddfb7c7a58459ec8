"""``somf fit``: from a file of data to a file with a model."""

from dataclasses import asdict
from typing import Any

import click

from somf.cli.files import check_free, force_option
from somf.cli.opening import Flags, data_options, open_data
from somf.cli.parameters import FOR_PYTHON, estimator_for, estimator_options
from somf.cli.runfile import config_option, write
from somf.cli.talk import Talk, talking
from somf.config import AUTO
from somf.estimators import MatrixFactorization


@click.command
@click.argument("data", nargs=-1)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="The model file to write.")
@click.option(
    "--validation",
    help="Where the objective is measured: a fraction of the samples, which is then not learned "
    "from, or a file.",
)
@click.option("--state", is_flag=True, help="Save also what partial_fit needs to go on.")
@config_option
@force_option
@talking
@estimator_options
@data_options
def fit(
    data: tuple[str, ...],
    output: str | None,
    validation: str | None,
    state: bool,
    force: bool,
    talk: Talk,
    problem: str,
    **options: Any,
) -> None:
    """Learn a dictionary of DATA, and write it to a model file.

    DATA is a file (.npy, CSR .npz, HDF5, Zarr, raw numbers), several of them, a pattern, or with
    --patches an image (.npy, ENVI, TIFF, .mat, PNG, JPEG). Beside the model there will be a TOML
    file that repeats the run. With --checkpoint, a run that was ended by whatever goes on if it is
    called again as it was.

    \b
    Examples:
      somf fit scene.npy --patches 8x8 --components 20 --alpha 0.1 --validation 0.05 -o scene.somf
      somf fit rows.npy --components 20 --density 0.1 --checkpoint rows.checkpoint -o rows.somf
      somf fit --config scene.somf.toml --epochs 2 -o longer.somf
    """
    if not data:
        raise click.UsageError("Missing argument 'DATA...'.")
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    flags = Flags(**{name: options.pop(name) for name in vars(Flags())})
    estimator = estimator_for(problem, options, talk.verbose)
    toml = f"{output}.toml"
    check_free(output, toml, force=force)
    source = open_data(data, flags)
    estimator.fit(source, validation=_validation(validation, flags))
    estimator.save(output, state=state)
    used = _parameters_in_use(estimator)
    run = {"data": data, "output": output, "validation": validation, "problem": problem}
    write(toml, fit, run | {"state": state or None} | asdict(flags) | used)
    talk.result({"model": output, "repeat_with": toml, **_summary(estimator)})


def _validation(given: str | None, flags: Flags) -> Any:
    """Return a fraction or other data; a word that is a number is never a file."""
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        return open_data([given], flags)


def _parameters_in_use(estimator: MatrixFactorization) -> dict[str, Any]:
    """Return all parameters, also those that were left to their defaults, which may change."""
    from numba.core import config

    params = estimator.get_params(deep=False)
    for name in FOR_PYTHON:
        del params[name]
    if params["alpha"] != AUTO:
        del params["code_density"]
    # On another number of threads results are the same only to rounding.
    params["n_threads"] = params["n_threads"] or int(config.NUMBA_NUM_THREADS)
    return params


def _summary(estimator: MatrixFactorization) -> dict[str, Any]:
    history = estimator.history_
    seconds = history["compute_seconds"][-1]
    return {
        "atoms": len(estimator.components_),
        "features": estimator.n_features_in_,
        "alpha": estimator.alpha_,
        "samples_seen": estimator.n_samples_seen_,
        "seconds": seconds,
        "samples_per_second": estimator.n_samples_seen_ / max(seconds, 1e-9),
        "objective": history["objective"][-1] if "objective" in history else None,
    }
