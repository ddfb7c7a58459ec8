"""``somf fit``: learn a dictionary and write a model file."""

import logging
import warnings
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import click

from somf.algorithm.config import AUTO
from somf.cli.command import command
from somf.cli.config_file import config_option, from_config, write_config
from somf.cli.console import Console, console_options
from somf.cli.data_options import DataOptions, data_options, weights_option
from somf.cli.errors import naming_files
from somf.cli.estimator import CENTER, PYTHON_ONLY, estimator_for, estimator_options
from somf.cli.feature_names import feature_names_option, name_features
from somf.cli.interruption import Interruption, may_ask, partial_option, wants_partial_model
from somf.cli.open_data import expand_patterns, open_data, open_weights
from somf.cli.output import check_output, force_option, output_option
from somf.cli.values import fraction_or_file
from somf.cli.workers import start_workers, workers_option
from somf.data import ImagePatches, Source
from somf.data.formats.npy import map_npy
from somf.distributed.connection import rank_of_launch
from somf.distributed.environment import launched
from somf.estimators.base import MatrixFactorization
from somf.kernels.cpu.threads import thread_count


@command(
    "somf fit scene.npy --patches 8x8 --components 20 --validation 0.05 -o scene.somf",
    "somf fit rows.npy --components 20 --density 0.1 --checkpoint rows.checkpoint -o rows.somf",
    "somf fit --config scene.somf.toml --epochs 2 -o longer.somf",
)
@click.argument("data", nargs=-1, type=click.Path(), callback=from_config)
@output_option("The model file to write.", required=False)
@click.option(
    "--validation",
    type=fraction_or_file,
    metavar="FRACTION|FILE",
    help="The validation set, on which the objective is measured: a fraction of the samples, which "
    "are then left out of the fit, or a file.",
)
@weights_option
@click.option(
    "--sample-weight",
    type=click.Path(),
    metavar="FILE",
    help="How much each sample counts: a .npy file of numbers.",
)
@feature_names_option
@click.option("--state", is_flag=True, help="Save also what partial_fit needs to continue.")
@partial_option
@workers_option
@config_option
@force_option
@console_options
@estimator_options
@data_options()
def fit(
    data: tuple[str, ...],
    output: str | None,
    validation: float | str | None,
    weights: str | None,
    sample_weight: str | None,
    feature_names: str | None,
    state: bool,
    partial: bool,
    workers: int | None,
    config: str | None,
    force: bool,
    console: Console,
    problem: str,
    **options: Any,
) -> None:
    """Learn a dictionary of DATA, and write it to a model file.

    DATA is one or more files with a matrix of samples x features (.npy, .npz, CSV, Parquet, HDF5,
    .h5ad, Zarr, .mat, .mtx, NetCDF, NIfTI, raw numbers and more), or a quoted pattern. With
    --patches it is one or more images, or volumes (.npy, HDF5, Zarr, ENVI, TIFF, .mat, PNG, JPEG),
    of any sizes.

    A TOML file beside the model stores all options; --config repeats the run. With --checkpoint, an
    interrupted run resumes when the same command is given again. Without one, what was learned
    until Ctrl-C can be kept.
    """
    if not data:
        raise click.UsageError("Missing argument 'DATA...'.")
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    start_workers(workers)
    reading = DataOptions.taken_from(options)
    estimator = estimator_for(problem, options, console.verbose)
    toml = f"{output}.toml"
    inputs = [*_input_files(data, validation, reading, options), weights, sample_weight]
    inputs.append(feature_names)
    check_output(output, force=force, inputs=[*inputs, config])
    check_output(toml, force=force, inputs=inputs)  # a repeated run may replace its own file
    source, held_out = open_data(data, reading), _open_validation(validation, reading)
    name_features(source, feature_names)
    is_first = rank_of_launch() == 0
    if is_first:
        _warn_of_few_samples(source, estimator)
    else:
        logging.getLogger("somf").setLevel(logging.WARNING)  # rank 0 shows progress for all
    is_kept = options["checkpoint"] is None and launched() is None and (partial or may_ask())
    interruption = Interruption()
    ending = interruption.ending(estimator) if is_kept else nullcontext()
    with ending, naming_files(data, source, validation):
        estimator.fit(
            source,
            validation=held_out,
            weights=open_weights(weights, reading),
            sample_weight=None if sample_weight is None else map_npy(sample_weight),
        )
    if not is_first:  # rank 0 writes for all
        return
    estimator.set_params(verbose=0)  # the model does not depend on a progress bar
    if interruption.is_asked:
        if partial or wants_partial_model(output, estimator.n_samples_seen_):
            estimator.save(output, state=state)
            console.print_facts({"partial_model": output, **_summary(estimator)})
        raise KeyboardInterrupt  # sets the exit code
    estimator.save(output, state=state)
    run = {
        "data": data,
        "output": output,
        "validation": validation,
        "weights": weights,
        "sample_weight": sample_weight,
        "feature_names": feature_names,
        "state": state or None,
        "problem": problem,
    }
    parameters = _parameters(estimator)
    if options["init"] is not None:
        parameters["init"] = options["init"]  # the name of the file, not the atoms in it
    write_config(toml, fit, run | _reading(reading, source) | parameters)
    console.print_facts({"model": output, "repeat_with": toml, **_summary(estimator)})


