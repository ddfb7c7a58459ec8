"""The identity of a fit: its parameters, and a fingerprint of its data."""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from typing import Any

import numpy as np

from somf.data import Source, as_source
from somf.data.channels import Channels
from somf.data.order import buffered_chunks
from somf.persistence import modelfile
from somf.persistence.modelfile import Model
from somf.typing import Array

SAMPLED_ROWS = 32
"""Rows that are hashed for the fingerprint of data, at most."""

SAMPLED_ENTRIES = 2**24
"""Entries that are hashed for it, at most."""

MAY_DIFFER = {
    "n_epochs",  # more of them: the fit continues
    "tol",  # a smaller one: likewise
    "patience",
    "record_every",  # these decide what is shown, not what is learned
    "transform_alpha",
    "callbacks",
    "verbose",
    "device",  # these change results by rounding only
    "n_threads",
    "checkpoint",
    "random_state",  # the seed is in the checkpoint, and compared
}
"""Parameters that may be others when a fit is resumed."""


ADDED_LATER = {
    "missing": "error",
    "center": "none",
    "atom_alpha": 0.0,
    "alpha_per": "sample",
    "normalize": False,
}
"""Parameters that older checkpoints do not have, with what they did."""


@dataclass(frozen=True)
class FitIdentity:
    """What is fitted, and to which data: a fit is resumed only if this is the same.

    Attributes
    ----------
    kind : str
        Name of the estimator's class.
    params : dict
        Its constructor parameters.
    seed : int or None
        The seed of the fit; None if any will do.
    feature_names : ndarray of str of shape (p,), or None
    patches : dict or None
        How the samples are cut out of an image. It is stored, but not compared: the fingerprint of
        the data tells all that matters.
    channels : Channels or None
        What the channels of samples are. It is stored, but not compared.
    data : dict
        The fingerprint of the data.
    validation : dict, float or None
        The fingerprint of other data, or a fraction of the samples.
    files : dict
        Size and time of the files of ``"X"`` and ``"validation"``; see `file_stamp`. Not compared
        by `differences`: a copy of a file has another time.
    """

    kind: str
    params: dict[str, Any]
    seed: int | None
    feature_names: Array | None
    patches: dict[str, Any] | None
    channels: Channels | None
    data: dict[str, Any]
    validation: Any
    files: dict[str, Any]

    def differences(self, then: Model, fit: dict[str, Any]) -> list[str]:
        """Return sentences about what has changed since a checkpoint was written."""
        if then.kind != self.kind:
            return [f"estimator: {then.kind!r} then, {self.kind!r} now"]
        pairs: dict[str, tuple[Any, Any]] = {}
        now = modelfile.plain(self.params)
        ignored = MAY_DIFFER | {"init"}
        if now["alpha"] != "auto":
            ignored = ignored | {"code_density", "atom_density"}  # which older ones do not have
        for name in sorted((now.keys() | then.params.keys()) - ignored):
            pairs[name] = (then.params.get(name, ADDED_LATER.get(name)), now.get(name))
        pairs |= _pairs("X", fit["data"], self.data)
        pairs |= _pairs("validation", fit["validation"], self.validation)
        if then.state is not None and self.seed not in (None, then.state.seed):
            pairs["random_state"] = (then.params.get("random_state"), now["random_state"])
        found = [f"{name}: {a!r} then, {b!r} now" for name, (a, b) in pairs.items() if a != b]
        if not np.array_equal(then.params["init"], self.params["init"]):
            found.append("init: another one then")
        return found

    def changed_files(self, fit: dict[str, Any]) -> list[str]:
        """Return sentences about files that have changed since a checkpoint was written."""
        then = fit.get("files", {})  # which older checkpoints do not have
        return [
            f"The files of {name} had {_words(then[name])} then, and have {_words(now)} now."
            for name, now in self.files.items()
            if now is not None and then.get(name) not in (None, now)
        ]


def _words(stamp: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(int(stamp["modified"]) / 1e9)
    return f"{int(stamp['bytes']):,} bytes, last modified at {moment:%Y-%m-%d %H:%M:%S}"


def _pairs(name: str, then: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Return the parts of two fingerprints in pairs."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = sorted(then.keys() | now.keys())
        return {f"{name} ({key})": (then.get(key), now.get(key)) for key in keys}
    return {name: (then, now)}


def fingerprint(data: Any, is_shuffled: bool = False) -> Any:
    """Return the fingerprint of data: shape, type, and a hash of some rows.

    Parameters
    ----------
    data : Source, array-like, float or None
        Numbers and None stand for themselves.
    is_shuffled : bool
        Whether samples are visited in a random order, which depends on how they are stored.
    """
    if data is None or isinstance(data, Real):
        return None if data is None else float(data)
    source = as_source(data)
    n = source.shape[0]
    count = max(1, min(SAMPLED_ROWS, n, int(SAMPLED_ENTRIES / source.entries_per_row)))
    rows = source.rows(np.linspace(0, n - 1, count).astype(np.int64))
    digest = hashlib.sha256()
    if isinstance(rows, np.ndarray):
        digest.update(_little(rows))
    else:
        for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            digest.update(_little(part))
    found = {
        "shape": list(source.shape),
        "dtype": source.dtype.name,
        "content of sampled rows": digest.hexdigest()[:16],
    }
    return found | {"storage": _storage(source)} if is_shuffled else found


def file_stamp(data: Any) -> dict[str, int] | None:
    """Return the size of the files of some data, and when one of them was last modified.

    Parameters
    ----------
    data : Source, array-like, float or None

    Returns
    -------
    stamp : dict or None
        ``bytes`` and ``modified``, in nanoseconds; None for data that is not in files.
    """
    if data is None or isinstance(data, Real):
        return None
    found = []
    for path in as_source(data).files:
        with suppress(OSError):  # an open file may have been removed
            found.append(os.stat(path))
    if not found:
        return None
    return {
        "bytes": sum(status.st_size for status in found),
        "modified": max(status.st_mtime_ns for status in found),
    }


def _storage(source: Source) -> str:
    """Return a description of the chunks, on which the order of samples depends."""
    if source.chunk_starts is None:
        return "rows"
    starts = hashlib.sha256(_little(source.chunk_starts.astype(np.int64))).hexdigest()[:8]
    count = len(source.chunk_starts)
    return f"{count} chunks ({starts}), {buffered_chunks(source)} shuffled at a time"


def _little(array: Array) -> memoryview:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data
