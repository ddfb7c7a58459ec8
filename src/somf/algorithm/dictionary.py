"""The update of the atoms, and the replacement of unused ones."""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

from somf.algorithm.masks import Indicators, Subset
from somf.algorithm.state import State
from somf.distributed import ALONE, Communicator
from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Matrix

REQUEST_AHEAD = 8
"""Minibatches before an atom may be replaced at which its last use is requested from the device."""

NO_ATOMS = np.empty(0, dtype=np.intp)
"""The atoms to replace if there are none."""


class Dictionary:
    """Moves and replaces the atoms of a state.

    Parameters
    ----------
    state : State
    kernels : Kernels
    ball : AtomBall
    blocks : list of slice
        The blocks of rows whose norms are kept.
    communicator : Communicator
    atom_alpha : float
        ρ, see `Config`.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        ball: AtomBall,
        blocks: list[slice],
        communicator: Communicator = ALONE,
        atom_alpha: float = 0.0,
    ) -> None:
        self.state, self.kernels, self.ball, self.blocks = state, kernels, ball, blocks
        self.communicator, self.atom_alpha = communicator, atom_alpha
        self.indicators = Indicators(len(blocks), state.dtype, kernels)
        self._update_atoms = communicator.atom_update(kernels, ball)
        self._known_last_used = communicator.latest(to_host(state.last_used))
        self._first_due = 0
        self._whole_budget = kernels.zeros((len(state.C),), state.C) + 1
        self._pending_copy: Callable[[], Ints | None] | None = None

    def update(self, subset: Subset, C: Array) -> None:
        """Improve the atoms on the rows of a subset, within the budget that frozen rows leave.

        Parameters
        ----------
        subset : Subset
        C : ndarray of shape (k, k)
            That of all ranks.
        """
        norms = self.state.norms
        if len(subset.blocks) == len(self.blocks) and subset.is_whole_blocks:
            self._move(subset, C, self._whole_budget)
            return
        if subset.is_whole_blocks:
            frozen = self.indicators.without(subset.blocks) @ norms
        else:
            D_s, rows = subset.of_features(self.state.D)
            frozen = norms.sum(axis=0) - self.kernels.atom_norms(D_s, rows, self.ball)[0]
        budget = 1 - frozen
        budget[budget < 0] = 0  # of what rounding has left; `clip` would take three times as long
        self._move(subset, C, budget)

    def _move(self, subset: Subset, C: Array, budget: Array) -> None:
        """Improve the atoms on the rows of a subset, within a budget."""
        D_s, rows = subset.of_features(self.state.D)
        B_s, _ = subset.of_features(self.state.B)
        if len(self.state.n_known):  # the same for all features
            (n_known,) = self.communicator.sum(self.state.n_known[:1])
            C = 1.0 * C
            C.reshape(-1)[:: len(C) + 1] += 2.0 * self.atom_alpha * n_known[0]
        self._update_atoms(D_s, B_s, C, rows, budget)
        subset.write_back(self.state.D, D_s)

    def update_norms(self, blocks: Sequence[int], grams: Array | None) -> None:
        """Recompute the norms of atoms inside some blocks.

        Parameters
        ----------
        blocks : sequence of int
        grams : ndarray of shape (R, k, k), optional
            Gram matrices of the blocks, whose diagonals are the norms of the ℓ2 ball.
        """
        norms = self.state.norms
        if grams is not None and self.ball.l1_ratio == 0.0:
            norms[:] = grams.diagonal(0, 1, 2)  # all blocks at once is faster than some of them
            return
        runs = tuple(self.blocks[g] for g in blocks)
        found = self.kernels.atom_norms(self.state.D, runs, self.ball)
        for g, of_block in zip(blocks, found, strict=True):
            norms[g] = of_block

    def replace_unused(self, X: Matrix, objective: Array) -> Ints:
        """Replace unused atoms by the worst coded samples of a minibatch, those of all ranks.

        The patience with an atom doubles each time it is replaced. So a fit with more atoms than
        the data needs stops replacing atoms.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)
        objective : ndarray of shape (b,)
            The objective of every sample.

        Returns
        -------
        atoms : ndarray of int
            Those that were replaced.
        """
        state = self.state
        unused = self._find_unused(soon=REQUEST_AHEAD * len(objective))
        if unused.size == 0:
            return NO_ATOMS
        fresh = self.ball.normalise(self._worst_coded(X, to_host(objective), unused.size).T)
        fresh = fresh[:, fresh.any(axis=0)]
        atoms = unused[: fresh.shape[1]]
        if atoms.size == 0:
            return NO_ATOMS
        state.last_used[atoms] = state.n_samples_seen
        state.patience[atoms] *= 2
        state.D[:, atoms] = self.kernels.to_device(fresh[:, : atoms.size])
        self._forget(atoms)
        return atoms

    def _forget(self, atoms: Ints) -> None:
        """Forget the past of atoms that have been replaced."""
        state = self.state
        state.B[:, atoms] = 0
        state.C[atoms] = 0
        state.C[:, atoms] = 0
        state.n_users[atoms] = 0
        if state.memory is not None:
            state.memory.forget_atoms(atoms)
        state.n_averaged = 0

    def _worst_coded(self, X: Matrix, objective: Array, n_most: int) -> Array:
        """Return the samples with the largest objectives, of the parts of all ranks."""
        objectives = self.communicator.gather(objective)
        first = sum(len(part) for part in objectives[: self.communicator.rank])
        worst = np.argsort(-np.concatenate(objectives), kind="stable")[:n_most]
        is_own = (worst >= first) & (worst < first + len(objective))
        own = X[worst[is_own] - first]
        rows = np.zeros((len(worst), X.shape[1]), objective.dtype)
        rows[is_own] = own.toarray() if isinstance(own, sp.sparray) else to_host(own)
        return self.communicator.sum(rows)[0]

    def _find_unused(self, soon: int) -> Ints:
        """Return the atoms whose patience has run out.

        On a device, `last_used` is ahead of the copy of it on the host. A stale copy can only
        overestimate how long an atom has been idle. So the host waits for the device only if an
        atom seems to have been idle for too long; a little before, it requests a copy without
        waiting. With several ranks, each knows its own samples only; they tell each other when an
        atom seems to have been idle for too long, and not earlier.

        Parameters
        ----------
        soon : int
            How many samples before.
        """
        state = self.state
        if state.n_samples_seen < self._first_due:
            return NO_ATOMS
        copied = None if self._pending_copy is None else self._pending_copy()
        if copied is not None:
            self._known_last_used = np.maximum(self._known_last_used, copied)
            self._pending_copy = None

        least_patience = self._patience_left().min()
        if least_patience <= 0:
            self._known_last_used = self.communicator.latest(to_host(state.last_used))
            return np.flatnonzero(self._patience_left() <= 0)
        if self._pending_copy is None and least_patience <= soon and self.communicator.size == 1:
            self._pending_copy = self.kernels.copy_async(state.last_used)
        # Until then no patience can run out: the last use of an atom only moves forwards.
        self._first_due = state.n_samples_seen + least_patience - soon
        return NO_ATOMS

    def _patience_left(self) -> Ints:
        state = self.state
        left: Ints = state.patience - (state.n_samples_seen - self._known_last_used)
        return left
