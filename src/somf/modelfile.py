"""Fitted models as files: what goes in, and what is checked when it comes out."""

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from somf import tensorfile
from somf.callbacks import History
from somf.state import State
from somf.typing import Array

FORMAT = 1


@dataclass(frozen=True)
class Model:
    """A fitted estimator, taken apart.

    Attributes
    ----------
    kind : str
        Name of the estimator's class.
    params : dict
        Its constructor parameters.
    components : ndarray of shape (k, p)
    history : dict of lists
    feature_names : ndarray of str of shape (p,), or None
    n_iter, n_samples_seen : int
    state : State or None
        What `partial_fit` needs to go on.
    """

    kind: str
    params: dict[str, Any]
    components: Array
    history: History
    feature_names: Array | None
    n_iter: int
    n_samples_seen: int
    state: State | None


def save(path: str | os.PathLike[str], model: Model) -> None:
    """Write a model; see `MatrixFactorization.save`."""
    params = {name: _plain(name, value) for name, value in model.params.items()}
    tensors = {"components": model.components}
    if not isinstance(model.params["init"], str):
        tensors["init"] = np.asarray(model.params["init"], dtype=np.float64)
    text = {
        "format": FORMAT,
        "kind": model.kind,
        "params": params,
        "history": model.history,
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "n_iter": model.n_iter,
        "n_samples_seen": model.n_samples_seen,
        "counters": None if model.state is None else model.state.counters(),
    }
    if model.state is not None:
        tensors |= {f"state.{name}": array for name, array in model.state.arrays().items()}
    tensorfile.write(path, tensors, json.dumps(text))


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model; raise ValueError, with the name of the file, if it is not one."""
    tensors, text = tensorfile.read(path)
    try:
        fields = json.loads(text)
        if fields["format"] != FORMAT:
            raise ValueError(f"its format is {fields['format']}, this version reads {FORMAT}")
        params = dict(fields["params"])
        if "init" in tensors:
            params["init"] = tensors.pop("init")
        components = tensors.pop("components")
        if components.ndim != 2 or components.dtype.kind != "f" or 0 in components.shape:
            raise ValueError("its components are not a matrix of floats")
        names = fields["feature_names"]
        if names is not None and len(names) != components.shape[1]:
            raise ValueError("it does not have one name for each feature")
        return Model(
            kind=str(fields["kind"]),
            params=params,
            components=components,
            history={
                str(k): [_number(v) for v in column] for k, column in fields["history"].items()
            },
            feature_names=None if names is None else np.array(names, dtype=object),
            n_iter=int(fields["n_iter"]),
            n_samples_seen=int(fields["n_samples_seen"]),
            state=_state(tensors, fields["counters"], components),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a somf model: {error}.") from error


def _state(
    tensors: dict[str, Array], counters: dict[str, int] | None, components: Array
) -> State | None:
    if counters is None:
        return None
    arrays = {name.removeprefix("state."): tensor for name, tensor in tensors.items()}
    state = State.restore(arrays, {name: int(value) for name, value in counters.items()})
    if state.D.shape != components.shape[::-1] or state.D.dtype != components.dtype:
        raise ValueError("its state does not fit its components")
    return state


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError("its history is not made of numbers")
    return value


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as something that JSON can hold."""
    if name == "callbacks":
        return []
    if name == "init" and not isinstance(value, str):
        return None  # an array, which is saved as such
    if name == "dtype" and value is not None:
        return np.dtype(value).name
    if isinstance(value, np.generic):
        return value.item()
    if name == "random_state" and not isinstance(value, int):
        return None
    return value
