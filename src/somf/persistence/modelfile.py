"""Fitted models as files, and the checks of what is read from them."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from somf.algorithm.state import FRACTIONS, State
from somf.algorithm.state_check import MOST_COUNTED
from somf.data.channels import Channels
from somf.data.images.no_data import MISSING
from somf.errors import DamagedFileError
from somf.persistence import tensorfile
from somf.persistence.provenance import checked_provenance, library_version
from somf.persistence.tensorfile import MALFORMED, SelectedRows
from somf.scratch import scratch_zeros
from somf.typing import Array, History, Ints

FORMAT = 6
"""The format that is written."""

READABLE = (1, 2, 3, 4, 5, 6)
"""The formats that can be read.

Files of format 1 have components even if they have a state, and no checksum; those of formats 1 and
2 have no patches, no version, and λ only among the parameters; checkpoints before format 4 do not
know the files and the hash of their data; states before format 5 know no weights of entries;
patches before format 6 are those of one image.
"""

LARGEST_ENTRY = 1e6
"""The largest entry of an atom that is read.

Atoms of a fit have norms up to one. With entries up to this one, products do not overflow.
"""

LARGEST_OFFSET = 1e15
"""The largest offset that is read; squares of such numbers do not overflow in single precision."""

COLUMNS = {"n_samples_seen", "n_iter", "compute_seconds", "wall_seconds"}
"""The columns that every history with records has."""


@dataclass(frozen=True)
class Model:
    """The parts of a fitted estimator.

    Attributes
    ----------
    kind : str
        Name of the estimator's class.
    params : dict
        Its constructor parameters.
    learned : ndarray of shape (k, p), or State
        The components alone, or also what `partial_fit` needs.
    history : dict of lists
    feature_names : ndarray of str of shape (p,), or None
    patches : dict or None
        How the samples were cut out of an image; see `somf.ImagePatches.geometry`.
    alpha : float
        λ of the fit.
    n_iter, n_samples_seen : int
    offsets : ndarray of shape (p,), optional
        What is subtracted from every feature.
    channels : Channels, optional
        What the features of spectra are, or the channels of patches.
    provenance : dict of str, optional
        See `somf.persistence.provenance.provenance_of`.
    reconstruction_err : float, optional
    explained_variance_ratio : ndarray of shape (k,), optional
        How well the samples of the fit are explained, where it was measured.
    fit : dict, optional
        What `fit` needs, besides the state, to resume; only checkpoints have it.
    """

    kind: str
    params: dict[str, Any]
    learned: Array | State
    history: History
    feature_names: Array | None
    patches: dict[str, Any] | None
    alpha: float
    n_iter: int
    n_samples_seen: int
    offsets: Array | None = None
    channels: Channels | None = None
    provenance: dict[str, str] | None = None
    reconstruction_err: float | None = None
    explained_variance_ratio: Array | None = None
    fit: dict[str, Any] | None = None

    @property
    def components(self) -> Array:
        """The atoms, of shape (k, p)."""
        return self.learned.components if isinstance(self.learned, State) else self.learned

    @property
    def state(self) -> State | None:
        """The state, where there is one."""
        return self.learned if isinstance(self.learned, State) else None


def save(
    path: str | os.PathLike[str],
    model: Model,
    seen: Ints | None = None,
    previous: str | os.PathLike[str] | None = None,
) -> None:
    """Write a model; see `MatrixFactorization.save`.

    Parameters
    ----------
    path : path-like
    model : Model
    seen : ndarray of int, optional
        The samples of which the memory is written; by default all.
    previous : path-like, optional
        Where to keep the file that is replaced.
    """
    tensors: dict[str, Array | SelectedRows] = {}
    if model.state is None:
        tensors["components"] = model.components
    else:
        for name, array in model.state.arrays().items():
            tensors[f"state.{name}"] = array
            if seen is not None and name.startswith("memory."):
                tensors[f"state.{name}"] = SelectedRows(array, seen)
    if model.state is None and model.offsets is not None:
        tensors["offsets"] = model.offsets
    if not isinstance(model.params["init"], str):
        tensors["init"] = _floating(model.params["init"])
    text = {
        "format": FORMAT,
        "version": library_version("somf"),
        "kind": model.kind,
        "params": plain(model.params),
        "history": model.history,
        "feature_names": _listed(model.feature_names),
        "patches": model.patches,
        "channels": None if model.channels is None else model.channels.fields(),
        "alpha": model.alpha,
        "n_iter": model.n_iter,
        "n_samples_seen": model.n_samples_seen,
        "counters": None if model.state is None else model.state.counters(),
        "provenance": model.provenance,
        "reconstruction_err": model.reconstruction_err,
        "explained_variance_ratio": _listed(model.explained_variance_ratio),
        "fit": model.fit,
    }
    tensorfile.write(path, tensors, json.dumps(text), previous)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model; raise DamagedFileError, with the name of the file, if it is not one."""
    tensors, text = tensorfile.read(path, _allocate, _has_first_format)
    with refuse_malformed(path):
        fields = json.loads(text)
        if type(fields["format"]) is not int or fields["format"] not in READABLE:
            raise ValueError(f"its format is {fields['format']}, this version reads {READABLE}")
        # A file must not decide where a later fit writes its checkpoints.
        params = _params(fields["params"]) | {"checkpoint": None}
        if "init" in tensors:
            params["init"] = tensors.pop("init")
        counters = fields["counters"]
        atoms = tensors["components"] if counters is None else tensors["state.D"].T
        names, patches = fields["feature_names"], fields.get("patches")
        _check(atoms, names)
        learned = atoms if counters is None else _state(tensors, counters)
        return Model(
            kind=str(fields["kind"]),
            params=params,
            learned=learned,
            history=_history(fields["history"]),
            feature_names=None if names is None else np.array(names, dtype=object),
            patches=None if patches is None else _patches(patches, atoms.shape[1]),
            alpha=_weight(fields["alpha"] if fields["format"] > 2 else params["alpha"]),
            n_iter=_count(fields["n_iter"]),
            n_samples_seen=_count(fields["n_samples_seen"]),
            offsets=_offsets(tensors, learned, atoms.shape[1]),
            channels=_channels(fields.get("channels"), atoms.shape[1]),
            provenance=checked_provenance(fields.get("provenance")),
            reconstruction_err=_error(fields.get("reconstruction_err")),
            explained_variance_ratio=_shares(fields.get("explained_variance_ratio"), len(atoms)),
            fit=fields.get("fit"),
        )