def _input_files(
    data: tuple[str, ...],
    validation: float | str | None,
    reading: DataOptions,
    options: dict[str, Any],
) -> list[str | None]:
    """Return the files that the run reads, and its checkpoints."""
    files = [*expand_patterns(data), reading.mask, options["init"]]
    if isinstance(validation, str):
        files += expand_patterns([validation])
    if options["checkpoint"] is not None:
        files += [options["checkpoint"], f"{options['checkpoint']}.previous"]
    return files


def _open_validation(given: float | str | None, reading: DataOptions) -> Any:
    """Return the validation set, or the fraction of the samples that is one."""
    if not isinstance(given, str):
        return given
    return open_data([given], replace(reading, mask=None))  # the mask belongs to the other image


def _warn_of_few_samples(source: Source, estimator: MatrixFactorization) -> None:
    n, k = source.shape[0], estimator.n_components
    if n < k:
        warnings.warn(
            f"There are more atoms ({k}) than samples ({n}), so each sample can have an atom of "
            "its own. Use fewer --components, or more samples.",
            UserWarning,
            stacklevel=2,
        )


def _reading(reading: DataOptions, source: Source) -> dict[str, Any]:
    """Return how the data was read, with the defaults of patches, which may change."""
    geometry = source.geometry if isinstance(source, ImagePatches) else {}
    return asdict(reading) | {
        name: geometry[name] for name in ("stride", "center", "scale") if name in geometry
    }


def _parameters(estimator: MatrixFactorization) -> dict[str, Any]:
    """Return all parameters, with the defaults, which may change."""
    params: dict[str, Any] = estimator.get_params(deep=False)
    # A run that is repeated must not resume from the checkpoint, which is that of its end.
    for name in (*PYTHON_ONLY, "checkpoint"):
        del params[name]
    center = params.pop(CENTER)
    params |= {"offsets": center == "both" or None, "center_features": center == "features" or None}
    of_atoms = params.get("atom_density") is not None
    if params["alpha"] != AUTO or of_atoms:
        params.pop("code_density", None)
    if params["alpha"] != AUTO:
        params.pop("atom_density", None)
    # Results are equal bit by bit only on the same number of threads.
    params["n_threads"] = thread_count(params["n_threads"])
    return params


def _requested_density(estimator: MatrixFactorization) -> float | None:
    """Return the density, of atoms or of codes, for which λ was searched."""
    if estimator.alpha != AUTO:
        return None
    of_atoms = estimator.atom_density
    return estimator.code_density if of_atoms is None else of_atoms


def _summary(estimator: MatrixFactorization) -> dict[str, Any]:
    history = estimator.history_
    seconds = history["compute_seconds"][-1]
    return {
        "atoms": len(estimator.components_),
        "features": estimator.n_features_in_,
        "alpha": estimator.alpha_,
        "requested_density": _requested_density(estimator),
        "samples_seen": estimator.n_samples_seen_,
        "seconds": seconds,
        "samples_per_second": estimator.n_samples_seen_ / max(seconds, 1e-9),
        "objective": history["objective"][-1] if "objective" in history else None,
        "training_objective": history["training_objective"][-1],
    }
