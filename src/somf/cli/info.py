"""``somf info``: describe a file."""

import os
from typing import Any

import click
import numpy as np
from scipy.sparse.linalg import norm as sparse_norm

from somf.cli.command import command
from somf.cli.console import Console, console_options, escape_control_characters
from somf.cli.data_options import (
    DataOptions,
    allow_external_option,
    dataset_option,
    header_option,
    raw_dtype_option,
    raw_shape_option,
)
from somf.cli.folders import check_folders
from somf.cli.open_data import PATCH_HINT, cannot_read, open_data
from somf.cli.options import with_options
from somf.data import Channels, CsrSource, Source
from somf.data.formats.kinds import STORED, Kind, is_url, kind_of, recognise, why_compressed
from somf.data.formats.npy import map_npy
from somf.data.formats.readers import holds_anndata
from somf.data.images.file_channels import channels_of_file
from somf.data.images.files import (
    READERS,
    declared_no_data,
    files_of,
    open_image,
    open_stored,
)
from somf.data.sources.compressed_rows import CompressedRows
from somf.errors import (
    DamagedFileError,
    FileRequestError,
    MissingFileError,
    SeveralDatasetsError,
    UnknownKindError,
)
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load
from somf.inference.largest import largest_features
from somf.persistence import modelfile
from somf.typing import Array, Rows

N_TERMS = 8
"""How many names of features are shown."""

N_ATOMS = 20
"""How many atoms are shown with the names of their features."""

N_SAMPLES = 32
"""How many samples the mean norm is computed on. The norm is the scale of alpha."""


@command(
    "somf info scene.npy",
    "somf info scene.somf --json",
)
@click.argument("file", type=click.Path())
@console_options
@with_options(
    dataset_option, raw_shape_option, raw_dtype_option, allow_external_option, header_option
)
def info(file: str, console: Console, **options: Any) -> None:
    """Describe FILE, which is data, a model or a checkpoint.

    For data, the output has the shape and the type. For a model, it has the parameters, the size
    of the dictionary and the objective.
    """
    if not is_url(file):
        if not os.path.exists(file):
            raise MissingFileError(f"There is no file {file!r}.")
        check_folders([file])
    kind = Kind.ZARR if is_url(file) else recognise(file)
    is_raw = options["raw_shape"] is not None or options["raw_dtype"] is not None
    if not is_raw and not is_url(file) and (message := why_compressed(file, kind)) is not None:
        raise UnknownKindError(message)
    try:
        facts = _facts(file, kind, options)
        terms = None if console.as_json else facts.pop("top_features", None)
        console.print_facts(facts)
        if terms:
            _print_terms(console, terms)
    except SeveralDatasetsError as error:
        allow = bool(options["allow_external"])
        rows = [_dataset(file, name, allow) for name in error.names]
        console.print_table({"what": "several datasets: choose one with --dataset"}, rows)


def _print_terms(console: Console, terms: list[list[str]]) -> None:
    """Print the features of largest weight, a line for each of the first atoms."""
    console.print("\nfeatures of largest weight")
    for j, names in enumerate(terms[:N_ATOMS]):
        shown = ", ".join(escape_control_characters(name) for name in names)
        console.print(f"  atom {j:<4} {shown}")
    if len(terms) > N_ATOMS:
        console.print(f"  and {len(terms) - N_ATOMS:,} more atoms: --json shows all")


