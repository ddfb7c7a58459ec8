"""The shares of ranks in a checkpoint.

Every rank writes its share of the state, B, C and what it remembers of its samples, to a file of
its own beside the checkpoint. The names of these files are new each time. Then rank 0 replaces the
checkpoint, which names them: a kill at any moment leaves a checkpoint with all of its shares.
"""

import json
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from somf.algorithm.memory import SampleMemory
from somf.algorithm.state import State
from somf.distributed import Communicator
from somf.errors import DamagedFileError
from somf.kernels.host import to_host
from somf.persistence import modelfile, tensorfile
from somf.persistence.tensorfile import SelectedRows
from somf.scratch import scratch_zeros
from somf.training.samples import Rows
from somf.typing import Array, Ints

SUMMED = ("B", "C", "C_by_feature", "n_known", "n_users")
"""Arrays of a state of which every rank has a share; the sum is what counts."""

ROWS_AT_ONCE = 2**16
"""Rows of B that are summed over ranks at the same time."""

TOKEN_BYTES = 4
"""Random bytes in the names of the files of one checkpoint, two characters each."""

PER_MEMORY = "memory."
"""How the names of arrays with one row per sample begin."""


class Division(NamedTuple):
    """How the state of a checkpoint is divided.

    Attributes
    ----------
    token : str or None
        What is in the names of the files of the shares; None if a single process wrote it all.
    edges : ndarray of int
        The rows of each rank.
    shifts : list of (int, ndarray)
        Up to how many samples the fit had other edges before, and which.
    """

    token: str | None
    edges: Ints
    shifts: list[tuple[int, Ints]]

    @classmethod
    def of(cls, fit: dict[str, Any], n_rows: int) -> "Division":
        """Return that of a checkpoint; a single process has written older ones."""
        fields = fit.get("ranks")
        if fields is None:
            return cls(None, np.array([0, n_rows]), [])
        token = fields["token"]
        if token is not None and not re.fullmatch(f"[0-9a-f]{{{2 * TOKEN_BYTES}}}", token):
            raise ValueError("the name of its shares is malformed")
        shifts = [(int(end), _edges(edges, n_rows)) for end, edges in fields["shifts"]]
        return cls(token, _edges(fields["edges"], n_rows), shifts)

    def fields(self) -> dict[str, Any]:
        """Return everything in a form that JSON can hold."""
        return {
            "token": self.token,
            "edges": self.edges.tolist(),
            "shifts": [[end, edges.tolist()] for end, edges in self.shifts],
        }


def _edges(given: Any, n_rows: int) -> Ints:
    edges = np.array([int(edge) for edge in given])
    if len(edges) < 2 or (np.diff(edges) < 1).any() or (edges[0], edges[-1]) != (0, n_rows):
        raise ValueError("its rows are not those of the data")
    return edges


def share_file(path: Path, token: str, rank: int) -> Path:
    """Return the file of a share."""
    return path.with_name(f"{path.name}.{token}.rank{rank}")


def new_token(communicator: Communicator) -> str:
    """Return a name for the files of a checkpoint, the same on all ranks."""
    return str(communicator.tell(secrets.token_hex(TOKEN_BYTES))[0])


def write_share(path: Path, state: State, seen: Ints | None) -> None:
    """Write the share of this rank.

    Parameters
    ----------
    path : Path
    state : State
    seen : ndarray of int, or None
        The slots of which the memory is written; None is all.
    """
    arrays = state.arrays()
    tensors: dict[str, Array | SelectedRows] = {name: arrays[name] for name in SUMMED}
    for name, array in arrays.items():
        if name.startswith(PER_MEMORY):
            tensors[name] = array if seen is None else SelectedRows(array, seen)
    tensorfile.write(path, tensors, json.dumps({"share": True, "n_iter": state.n_iter}))


def whole_state(state: State, communicator: Communicator) -> State:
    """Return the state of all ranks, on the host; it remembers no samples."""
    sums = {name: _total(getattr(state, name), communicator) for name in SUMMED}
    memory = None if state.memory is None else state.memory.without_samples()
    host = replace(state, memory=memory, **sums).on_host()  # type: ignore[arg-type] # names of arrays
    return replace(host, last_used=communicator.latest(host.last_used))