def version_of(path: str | os.PathLike[str]) -> str | None:
    """Return the version of somf that wrote a file, if the file has it; arrays are not read."""
    text = tensorfile.read_text(path)
    with refuse_malformed(path):
        found = json.loads(text).get("version")
        return None if found is None else str(found)


def seconds_of(path: str | os.PathLike[str]) -> float | None:
    """Return how long the fit of a checkpoint has computed; a model has it in its history."""
    text = tensorfile.read_text(path)
    with refuse_malformed(path):
        fit = json.loads(text).get("fit")
        return None if fit is None else float(fit["compute_seconds"])


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Return whether the header of a file is that of a checkpoint; arrays are not read."""
    text = tensorfile.read_text(path)
    with refuse_malformed(path):
        return json.loads(text).get("fit") is not None


@contextmanager
def refuse_malformed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise DamagedFileError, with the name of the file, if its content is malformed."""
    try:
        yield
    except MALFORMED as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise DamagedFileError(f"{os.fspath(path)!r} is not a somf model: {what}.") from error


def plain(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them, without those that it cannot hold."""
    return {name: _plain(name, value) for name, value in params.items()}


def _has_first_format(text: str) -> bool:
    return bool(json.loads(text)["format"] == 1)


def _params(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError("its parameters have no names")
    return given


def _allocate(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array to read into; statistics may be larger than main memory."""
    if name == "state.C_by_feature":
        return scratch_zeros(shape, dtype, in_order=True)
    if name.startswith("state.memory."):
        return scratch_zeros(shape, dtype)
    return np.empty(shape, dtype)


def _check(components: Array, feature_names: Any) -> None:
    if components.ndim != 2 or components.dtype.kind != "f" or 0 in components.shape:
        raise ValueError("its components are not a matrix of floats")
    if not (np.abs(components) <= LARGEST_ENTRY).all():  # false for NaN
        raise ValueError("its components are not finite, or far too large")
    if feature_names is not None and (
        len(feature_names) != components.shape[1]
        or not all(isinstance(name, str) for name in feature_names)
    ):
        raise ValueError("it does not have one name for each feature")


def _state(tensors: dict[str, Array], counters: dict[str, Any]) -> State:
    arrays = {n.removeprefix("state."): a for n, a in tensors.items() if n.startswith("state.")}
    order = arrays.get("permutation")
    if order is not None and (
        order.dtype != np.int64 or not np.array_equal(np.sort(order), np.arange(len(arrays["D"])))
    ):
        raise ValueError("the permutation of its state is not a permutation of its features")
    numbers: dict[str, float] = {
        name: _number(value) if name in FRACTIONS else _count(value)
        for name, value in counters.items()
    }
    return State.restore(arrays, numbers)


def _offsets(tensors: dict[str, Array], learned: Array | State, n_features: int) -> Array | None:
    """Return the offsets of features, where a file has them, or raise ValueError."""
    offsets = learned.offsets if isinstance(learned, State) else tensors.get("offsets")
    if offsets is None or offsets.size == 0:
        return None
    if offsets.shape != (n_features,) or offsets.dtype.kind != "f":
        raise ValueError("its offsets are not numbers for its features")
    if not (np.abs(offsets) <= LARGEST_OFFSET).all():  # false for NaN
        raise ValueError("its offsets are not finite, or far too large")
    return offsets


def _patches(given: dict[str, Any], n_features: int) -> dict[str, Any]:
    """Return the geometry of patches with tuples where JSON has lists, or raise ValueError."""
    no_data, size = given["no_data"], _sizes(given["patch_size"])
    images = given["images"] if "images" in given else [given | {"shape": given["image_shape"]}]
    patches = {
        "patch_size": size,
        "stride": _sizes(given["stride"]),
        "center": given["center"],
        "scale": given["scale"],
        "no_data": no_data if no_data in (None, MISSING) else float(no_data),
        "images": [_image(image, len(size)) for image in images],
    }
    n_values = {math.prod((*size, *image["shape"][len(size) :])) for image in patches["images"]}
    is_flag = [isinstance(patches[name], bool) for name in ("center", "scale")]
    is_consistent = len(patches["stride"]) == len(size) and all(is_flag)
    if n_values != {n_features} or not is_consistent:
        raise ValueError("its patches are not those of its components")
    return patches


def _image(given: dict[str, Any], n_axes: int) -> dict[str, Any]:
    """Return the description of an image; see `somf.ImagePatches.geometry`."""
    shape = given["shape"]
    if len(shape) not in (n_axes, n_axes + 1):
        raise ValueError("its images do not have the axes of its patches")
    return {
        "shape": (*_sizes(shape[:n_axes]), *map(int, shape[n_axes:])),
        "dtype": np.dtype(str(given["dtype"])).name,
        **{name: _word(given.get(name)) for name in ("path", "dataset", "mask")},
    }


def _channels(given: Any, n_features: int) -> Channels | None:
    """Return channels, which a file need not have, or raise ValueError."""
    if given is None:
        return None
    channels = Channels.restore(given)
    if len(channels) == 0 or n_features % len(channels):
        raise ValueError("its channels are not those of its components")
    return channels


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


def _sizes(given: Any) -> tuple[int, ...]:
    sizes = tuple(map(int, given))
    if len(sizes) not in (2, 3) or min(sizes) < 1:
        raise ValueError("its patches have no size")
    return sizes


def _listed(array: Array | None) -> list[Any] | None:
    return None if array is None else array.tolist()


def _error(given: Any) -> float | None:
    return None if given is None else _weight(given, "reconstruction error")


def _shares(given: Any, n_components: int) -> Array | None:
    """Return the shares of atoms, which a file need not have; they are NaN without variance."""
    if given is None:
        return None
    shares = np.array([_number(share) for share in given], np.float64)
    if len(shares) != n_components:
        raise ValueError("it does not have one share of the variance for each atom")
    return shares


def _weight(given: Any, name: str = "alpha") -> float:
    if not isinstance(given, int | float) or not (math.isfinite(given) and given >= 0):
        raise ValueError(f"its {name} is not a number that is at least 0")
    return float(given)


def _history(given: Any) -> History:
    history = {str(name): [_number(value) for value in column] for name, column in given.items()}
    lengths = {len(column) for column in history.values()}
    if len(lengths) > 1:
        raise ValueError("the columns of its history differ in length")
    if history and (0 in lengths or not history.keys() >= COLUMNS):
        raise ValueError("its history is incomplete")
    return history


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("its history or its state is not made of numbers")
    if isinstance(value, int) and not 0 <= value <= MOST_COUNTED:
        raise ValueError("a count in its history is out of range")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNTED:
        raise ValueError("a count is out of range")
    return value


def _floating(init: Any) -> Array:
    """Return an array in a floating type that files have."""
    array = np.asarray(init)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _plain(name: str, value: Any) -> Any:
    if name == "callbacks":
        return []
    if name == "checkpoint" or (name == "init" and not isinstance(value, str)):
        return None  # an array is saved as a tensor
    if name == "dtype" and value is not None:
        return np.dtype(value).name
    if isinstance(value, np.generic):
        return value.item()
    if name == "random_state" and not isinstance(value, int):
        return None
    return value
