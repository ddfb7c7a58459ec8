"""Several sources as one matrix."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from somf.data.checks import check_rows
from somf.data.order import runs
from somf.data.source import Source, View
from somf.errors import DataError
from somf.typing import Array, Ints, Rows


class StackedSource(Source):
    """The rows of several sources, one source after the other.

    Parameters
    ----------
    parts : sequence of Source
        All with the same number of features, and all dense or all sparse. Those that have names of
        features have the same ones.
    names : sequence of str
        What to call them in errors.
    """

    def __init__(self, parts: Sequence[Source], names: Sequence[str]) -> None:
        for part, name in zip(parts, names, strict=True):
            if part.shape[1] != parts[0].shape[1]:
                raise DataError(
                    f"{name!r} must have {parts[0].shape[1]} features like {names[0]!r}, "
                    f"got {part.shape[1]}."
                )
            if part.is_sparse != parts[0].is_sparse:
                raise DataError(
                    f"{name!r} must be dense or sparse like {names[0]!r}: one of them is sparse."
                )
        self.parts = parts
        self.feature_names = _common_names(parts, names)
        self.channels = next((part.channels for part in parts if part.channels), None)
        self.files = tuple(file for part in parts for file in part.files)
        self.starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape = (int(self.starts[-1]), parts[0].shape[1])
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.is_in_memory = all(part.is_in_memory for part in parts)
        self.is_sparse = parts[0].is_sparse
        self.reads_in_parallel = all(part.reads_in_parallel for part in parts)
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
        return self._mean([part.entries_per_row for part in self.parts])

    @property
    def stored_share(self) -> float:
        """Which part of all entries is stored."""
        return self._mean([part.stored_share for part in self.parts])

    def _mean(self, of_parts: list[float]) -> float:
        """Return a mean over all rows, from those of the parts."""
        lengths = [part.shape[0] for part in self.parts]
        return float(np.average(of_parts, weights=lengths))

    def rows(self, ids: Ints) -> Rows:
        """Return samples of all parts as a new array."""
        X, positions = self.view(ids)
        return X[positions]

    def view(self, ids: Ints) -> View:
        """Return samples; they are copied unless all are in one part that has the common type."""
        shares = self._shares(ids)
        part, own_ids, _ = shares[0]
        if len(shares) == 1 and part.dtype == self.dtype:
            return part.view(own_ids)
        found = []
        for part, own_ids, _ in shares:
            found.append(part.rows(own_ids))
            check_rows(found[-1], (len(own_ids), self.shape[1]), self.is_sparse)
        back = np.argsort(np.concatenate([positions for _, _, positions in shares]))
        if self.is_sparse:
            return sp.csr_array(sp.vstack(found, format="csr", dtype=self.dtype)), back
        return np.concatenate(found, dtype=self.dtype), back

    def prefetch(self, ids: Ints) -> None:
        """Let every part prefetch its samples."""
        for part, own_ids, _ in self._shares(ids):
            part.prefetch(own_ids)

    def read(self, start: int, stop: int, out: Array) -> None:
        """Write consecutive rows into an array."""
        owner = int(np.searchsorted(self.starts, start, side="right")) - 1
        part, first = self.parts[owner], int(self.starts[owner])
        if stop <= self.starts[owner + 1] and part.dtype == out.dtype:
            part.read(start - first, stop - first, out)
        else:  # rows of several parts, or of a type that has to be converted
            super().read(start, stop, out)

    def _shares(self, ids: Ints) -> list[tuple[Source, Ints, Ints]]:
        """Return for every part that holds samples: the part, its own ids, positions in `ids`."""
        owners = np.searchsorted(self.starts, ids, side="right") - 1
        present = np.unique(owners).tolist() or [0]
        positions = {owner: np.flatnonzero(owners == owner) for owner in present}
        return [(self.parts[o], ids[at] - self.starts[o], at) for o, at in positions.items()]


def _common_names(parts: Sequence[Source], names: Sequence[str]) -> Sequence[str] | None:
    """Return the names of features, after a check that all parts with names have the same ones."""
    named = [(part.feature_names, name) for part, name in zip(parts, names, strict=True)]
    known = [(features, name) for features, name in named if features is not None]
    if not known:
        return None
    expected, first = known[0]
    for features, name in known[1:]:
        for i, (wanted, found) in enumerate(zip(expected, features, strict=True)):
            if found != wanted:
                raise DataError(
                    f"Feature {i} of {name!r} must be {wanted!r} as in {first!r}, got {found!r}. "
                    "Bring the features of all files into the same order."
                )
    return expected


def _longest_chunk(part: Source) -> int:
    if part.chunk_starts is None:
        return 0
    return int(np.diff(part.chunk_starts, append=part.shape[0]).max())


def _runs(part: Source, longest: int) -> Ints:
    """Return where runs start, as long as the chunks of other parts: one buffer holds them all."""
    if part.chunk_starts is None:
        return np.arange(0, part.shape[0], longest)
    return runs(part.chunk_starts, part.shape[0], longest)