def _total(array: Array, communicator: Communicator) -> Array:
    """Return the sum of the shares of all ranks, on the host.

    Messages need copies, so a part of the rows is summed at a time.
    """
    if not len(array):
        return to_host(array)
    parts = [slice(start, start + ROWS_AT_ONCE) for start in range(0, len(array), ROWS_AT_ONCE)]
    return np.concatenate([to_host(communicator.sum(array[part])[0]) for part in parts])


def own_state(path: Path, state: State, division: Division, rows: Rows) -> State:
    """Return the share of this rank of the state in a checkpoint.

    Parameters
    ----------
    path : Path
        The checkpoint.
    state : State
        That of all ranks, on the host, as it is in the checkpoint.
    division : Division
        How it was divided.
    rows : Rows
        How it is to be divided now.
    """
    token = division.token
    if token is not None and np.array_equal(division.edges, rows.edges):
        share = _read_share(path, token, rows.rank, state)
        sums, pieces = {name: share[name] for name in SUMMED}, [share]
    else:
        # Only the sum over ranks counts, so one rank has it all.
        sums = {name: getattr(state, name) * (1 if rows.rank == 0 else 0) for name in SUMMED}
        if token is None:
            pieces = [state.arrays()]
        else:
            old = Rows(0, division.edges)
            ranks = range(len(old.edges) - 1)
            pieces = [_read_share(path, token, rank, state) for rank in ranks]
    if state.memory is not None and np.array_equal(state.memory.ids, rows.own):
        return state  # that of a single process, now as then
    memory = _memory(pieces, rows)
    return replace(state, memory=memory, **sums)  # type: ignore[arg-type] # names of arrays


def _read_share(path: Path, token: str, rank: int, state: State) -> dict[str, Array]:
    """Read a share, and check that it belongs to a state."""
    file = share_file(path, token, rank)
    try:
        tensors, text = tensorfile.read(file, _allocate)
    except FileNotFoundError:
        raise DamagedFileError(f"{str(path)!r} lacks its share {file.name!r}.") from None
    with modelfile.refuse_malformed(file):
        if json.loads(text)["n_iter"] != state.n_iter:
            raise ValueError("it is that of another checkpoint")
        for name in SUMMED:
            if name not in tensors and not getattr(state, name).size:  # in older files
                tensors[name] = getattr(state, name)
            if tensors[name].shape != getattr(state, name).shape:
                raise ValueError(f"{name} has another shape")
    return tensors


def _allocate(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return scratch_zeros(shape, dtype) if name.startswith(PER_MEMORY) else np.empty(shape, dtype)


def _memory(pieces: Iterable[dict[str, Array]], rows: Rows) -> SampleMemory | None:
    """Return what is remembered of the samples of this rank, zero for those that were not seen."""
    own, first = rows.own, rows.first
    arrays: dict[str, Array] = {}
    for piece in pieces:
        ids = piece.get(f"{PER_MEMORY}ids")
        if ids is None:
            return None
        if len(ids) and not 0 <= ids.min() <= ids.max() < rows.n:
            raise ValueError("its state remembers samples that are not there")
        here = np.flatnonzero((ids >= first) & (ids < first + len(own)))
        for name, array in piece.items():
            if name.startswith(PER_MEMORY) and name != f"{PER_MEMORY}ids":
                short = name.removeprefix(PER_MEMORY)
                if short not in arrays:
                    arrays[short] = scratch_zeros((len(own), *array.shape[1:]), array.dtype)
                arrays[short][ids[here] - first] = array[here]
    memory = SampleMemory(own, **arrays)  # type: ignore[arg-type] # names of arrays
    return replace(memory, n_elsewhere=rows.n - len(own))


def remove_other_shares(path: Path, previous: Path) -> None:
    """Remove the shares of checkpoints that have been replaced."""
    kept = {token for file in (path, previous) if (token := _token(file)) is not None}
    pattern = re.compile(
        rf"{re.escape(path.name)}\.([0-9a-f]{{{2 * TOKEN_BYTES}}})\.rank\d+(\.[0-9a-f]+\.part)?"
    )
    for entry in list(os.scandir(path.parent)):
        found = pattern.fullmatch(entry.name)
        if found is not None and found[1] not in kept:
            with suppress(OSError):
                os.unlink(entry.path)


def _token(file: Path) -> str | None:
    """Return the name of the shares of a checkpoint, if it has any."""
    try:
        fit = json.loads(tensorfile.read_text(file)).get("fit") or {}
        token = (fit.get("ranks") or {}).get("token")
    except (OSError, ValueError):
        return None
    return None if token is None else str(token)
