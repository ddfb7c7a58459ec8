"""``somf info``: describe a file."""

import os
from typing import Any

import click
import numpy as np
from scipy.sparse.linalg import norm as sparse_norm

from somf.cli.command import command
from somf.cli.console import Console, console_options
from somf.cli.data_options import (
    DataOptions,
    allow_external_option,
    dataset_option,
    raw_dtype_option,
    raw_shape_option,
)
from somf.cli.open_data import PATCH_HINT, RAW_HINT, open_data
from somf.cli.options import with_options
from somf.data import CsrSource, Source
from somf.data.formats.kinds import IMAGES, MATRICES, STORED, kind_of
from somf.data.formats.npy import map_npy
from somf.data.images.files import (
    READERS,
    declared_no_data,
    files_of,
    open_image,
    open_stored,
)
from somf.errors import DamagedFileError, FileRequestError, MissingFileError, SeveralDatasetsError
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load
from somf.persistence import modelfile
from somf.typing import Array, Rows

DATA = (*MATRICES, *IMAGES)
"""Endings of files with data. All other files are models and checkpoints."""

N_SAMPLES = 32
"""How many samples the mean norm is computed on. The norm is the scale of alpha."""


@command(
    "somf info scene.npy",
    "somf info scene.somf --json",
)
@click.argument("file")
@console_options
@with_options(dataset_option, raw_shape_option, raw_dtype_option, allow_external_option)
def info(file: str, console: Console, **options: Any) -> None:
    """Describe FILE, which is data, a model or a checkpoint.

    For data, the output has the shape and the type. For a model, it has the parameters, the size
    of the dictionary and the objective.
    """
    if not os.path.exists(file):
        raise MissingFileError(f"There is no file {file!r}.")
    kind = kind_of(file)
    try:
        console.print_facts(_facts(file, kind, options))
    except SeveralDatasetsError as error:
        allow = bool(options["allow_external"])
        rows = [_dataset(file, kind, name, allow) for name in error.names]
        console.print_table({"what": "several datasets: choose one with --dataset"}, rows)


def _facts(path: str, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    where = options["dataset"], bool(options["allow_external"])
    if _is_image(path, kind, *where):
        return _image(path, kind, *where)
    if kind in DATA or any(options.values()):
        return _matrix(path, open_data([path], DataOptions(**options)))
    try:
        return _model(path, load(path))
    except DamagedFileError as error:
        error.add_note(RAW_HINT)
        raise


def _dataset(path: str, kind: str, name: str, allow_external: bool) -> dict[str, Any]:
    if kind not in STORED:  # the shape is known only after the whole file is read
        return {"dataset": name}
    try:
        stored = open_stored(path, name, allow_external)
    except FileRequestError:
        return {"dataset": name, "shape": [], "dtype": "in another file: add --allow-external"}
    return {"dataset": name, "shape": list(stored.shape), "dtype": stored.dtype.name}


def _is_image(path: str, kind: str, dataset: str | None, allow_external: bool) -> bool:
    if kind in STORED:
        return len(open_stored(path, dataset, allow_external).shape) == 3
    return kind in READERS and (kind != ".npy" or map_npy(path).ndim == 3)


def _image(path: str, kind: str, dataset: str | None, allow_external: bool) -> dict[str, Any]:
    if kind in STORED:  # open_image would read all of it
        image = open_stored(path, dataset, allow_external)
        no_data = declared_no_data(image)
    else:
        image, no_data = open_image(path, dataset, allow_external)
    return {
        "what": f"an image: to learn from it, {PATCH_HINT}",
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
    return {
        "what": "a sparse matrix" if source.is_sparse else "a matrix",
        "samples": n,
        "features": p,
        "dtype": source.dtype.name,
        "bytes": _bytes(path),
        "density": source.X.nnz / (n * p) if isinstance(source, CsrSource) else None,
        "norm_of_a_sample": float(_norms(some).mean()),
    }


def _norms(rows: Rows) -> Array:
    """Return the Euclidean norm of every row, without a dense copy of sparse rows."""
    rows = rows.astype(np.float64)
    if isinstance(rows, np.ndarray):
        return np.asarray(np.linalg.norm(rows, axis=1))
    rows.sum_duplicates()
    return np.asarray(sparse_norm(rows, axis=1))


def _patches(model: MatrixFactorization) -> dict[str, Any] | None:
    """Return how patches were cut out, with one line for each of a few images."""
    patches = getattr(model, "patches_", None)
    if patches is None:
        return None
    images = patches["images"]
    facts = {name: value for name, value in patches.items() if name != "images"}
    return facts | (images[0] if len(images) == 1 else {"images": len(images)})


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
        "patches": _patches(model),
        "parameters": changed,
        "iterations": model.n_iter_,
        "samples_seen": model.n_samples_seen_,
        "seconds": seconds[-1],
        "initial_objective": objective[0] if objective else None,
        "objective": objective[-1] if objective else None,
        "has_state": model.has_state,
        "written_by_somf": modelfile.version_of(path),
    }
