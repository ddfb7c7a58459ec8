"""The samples of a fit, and which of them this rank has."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from somf.data import Loader
from somf.distributed.dealing import edges_of, parts
from somf.randomness import generator
from somf.typing import Ints


@dataclass(frozen=True)
class Rows:
    """The rows of the data of all ranks, of which every rank has a run.

    Attributes
    ----------
    rank : int
    edges : ndarray of shape (size + 1,)
        Rank w has the rows from ``edges[w]`` to ``edges[w + 1]``.
    has_own_source : bool
        Whether the source of this rank holds nothing but its own rows, rather than those of all.
    """

    rank: int
    edges: Ints
    has_own_source: bool = False

    @classmethod
    def alone(cls, n_rows: int) -> "Rows":
        """Return the rows of a single process."""
        return cls(0, edges_of(n_rows, 1))

    @property
    def n(self) -> int:
        """How many rows all ranks have."""
        return int(self.edges[-1])

    @property
    def first(self) -> int:
        """The first row of this rank."""
        return int(self.edges[self.rank])

    @property
    def origin(self) -> int:
        """The row that is row 0 of the source of this rank."""
        return self.first if self.has_own_source else 0

    @property
    def own(self) -> Ints:
        """The rows of this rank."""
        return np.arange(self.first, self.edges[self.rank + 1])

    def among(self, ids: Ints) -> "Samples":
        """Return some samples of all ranks, given by their rows in increasing order."""
        return Samples(self, _within(ids, self, self.rank), self._counts(ids))

    def _counts(self, ids: Ints) -> Ints:
        return np.diff(np.searchsorted(ids, self.edges))


@dataclass(frozen=True)
class Samples:
    """The samples that an epoch visits.

    Attributes
    ----------
    rows : Rows
    ids : ndarray of int
        Those of this rank, as rows of its source, in increasing order.
    counts : ndarray of shape (size,)
        How many each rank has.
    """

    rows: Rows
    ids: Ints
    counts: Ints

    @classmethod
    def alone(cls, n_rows: int) -> "Samples":
        """Return all samples of a single process."""
        return Rows.alone(n_rows).among(np.arange(n_rows))

    @property
    def n(self) -> int:
        """How many all ranks have."""
        return int(self.counts.sum())

    def order(self, loader: Loader, seed: int, epoch: int) -> Ints:
        """Return the samples of this rank in the random order of an epoch."""
        return _order(loader, self.rows, self.rows.rank, self.ids, seed, epoch)

    def before(self, positions: Sequence[int] | Ints) -> Ints:
        """Return how many samples of this rank an epoch visits before some positions."""
        return parts(self.counts, self.rows.rank, np.asarray(positions))

    def first(self, n_samples: int) -> Ints:
        """Return how many samples of each rank are among the first ones of an epoch."""
        ends = np.array([min(n_samples, self.n)])
        return np.concatenate([parts(self.counts, rank, ends) for rank in range(len(self.counts))])

    def slots(self, ids: Ints) -> Ints:
        """Return the slots of samples of this rank in its memory."""
        shift = self.rows.origin - self.rows.first
        return ids + shift if shift else ids  # the same array, which a device may have already

    def generator(self, seed: int, purpose: str) -> np.random.Generator:
        """Return the random numbers of this rank for some purpose."""
        return generator(seed, purpose, *own_stream(self.rows.rank))


def own_stream(rank: int) -> tuple[int, ...]:
    """Return what is added to the position of random numbers, so that ranks have their own."""
    return (rank,) if rank else ()


def _within(ids: Ints, rows: Rows, rank: int) -> Ints:
    """Return those of some rows that are a rank's, as rows of the source of this rank."""
    if len(rows.edges) == 2:
        return ids
    a, b = np.searchsorted(ids, rows.edges[rank : rank + 2])
    return ids[a:b] - rows.origin if rows.origin else ids[a:b]


def _order(loader: Loader, rows: Rows, rank: int, ids: Ints, seed: int, epoch: int) -> Ints:
    if len(rows.edges) == 2:
        return loader.order(ids, seed, epoch)
    a, b = (rows.edges[rank : rank + 2] - rows.origin).tolist()
    return loader.order(ids, seed, epoch, rank, slice(a, b))


def unvisited(
    loader: Loader, ids: Ints, seed: int, epoch: int, shifts: Sequence[tuple[int, Ints]]
) -> Ints:
    """Return the samples that an epoch has not visited yet, if the number of ranks has changed.

    Parameters
    ----------
    loader : Loader
        Of the rows of all ranks.
    ids : ndarray of int
        The samples of the epoch, of all ranks.
    seed, epoch : int
    shifts : sequence of (int, ndarray)
        How far each division of the rows has come, as a position in the epoch, and its edges.
    """
    begin = 0
    for end, edges in shifts:
        before = Rows(0, edges)
        counts = before._counts(ids)
        visited = []
        for rank in range(len(counts)):
            n = parts(counts, rank, np.array([end - begin]))[0]
            own = _within(ids, before, rank)
            visited.append(_order(loader, before, rank, own, seed, epoch)[:n])
        ids = np.setdiff1d(ids, np.concatenate(visited), assume_unique=True)
        begin = end
    return ids
