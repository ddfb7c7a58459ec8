"""``somf transform`` and ``somf score``: what a model makes of data."""

import os
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from somf.cli.files import check_free, force_option, replacing
from somf.cli.opening import OF_THE_MODEL, Flags, data_options, naming, open_data
from somf.cli.parameters import Function, option_for, with_options
from somf.cli.talk import Talk, examples, talking
from somf.data import Source
from somf.estimators import MatrixFactorization
from somf.problems import load
from somf.typing import Array


def model_and_data(command: Function) -> Callable[..., Any]:
    """Give a command arguments for a model and data, and options for how to use the model."""
    where = (
        option_for(name, MatrixFactorization, default=OF_THE_MODEL)
        for name in ("device", "n_threads")
    )
    command = with_options(*where)(data_options(OF_THE_MODEL)(command))
    command = click.argument("data", nargs=-1, required=True)(command)
    return click.argument("model", type=click.Path(dir_okay=False))(command)


def open_both(
    model: str, data: tuple[str, ...], talk: Talk, options: dict[str, Any]
) -> tuple[MatrixFactorization, Source]:
    """Return a model, set to how it shall be used, and data as the model wants it."""
    estimator = load(model).set_params(checkpoint=None, verbose=talk.verbose)
    flags = Flags(**{name: options.pop(name) for name in vars(Flags())})
    estimator.set_params(**{name: value for name, value in options.items() if value is not None})
    return estimator, open_data(data, flags, estimator)


@click.command(
    epilog=examples(
        "somf transform scene.somf scene.npy -o codes.npz",
        "somf transform rows.somf rows.npy -o codes.npy",
    )
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(),
    help="The file to write: .npy, .npz (sparse, as of scipy.sparse.save_npz) or .zarr.",
)
@force_option
@talking
@model_and_data
def transform(
    model: str, data: tuple[str, ...], output: str, force: bool, talk: Talk, **options: Any
) -> None:
    """Write the codes of DATA on the atoms of MODEL, a chunk at a time.

    A model that was learned from patches cuts patches in the same way out of an image.
    """
    kind = os.path.splitext(output)[1].lower()
    if kind not in (".npy", ".npz", ".zarr"):
        raise click.BadParameter(
            f"{output!r} must end in .npy, .npz or .zarr.", param_hint="--output"
        )
    check_free(output, force=force)
    estimator, source = open_both(model, data, talk, options)
    with naming(data), replacing(output) as name:
        shape = estimator.transform(source, out=name, sparse=kind == ".npz").shape
    talk.result({"codes": output, "samples": int(shape[0]), "atoms": int(shape[1])})


@click.command(
    epilog=examples(
        "somf score scene.somf scene.npy",
        "somf score rows.somf rows.npy --gap --json",
    )
)
@click.option("--gap", is_flag=True, help="Compute also the stationarity gap, in another pass.")
@talking
@model_and_data
def score(model: str, data: tuple[str, ...], gap: bool, talk: Talk, **options: Any) -> None:
    """Measure how well MODEL explains DATA, and with how many atoms.

    The objective is the mean over samples of what learning minimises. The stationarity gap says
    how far the atoms are from a stationary point of the objective on this data.
    """
    estimator, source = open_both(model, data, talk, options)
    usage = Usage((source.shape[0], len(estimator.components_)), estimator.components_.dtype)
    with naming(data):
        estimator.transform(source, out=usage)
    talk.result(
        {
            "samples": source.shape[0],
            "objective": estimator.objective(source),
            "density": usage.density,
            "atoms_per_sample": usage.density * usage.shape[1],
            "atoms_used": int(np.count_nonzero(usage.counts)),
            "atoms": usage.shape[1],
            "stationarity_gap": estimator.stationarity_gap(source) if gap else None,
        }
    )


class Usage:
    """Something that codes can be written to, and that only counts how often atoms are used.

    Parameters
    ----------
    shape : tuple of (int, int)
    dtype : numpy.dtype

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.counts = np.zeros(shape[1], dtype=np.int64)

    def __setitem__(self, rows: slice, code: Array) -> None:
        self.counts += np.count_nonzero(code, axis=0)

    @property
    def density(self) -> float:
        """The fraction of entries that are not zero."""
        return float(self.counts.sum() / (self.shape[0] * self.shape[1]))
