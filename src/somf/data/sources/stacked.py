"""Several sources as one matrix."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from somf.data.order import runs
from somf.data.readahead.memory_map import Place
from somf.data.source import Fetched, Source
from somf.typing import Array, Ints, Rows


class StackedSource(Source):
    """The rows of several sources, one source after the other.

    Parameters
    ----------
    parts : sequence of Source
        All with the same number of features, and all dense or all sparse.
    names : sequence of str
        What to call them in errors.
    """

    def __init__(self, parts: Sequence[Source], names: Sequence[str]) -> None:
        for part, name in zip(parts, names, strict=True):
            if part.shape[1] != parts[0].shape[1]:
                raise ValueError(
                    f"{name!r} must have {parts[0].shape[1]} features like {names[0]!r}, "
                    f"got {part.shape[1]}."
                )
            if part.is_sparse != parts[0].is_sparse:
                raise ValueError(
                    f"{name!r} must be of one kind with {names[0]!r}: one of them is sparse."
                )
        self.parts = parts
        self.starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape = (int(self.starts[-1]), parts[0].shape[1])
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.is_in_memory = all(part.is_in_memory for part in parts)
        self.is_sparse = parts[0].is_sparse
        self.is_read_by_system = all(p.is_read_by_system or p.is_in_memory for p in parts)
        self.supports_partial_chunks = all(
            p.supports_partial_chunks or p.chunk_starts is None for p in parts
        )
        longest = max(_longest_chunk(part) for part in parts)
        if longest:
            self.chunk_starts = np.concatenate(
                [
                    start + _runs(part, longest)
                    for start, part in zip(self.starts, parts, strict=False)
                ]
            )

    @property
    def entries_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        total = sum(part.entries_per_row * part.shape[0] for part in self.parts)
        return total / self.shape[0]

    def rows(self, ids: Ints) -> Rows:
        """Return samples, whichever sources they are in, as a new array."""
        shares = self._share_out(ids)
        back = np.argsort(np.concatenate([places for _, _, places in shares]))
        return self._join([source.rows(own) for source, own, _ in shares])[back]

    def prefetch(self, ids: Ints) -> None:
        """Ask the system to read, whichever sources samples are in."""
        for source, own, _ in self._share_out(ids):
            source.prefetch(own)

    def locate(self, ids: Ints) -> list[Place] | None:
        """Return where samples are, if all sources know, and none has to be converted."""
        found: dict[int, Place] = {}
        for source, own, at in self._share_out(ids):
            places = source.locate(own) if source.dtype == self.dtype else None
            if places is None:
                return None
            found.update(zip(at.tolist(), places, strict=True))
        return [found[at] for at in range(len(ids))]

    def fetch(self, ids: Ints) -> Fetched:
        """Let every source do its waiting now."""
        shares = self._share_out(ids)
        fetched = [(source.fetch(own), places) for source, own, places in shares]

        def gather(part: slice) -> tuple[Rows, Ints]:
            found, order = [], []
            for own, places in fetched:
                mine = slice(*np.searchsorted(places, (part.start, part.stop)).tolist())
                if mine.start == mine.stop and part.start < part.stop:
                    continue
                X, picked = own(mine)
                found.append(X[picked])
                order.append(places[mine])
            return self._join(found), np.argsort(np.concatenate(order))

        return gather

    def _share_out(self, ids: Ints) -> list[tuple[Source, Ints, Ints]]:
        """Return sources, the rows of each that are wanted, and where among all rows these are."""
        owners = np.searchsorted(self.starts, ids, side="right") - 1
        present = np.unique(owners).tolist() or [0]
        places = {owner: np.flatnonzero(owners == owner) for owner in present}
        return [(self.parts[o], ids[at] - self.starts[o], at) for o, at in places.items()]

    def _join(self, found: list[Rows]) -> Rows:
        if isinstance(found[0], np.ndarray):
            return np.concatenate(found, dtype=self.dtype)
        return sp.csr_array(sp.vstack(found, format="csr", dtype=self.dtype))

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array."""
        owner = int(np.searchsorted(self.starts, start, side="right")) - 1
        part, first = self.parts[owner], int(self.starts[owner])
        if stop <= self.starts[owner + 1] and part.dtype == out.dtype:
            part.read(start - first, stop - first, out)
        else:
            super().read(start, stop, out)  # also where numbers have to be converted


def _longest_chunk(part: Source) -> int:
    if part.chunk_starts is None:
        return 0
    return int(np.diff(part.chunk_starts, append=part.shape[0]).max())


def _runs(part: Source, longest: int) -> Ints:
    """Return where runs start, as long as the chunks of other parts: all share one buffer."""
    if part.chunk_starts is None:
        return np.arange(0, part.shape[0], longest)
    return runs(part.chunk_starts, part.shape[0], longest)
