"""Whether atoms drift or jitter: how much of the past is worth remembering.

The surrogate is an average over the last N samples, roughly. It has two faults. Its codes are those
of atoms of some time ago, so that atoms lag behind where they should be: they *drift*. And it has
seen N samples only, so that atoms follow their noise: they *jitter*. The way atoms move tells
the two apart. A drift goes on in the same direction. A jitter turns back, since an average forgets
the noise that it has followed.

So the moves of atoms over two windows of N samples are compared, one after the other. The cosine
between the two says whether N should grow or fall. For an average of independent numbers it is
−½ (1 − 1/e) = −0.32, and for a drift without noise it is 1. This costs next to nothing, since some
rows of the atoms are enough.
"""

import logging
import math

import numpy as np

from somf.algorithm.forgetting import Adaptive
from somf.algorithm.state import State
from somf.distributed import Communicator
from somf.kernels.host import to_host
from somf.typing import Array, Ints

logger = logging.getLogger("somf")

ENTRIES = 2**14
"""Entries of the atoms that are compared, at most."""

JITTER = -0.14
"""The cosine at which N is right, where it is the larger of two (`cosine_of_moves`). The mean over
atoms was between −0.1 and −0.25 with the best weights, on most data (see docs/defaults.md)."""

RISE = 0.7
"""An N that is right grows like the number of samples seen to this power."""

GAIN = 1.5
"""By how much ln N changes over a window, for a cosine that differs by one from the right one."""

EARLY_GAIN = 5.0
"""What is added to it where a window is a single minibatch; it fades with the square of their
number. There are few of these windows, while N is still a guess."""

MOST_FALL = math.log(2.0)
"""By how much ln N falls over a window, at most."""

ABRUPT = 4.0
"""If half of the atoms have moved so many times as far as before, samples of another kind have come
to a stream."""

ROUNDING = 100.0
"""An atom that has moved by so many machine epsilons, relative to its length, has rested."""

LOOKS = 4
"""How often a stream is examined for such a change in a window, roughly."""


class Drift:
    """Compares the moves of atoms whenever the samples of the surrogate have been replaced.

    Parameters
    ----------
    state : State
        Has N, how it grows, and the last move of the atoms.
    forgetting : Adaptive
    communicator : Communicator
    """

    def __init__(self, state: State, forgetting: Adaptive, communicator: Communicator) -> None:
        self.state, self.forgetting, self.communicator = state, forgetting, communicator
        self.rows = followed_rows(*state.D.shape)

    def follow(self, batch_size: int, reduction: float) -> None:
        """Compare the latest two moves and let N grow accordingly, if a window is over.

        Parameters
        ----------
        batch_size : int
            The samples of the latest minibatch, on all ranks.
        reduction : float
            So many minibatches move all rows of the atoms once.
        """
        state = self.state
        if not state.window_start:
            self._begin_window(self._rows())
            return
        length = state.n_samples_seen - state.window_start
        is_over = length >= max(state.n_remembered, math.ceil(reduction) * batch_size)
        if not is_over and not self._is_look(batch_size):
            return
        rows = self._rows()
        move = moves(state.rows_before, rows)
        if state.last_move.size:
            if self._is_stream and self._has_changed(move, rows):
                self.forgetting.forget_most()
                state.forget_moves()
                self._begin_window(rows)
                return
            if is_over:
                cosine = self._agreed(cosine_of_moves(state.last_move, move))
                self._set_growth(cosine, length, batch_size)
        if is_over:
            state.last_move = move
            self._begin_window(rows)

    def restart(self, atoms: Ints) -> None:
        """Begin again with atoms that have been replaced: their jump is no drift.

        Parameters
        ----------
        atoms : ndarray of int
        """
        state = self.state
        if state.window_start:
            state.rows_before[:, atoms] = self._rows()[:, atoms]
        if state.last_move.size:
            state.last_move[:, atoms] = np.nan

    def end(
        self, objective: Array, penalty: Array, known: Array, batch_size: int, reduction: float
    ) -> None:
        """Follow atoms no longer, and let the surrogate remember few samples, for its noise.

        Parameters
        ----------
        objective, penalty : array of shape (m,)
            Of the samples of this rank in the latest minibatch; the penalty is part of the
            objective.
        known : array of shape (m,)
            The sum of the weights of their entries: how many are known, if these have no weights.
        batch_size, reduction
            As in `follow`.
        """
        state, sums = self.state, (float(part.sum()) for part in (objective, penalty, known))
        total, penalties, n_known = self.communicator.total(*sums)
        residual_share = 1 - penalties / total if 0 < total < math.inf else 1.0
        known_share = n_known / (batch_size * len(state.D))
        before = state.n_remembered
        self.forgetting.begin_noise(residual_share, known_share, math.ceil(reduction) * batch_size)
        state.forget_moves()
        if state.n_remembered < before:
            logger.info(
                "for some time %.0f samples are remembered: noise moves atoms fast, and is "
                "averaged out before the passes",
                state.n_remembered,
            )

    @property
    def _is_stream(self) -> bool:
        """Whether samples of another kind may come: those of an epoch come in random order."""
        return math.isinf(self.forgetting.most)

    def _has_changed(self, move: Array, rows: Array) -> bool:
        """Return whether samples of another kind have come to the stream."""
        return self._agreed(lengthening(self.state.last_move, move, resolution(rows))) > ABRUPT

    def _agreed(self, found: float) -> float:
        """Return the mean over all ranks, which have found the same, up to rounding."""
        return self.communicator.total(found)[0] / self.communicator.size

    def _begin_window(self, rows: Array) -> None:
        self.state.window_start, self.state.rows_before = self.state.n_samples_seen, rows

    def _is_look(self, batch_size: int) -> bool:
        """Return whether to look for an abrupt change: at multiples of a share of N."""
        if not self._is_stream:
            return False
        every = 1 << int(math.log2(max(self.state.n_remembered / LOOKS, 1.0)))
        n_seen = self.state.n_samples_seen
        return n_seen // every > (n_seen - batch_size) // every

    def _rows(self) -> Array:
        D = self.state.D
        return np.array(to_host(D if len(self.rows) == len(D) else D[self.rows]))

    def _set_growth(self, cosine: float, length: int, batch_size: int) -> None:
        """Let ln N change, over a window as long as the last one, by what the cosine asks for."""
        if math.isnan(cosine):  # the atoms rest
            return
        span = math.log1p(length / self.state.n_samples_seen)
        gain = GAIN + EARLY_GAIN * min(1.0, batch_size / max(self.state.n_remembered, 1.0)) ** 2
        change = RISE * span + gain * (JITTER - cosine)
        self.state.growth = max(change, -MOST_FALL) / span


