"""``somf fit``: from a file of data to a file with a model."""

import warnings
from dataclasses import asdict, replace
from typing import Any

import click

from somf.algorithm.config import AUTO
from somf.cli.console import Console, examples, with_console
from somf.cli.files import check_free, force_option
from somf.cli.opening import Flags, data_options, expanded, naming, open_data
from somf.cli.parameters import FOR_PYTHON, estimator_for, estimator_options
from somf.cli.runfile import config_option, write
from somf.data import ImagePatches, Source
from somf.estimators.base import MatrixFactorization


def fraction_or_file(value: Any) -> float | str:
    """Return a fraction, or the name of a file; a word that is a number is never a file."""
    try:
        fraction = float(value)
    except ValueError:
        return str(value)
    if not 0 < fraction < 1:
        raise click.BadParameter(
            f"validation must be a fraction strictly between 0 and 1, or a file, got {value}."
        )
    return fraction


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
    type=fraction_or_file,
    metavar="FRACTION|FILE",
    help="Where the objective is measured: a fraction of the samples, which is then not learned "
    "from, or a file.",
)
@click.option("--state", is_flag=True, help="Save also what partial_fit needs to go on.")
@config_option
@force_option
@with_console
@estimator_options
@data_options()
def fit(
    data: tuple[str, ...],
    output: str | None,
    validation: float | str | None,
    state: bool,
    config: str | None,
    force: bool,
    console: Console,
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
    estimator = estimator_for(problem, options, console.verbose)
    toml = f"{output}.toml"
    in_use = _files_in_use(data, validation, flags, options)
    check_free(output, force=force, beside=[*in_use, config])
    check_free(toml, force=force, beside=in_use)  # a run that is repeated writes its file again
    source, held_out = open_data(data, flags), _validation(validation, flags)
    _warn_of_few_samples(source, estimator)
    with naming(data, source, validation):
        estimator.fit(source, validation=held_out)
    # Whether somebody was looking is of no matter to the model.
    estimator.set_params(verbose=0).save(output, state=state)
    run = {
        "data": data,
        "output": output,
        "validation": validation,
        "state": state or None,
        "problem": problem,
    }
    parameters = _parameters_in_use(estimator)
    if options["init"] is not None:
        parameters["init"] = options["init"]  # the name of a file, rather than what is in it
    write(toml, fit, run | _flags_in_use(flags, source) | parameters)
    console.result({"model": output, "repeat_with": toml, **_summary(estimator)})


def _files_in_use(
    data: tuple[str, ...], validation: float | str | None, flags: Flags, options: dict[str, Any]
) -> list[str | None]:
    """Return the files of a run besides what comes out of it."""
    files = [*expanded(data), flags.mask, options["init"]]
    if isinstance(validation, str):
        files += expanded([validation])
    if options["checkpoint"] is not None:
        files += [options["checkpoint"], f"{options['checkpoint']}.previous"]
    return files


def _validation(given: float | str | None, flags: Flags) -> Any:
    """Return a fraction or other data."""
    if not isinstance(given, str):
        return given
    return open_data([given], replace(flags, mask=None))  # a mask is one of an image


def _warn_of_few_samples(source: Source, estimator: MatrixFactorization) -> None:
    n, k = source.shape[0], estimator.n_components
    if n < k:
        warnings.warn(
            f"There are more atoms ({k}) than samples ({n}), so each sample can have an atom of "
            "its own. Say fewer --components, or bring more samples.",
            UserWarning,
            stacklevel=2,
        )


def _flags_in_use(flags: Flags, source: Source) -> dict[str, Any]:
    """Return how data was read, also what was left to defaults; what files say is left to them."""
    geometry = source.geometry if isinstance(source, ImagePatches) else {}
    return asdict(flags) | {
        name: geometry[name] for name in ("stride", "center", "scale") if name in geometry
    }


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
