"""``somf info``: what a file is."""

import os
from typing import Any

import click
import numpy as np

from somf.cli.console import Console, examples, with_console
from somf.cli.opening import (
    HOW_TO_READ_RAW,
    Flags,
    dataset,
    in_words_of_flags,
    open_data,
    raw_dtype,
    raw_shape,
)
from somf.cli.parameters import with_options
from somf.data import CsrSource, Source
from somf.data.formats.kinds import STORED, kind_of
from somf.data.formats.npy import map_npy
from somf.data.images.files import (
    READERS,
    declared_no_data,
    files_of,
    open_image,
    open_stored,
)
from somf.errors import DamagedFileError, SeveralDatasetsError
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load
from somf.persistence import modelfile

DATA = (".npz", *READERS)
"""Kinds of files that are data; all others are models and checkpoints."""

N_SAMPLES = 32
"""Samples whose norm is looked at, since alpha is on its scale."""


@click.command(
    epilog=examples(
        "somf info scene.npy",
        "somf info scene.somf --json",
    )
)
@click.argument("path")
@with_console
@with_options(dataset, raw_shape, raw_dtype)
def info(path: str, console: Console, **options: Any) -> None:
    """Say what a file is: data, a model or a checkpoint."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path!r}.")
    kind = kind_of(path)
    with in_words_of_flags(path):
        try:
            console.result(_facts(path, kind, options))
        except SeveralDatasetsError as error:
            rows = [_dataset(path, kind, name) for name in error.names]
            console.table({"what": "several datasets: say --dataset, and the name of one"}, rows)


def _facts(path: str, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    if _is_image(path, kind, options["dataset"]):
        return _image(path, kind, options["dataset"])
    if kind in DATA or any(options.values()):
        return _matrix(path, open_data([path], Flags(**options)))
    try:
        return _model(path, load(path))
    except DamagedFileError as error:
        error.add_note(HOW_TO_READ_RAW)
        raise


def _dataset(path: str, kind: str, name: str) -> dict[str, Any]:
    if kind not in STORED:  # of which nothing more is known before it is read
        return {"dataset": name}
    stored = open_stored(path, name)
    return {"dataset": name, "shape": list(stored.shape), "dtype": stored.dtype.name}


def _is_image(path: str, kind: str, dataset: str | None) -> bool:
    if kind in STORED:
        return len(open_stored(path, dataset).shape) == 3
    return kind in READERS and (kind != ".npy" or map_npy(path).ndim == 3)


def _image(path: str, kind: str, dataset: str | None) -> dict[str, Any]:
    if kind in STORED:  # which are not unpacked for this
        image = open_stored(path, dataset)
        no_data = declared_no_data(image)
    else:
        image, no_data = open_image(path, dataset)
    return {
        "what": "an image: say --patches 16x16, or another size, to learn from it",
        "shape": list(image.shape),
        "dtype": image.dtype.name,
        "bytes": _bytes(path),
        "no_data": no_data,
    }


def _bytes(path: str) -> int | None:
    """Return the size of the file that holds the numbers."""
    *_, last = files_of(path)
    return os.path.getsize(last) if os.path.isfile(last) else None


def _matrix(path: str, source: Source) -> dict[str, Any]:
    n, p = source.shape
    some = source.rows(np.linspace(0, n - 1, min(n, N_SAMPLES)).astype(np.int64))
    dense = some if isinstance(some, np.ndarray) else some.toarray()
    return {
        "what": "a sparse matrix" if source.is_sparse else "a matrix",
        "samples": n,
        "features": p,
        "dtype": source.dtype.name,
        "bytes": _bytes(path),
        "density": source.X.nnz / (n * p) if isinstance(source, CsrSource) else None,
        "norm_of_a_sample": float(np.linalg.norm(dense.astype(np.float64), axis=1).mean()),
    }


def _model(path: str, model: MatrixFactorization) -> dict[str, Any]:
    history = model.history_
    objective = history.get("objective", [])
    changed = {
        name: value
        for name, value in modelfile.plain(model.get_params(deep=False)).items()
        if value != type(model)().get_params(deep=False)[name] and name not in ("callbacks", "init")
    }
    seconds = history.get("compute_seconds", [None])
    return {
        "what": "a checkpoint" if modelfile.is_checkpoint(path) else "a model",
        "problem": type(model).__name__,
        "atoms": len(model.components_),
        "features": model.n_features_in_,
        "dtype": model.components_.dtype.name,
        "alpha": model.alpha_,
        "patches": getattr(model, "patches_", None),
        "parameters": changed,
        "iterations": model.n_iter_,
        "samples_seen": model.n_samples_seen_,
        "seconds": seconds[-1],
        "objective_at_first": objective[0] if objective else None,
        "objective": objective[-1] if objective else None,
        "can_go_on": hasattr(model, "_state"),
        "written_by_somf": modelfile.version_of(path),
    }
