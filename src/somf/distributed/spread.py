"""The update of the atoms with their rows spread over ranks.

Every rank sends each other rank its share of some rows of B, adds up the rows that are its own,
updates these rows of D, and sends them to all. In the ℓ2 ball the ranks need to know nothing else
of each other than one small Gram matrix per block of atoms. In all other balls the projection of an
atom couples all rows, one atom after the other. There every rank gets all rows of B, which are as
many numbers, and updates all rows of D. So it does where features have matrices C of their own.
"""

from itertools import pairwise
from typing import Any

from somf.distributed.transfer import transfer_for
from somf.kernels import Kernels
from somf.penalties import AtomBall
from somf.typing import Array, Slices

NUMBERS_AT_ONCE = 2**22
"""Numbers of matrices of features that are summed at the same time: a message needs copies."""


class SpreadUpdate:
    """Updates atoms together with the other ranks; see `Communicator.atom_update`.

    Parameters
    ----------
    group : ProcessGroup
    kernels : Kernels
    ball : AtomBall
    """

    def __init__(self, group: Any, kernels: Kernels, ball: AtomBall) -> None:
        self.group, self.kernels, self.ball = group, kernels, ball
        self.transfer = transfer_for(group, kernels)
        self.is_spread = ball.l1_ratio == 0.0 and not ball.positive

    def __call__(self, D: Array, B: Array, C: Array, rows: Slices, budget: Array) -> None:
        """Update the rows of D.

        Parameters
        ----------
        D : array of shape (p, k), overwritten
        B : array of shape (p, k)
            The share of this rank.
        C : array of shape (k, k)
            The sum over all ranks.
        rows : tuple of slices
        budget : array of shape (k,)
        """
        q, size, (_, k) = sum(s.stop - s.start for s in rows), self.group.size, B.shape
        m, pack, transfer = -(-q // size), self.kernels.pack_rows, self.transfer
        edges = [min(rank * m, q) for rank in range(size + 1)]
        shares = [some_of(rows, first, last - first) for first, last in pairwise(edges)]
        counts = [last - first for first, last in pairwise(edges)]

        for part, share, count in zip(
            transfer.room_for_each((m, k), B), shares, counts, strict=True
        ):
            pack(B, share, part[:count])
        B_own = self.kernels.sum_parts(transfer.exchange())
        if not self.is_spread:
            B_s = transfer.share(B_own).reshape(size * m, k)[:q]
            D_s = self.kernels.zeros((q, k), D)
            pack(D, rows, D_s)
            self.kernels.update_atoms(D_s, B_s, C, (slice(0, q),), budget, self.ball)
        else:
            D_own, total = self.kernels.zeros((m, k), D), self.group.add_up_symmetric
            n_own = counts[self.group.rank]
            pack(D, shares[self.group.rank], D_own[:n_own])
            self.kernels.update_part(D_own[:n_own], B_own[:n_own], C, budget, total)
            D_s = transfer.share(D_own).reshape(size * m, k)
        self.kernels.unpack_rows(D_s, D, rows)


class UpdateByFeature:
    """Updates atoms where features have matrices C of their own, all rows on every rank.

    Parameters
    ----------
    group : ProcessGroup
    kernels : Kernels
    ball : AtomBall
    """

    def __init__(self, group: Any, kernels: Kernels, ball: AtomBall) -> None:
        self.group, self.kernels, self.ball = group, kernels, ball

    def __call__(
        self,
        D: Array,
        B: Array,
        C: Array,
        E: Array,
        ridge: Array | None,
        rows: Slices,
        budget: Array,
    ) -> None:
        """Update the rows of D.

        Parameters
        ----------
        D : array of shape (p, k), overwritten
        B : array of shape (p, k)
            The share of this rank.
        C : array of shape (k, k)
            The sum over all ranks.
        E : array of shape (p, k (k + 1) / 2)
            The share of this rank.
        ridge : array of shape (p,), or None
            The share of this rank.
        rows : tuple of slices
        budget : array of shape (k,)
        """
        ridge_s = None if ridge is None else self._total(ridge[:, None], rows)[:, 0]
        B_s, E_s, D_s = self._total(B, rows), self._total(E, rows), self._packed(D, rows)
        everything = (slice(0, len(D_s)),)
        self.kernels.update_atoms_by_feature(
            D_s, B_s, C, E_s, ridge_s, everything, budget, self.ball
        )
        self.kernels.unpack_rows(D_s, D, rows)

    def _total(self, A: Array, rows: Slices) -> Array:
        """Return some rows of a matrix, summed over ranks, a part of them at a time."""
        packed = self._packed(A, rows)
        step = max(1, NUMBERS_AT_ONCE // A.shape[1])
        for start in range(0, len(packed), step):
            packed[start : start + step] = self.group.add_up(packed[start : start + step])
        return packed

    def _packed(self, A: Array, rows: Slices) -> Array:
        packed = self.kernels.zeros((sum(s.stop - s.start for s in rows), A.shape[1]), A)
        self.kernels.pack_rows(A, rows, packed)
        return packed


def some_of(rows: Slices, first: int, count: int) -> Slices:
    """Return `count` of some rows, from the `first` of them on."""
    found, before = [], 0
    for s in rows:
        start, stop = max(first - before, 0), min(first + count - before, s.stop - s.start)
        if start < stop:
            found.append(slice(s.start + start, s.start + stop))
        before += s.stop - s.start
    return tuple(found)
