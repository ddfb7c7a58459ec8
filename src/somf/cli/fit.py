"""``somf fit``: from a file of data to a file with a model."""

from dataclasses import asdict, replace
from typing import Any

import click

from somf.cli.files import check_free, force_option
from somf.cli.opening import Flags, data_options, naming, open_data
from somf.cli.parameters import FOR_PYTHON, estimator_for, estimator_options
from somf.cli.runfile import config_option, write
from somf.cli.talk import Talk, examples, talking
from somf.config import AUTO
from somf.estimators import MatrixFactorization


@click.command(
    epilog=examples(
        "somf fit scene.npy --patches 8x8 --components 20 --validation 0.05 -o scene.somf",
        "somf fit rows.npy --components 20 --density 0.1 --checkpoint rows.checkpoint -o rows.somf",
        "somf fit --config scene.somf.toml --epochs 2 -o longer.somf",
    )
)
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
@data_options()
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
    --patches an image (.npy, HDF5, Zarr, ENVI, TIFF, .mat, PNG, JPEG). Beside the model there will
    be a TOML file that repeats the run. With --checkpoint, a run that was ended by whatever goes on
    if it is called again as it was.
    """
    if not data:
        raise click.UsageError("Missing argument 'DATA...'.")
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    flags = Flags(**{name: options.pop(name) for name in vars(Flags())})
    estimator = estimator_for(problem, options, talk.verbose)
    toml = f"{output}.toml"
    check_free(output, toml, force=force)
    source, held_out = open_data(data, flags), _validation(validation, flags)
    with naming(data, source):
        estimator.fit(source, validation=held_out)
    # Whether somebody was looking is of no matter to the model.
    estimator.set_params(verbose=0).save(output, state=state)
    run = {
        "data": data,
        "output": output,
        "validation": held_out if isinstance(held_out, float) else validation,
        "state": state or None,
        "problem": problem,
    }
    in_use = _parameters_in_use(estimator)
    if options["init"] is not None:
        in_use["init"] = options["init"]  # the name of a file, rather than what is in it
    write(toml, fit, run | asdict(flags) | in_use)
    talk.result({"model": output, "repeat_with": toml, **_summary(estimator)})


def _validation(given: str | None, flags: Flags) -> Any:
    """Return a fraction or other data; a word that is a number is never a file."""
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        return open_data([given], replace(flags, mask=None))  # a mask is one of an image


def _parameters_in_use(estimator: MatrixFactorization) -> dict[str, Any]:
    """Return all parameters, also those that were left to their defaults, which may change."""
    from numba.core import config

    params: dict[str, Any] = estimator.get_params(deep=False)
    for name in (*FOR_PYTHON, "checkpoint"):  # the run is to be repeated, not to be found done
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
        "wanted_density": estimator.code_density if estimator.alpha == AUTO else None,
        "samples_seen": estimator.n_samples_seen_,
        "seconds": seconds,
        "samples_per_second": estimator.n_samples_seen_ / max(seconds, 1e-9),
        "objective": history["objective"][-1] if "objective" in history else None,
    }