def _top_features(model: MatrixFactorization) -> list[list[str]] | None:
    """Return the names of the features of largest weight of every atom, if they have names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or getattr(model, "channels_", None) is not None:
        return None
    return [[str(names[i]) for i in largest_features(atom, N_TERMS)] for atom in model.components_]


def _channels(channels: Channels | None) -> str | None:
    """Return channels in words."""
    if channels is None:
        return None
    if channels.values is None:
        more = ", …" if len(channels) > N_TERMS else ""
        return f"{len(channels)}: {', '.join(channels.texts[:N_TERMS])}{more}"
    low, high = min(channels.values), max(channels.values)
    return f"{len(channels)}, {channels.label} {low:.5g} to {high:.5g} {channels.unit}".rstrip()


def _facts(path: str, kind: Kind | None, options: dict[str, Any]) -> dict[str, Any]:
    where = options["dataset"], bool(options["allow_external"])
    is_raw = options["raw_shape"] is not None or options["raw_dtype"] is not None
    if not is_raw and _is_image(path, kind, *where):
        return _image(path, kind_of(path), *where)
    if is_raw or (kind is not None and kind is not Kind.MODEL):
        facts = _matrix(path, open_data([path], DataOptions(**options)))
        return facts if is_raw or kind is None else {"kind": kind.label} | facts
    if kind is None:
        raise UnknownKindError(cannot_read(path))
    return _model(path, load(path))


def _dataset(path: str, name: str, allow_external: bool) -> dict[str, Any]:
    if kind_of(path) not in STORED:  # the shape is known only after the whole file is read
        return {"dataset": name}
    try:
        stored = open_stored(path, name, allow_external)
    except FileRequestError as error:
        what = "in another file: add --allow-external" if error.name != "dataset" else "sparse"
        return {"dataset": name, "shape": [], "dtype": what}
    return {"dataset": name, "shape": list(stored.shape), "dtype": stored.dtype.name}


def _is_image(path: str, kind: Kind | None, dataset: str | None, allow_external: bool) -> bool:
    """Return whether a file holds an image; anything else is left to the readers of matrices."""
    if kind is Kind.NPY:
        return bool(map_npy(path).ndim == 3)
    if kind is Kind.IMAGE or (dataset is None and not is_url(path) and holds_anndata(path)):
        return kind is Kind.IMAGE
    try:
        if is_url(path) or kind_of(path) in STORED:
            return len(open_stored(path, dataset, allow_external).shape) == 3
        may_be = kind in (Kind.MATLAB, Kind.MATLAB_73, Kind.NPZ) and kind_of(path) in READERS
        return may_be and open_image(path, dataset, allow_external)[0].ndim == 3
    except SeveralDatasetsError:
        raise
    except (DamagedFileError, FileRequestError):  # such as a sparse matrix
        return False


def _image(path: str, kind: str, dataset: str | None, allow_external: bool) -> dict[str, Any]:
    if is_url(path) or kind in STORED:  # open_image would read all of it
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
        "channels": _channels(channels_of_file(path, dataset, image.shape, allow_external)),
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
        "density": _density(source),
        "norm_of_a_sample": float(_norms(some).mean()),
        "feature_names": _channels(_named(source)),
    }


def _density(source: Source) -> float | None:
    """Return which part of the entries is stored, of a sparse matrix whose entries are counted."""
    if isinstance(source, CsrSource):
        return float(source.X.nnz) / (source.shape[0] * source.shape[1])
    if isinstance(source, CompressedRows):
        return source.n_entries / (source.shape[0] * source.shape[1])
    return None


def _named(source: Source) -> Channels | None:
    """Return what is known of the features of a matrix."""
    names = source.feature_names
    return source.channels or (None if names is None else Channels(names=tuple(names)))


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
    seconds = modelfile.seconds_of(path) or history.get("compute_seconds", [None])[-1]
    return {
        "what": "a checkpoint" if modelfile.is_checkpoint(path) else "a model",
        "problem": type(model).__name__,
        "atoms": len(model.components_),
        "features": model.n_features_in_,
        "dtype": model.components_.dtype.name,
        "alpha": model.alpha_,
        "patches": _patches(model),
        "channels": _channels(getattr(model, "channels_", None)),
        "parameters": changed,
        "iterations": model.n_iter_,
        "samples_seen": model.n_samples_seen_,
        "seconds": seconds,
        "initial_objective": objective[0] if objective else None,
        "objective": objective[-1] if objective else None,
        "has_state": model.has_state,
        "written_by_somf": modelfile.version_of(path),
        "top_features": _top_features(model),
    }