def followed_rows(n_features: int, n_components: int) -> Ints:
    """Return the rows of the atoms that are compared, evenly spaced."""
    n_rows = min(n_features, max(1, ENTRIES // n_components))
    return np.linspace(0, n_features - 1, n_rows).astype(np.int64)


def moves(before: Array, after: Array) -> Array:
    """Return how atoms have moved: not at all, if only rounding has changed them.

    An atom that no sample uses any more is computed again from what is left of it in B and C.

    Parameters
    ----------
    before, after : ndarray of shape (m, k)
        Some rows of the atoms.

    Returns
    -------
    move : ndarray of shape (m, k)
    """
    move = after - before
    move[:, _lengths(move) <= resolution(after)] = 0
    return move


def resolution(rows: Array) -> Array:
    """Return the length of a move that rounding alone may make, for each atom.

    Parameters
    ----------
    rows : ndarray of shape (m, k)
        Some rows of the atoms.

    Returns
    -------
    length : ndarray of shape (k,)
        More than zero.
    """
    limits = np.finfo(rows.dtype)
    least: Array = np.maximum(ROUNDING * limits.eps * _lengths(rows), limits.tiny)
    return least


def cosine_of_moves(before: Array, after: Array) -> float:
    """Return the cosine between two moves of the atoms.

    The mean over atoms knows what most of them do, however far they go. But a few that have not
    found their place, and go far in one direction while all others jitter, hardly count in it. They
    do where all atoms together are one vector. The larger of both cosines is the one that counts.

    Parameters
    ----------
    before, after : ndarray of shape (m, k)
        How some rows of the atoms have changed, twice; NaN for an atom that has been replaced.

    Returns
    -------
    cosine : float
        Of the atoms that have moved both times; NaN if there are none.
    """
    lengths = _lengths(before), _lengths(after)
    has_moved = (lengths[0] > 0) & (lengths[1] > 0)
    if not has_moved.any():
        return math.nan
    first, second = (of_atoms[has_moved] for of_atoms in lengths)
    products = np.einsum("ij,ij->j", before, after)[has_moved]
    of_most = (products / (first * second)).mean()
    of_all = products.sum() / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(max(of_most, of_all))


def lengthening(before: Array, after: Array, least: Array) -> float:
    """Return how many times as far as the first time atoms have moved the second time.

    Parameters
    ----------
    before, after : ndarray of shape (m, k)
        As in `cosine_of_moves`.
    least : ndarray of shape (k,)
        The length with which a move after a rest is compared.

    Returns
    -------
    ratio : float
        The median over the atoms that had moved. If none had, that over the atoms that had rested
        and move now; 0 if there are none.
    """
    first, second = _lengths(before), _lengths(after)
    has_moved = first > 0
    if not has_moved.any():
        has_moved, first = (first == 0) & (second > 0), least
    return float(np.median(second[has_moved] / first[has_moved])) if has_moved.any() else 0.0


def _lengths(move: Array) -> Array:
    """Return the lengths of the columns."""
    lengths: Array = np.sqrt(np.einsum("ij,ij->j", move, move))
    return lengths
