"""B and C: all that the dictionary update knows of the past.

The surrogate of the objective is ½ tr(DᵀD C) − tr(DᵀB). Multiplying both matrices by one number
changes nothing, so sums serve as well as averages.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from somf.algorithm.forgetting import Forgetting
from somf.algorithm.state import State
from somf.distributed import Communicator
from somf.kernels import Kernels
from somf.kernels.observed import Batch, count_known, values_of
from somf.typing import Array, Slices


class Coded(NamedTuple):
    """What samples of a minibatch add to B and C.

    Attributes
    ----------
    code : ndarray of shape (m, k)
    weight : ndarray of shape (m,)
        How much each sample counts.
    counts_once : bool
        Whether all weights are 1.
    """

    code: Array
    weight: Array
    counts_once: bool = False

    @property
    def share(self) -> Array:
        """The codes times the weights: the codes themselves if all weights are 1."""
        return self.code if self.counts_once else self.code * self.weight[:, None]


RowUpdate = Callable[[Slices], None]
"""A change of some rows of B."""


class Surrogate(Protocol):
    """A rule for B and C.

    Attributes
    ----------
    needs_old_codes : bool
        Whether it subtracts the previous contribution of a sample.
    """

    needs_old_codes: bool

    def add(
        self,
        X: Batch,
        new: Coded,
        old: Coded | None,
        b: int,
    ) -> RowUpdate:
        """Add a minibatch to C.

        Parameters
        ----------
        X : ndarray, csc_array or Observed of shape (m, p)
            Its samples on this rank.
        new : Coded
        old : Coded
            At the previous visit, zero if there was none; None unless `needs_old_codes`.
        b : int
            Its samples on all ranks.

        Returns
        -------
        add_to_B : callable
            Adds it to the rows of B that it is given. It must be called for every row once.
        """
        ...

    def total(self) -> Array:
        """Return C of all ranks together; B is summed where the dictionary needs it."""
        ...


class OnlineSurrogate:
    """The paper's: an average over the stream in which old codes fade with weights w.

    Parameters
    ----------
    state : State
    kernels : Kernels
    communicator : Communicator
    forgetting : Forgetting
    """

    needs_old_codes = False

    def __init__(
        self, state: State, kernels: Kernels, communicator: Communicator, forgetting: Forgetting
    ) -> None:
        self.state, self.kernels, self.communicator = state, kernels, communicator
        self.forgetting = forgetting

    def add(
        self,
        X: Batch,
        new: Coded,
        old: Coded | None,  # noqa: ARG002 (protocol)
        b: int,
    ) -> RowUpdate:
        """Do B ← (1−w) B + w/b Xᵀα and likewise C."""
        w = self.forgetting.weight(self.state.n_samples_seen, b)
        share, values = new.share * (w / b), values_of(X)
        self.kernels.accumulate(self.state.C, new.code, share, 1.0 - w)
        if len(self.state.n_known):
            count_known(self.kernels, self.state.n_known, X, new.weight * (w / b), 1.0 - w)
        return lambda rows: self.kernels.accumulate(self.state.B, values, share, 1.0 - w, rows)

    def total(self) -> Array:
        """Return C of all ranks together."""
        return self.communicator.sum(self.state.C, n_symmetric=1)[0]


class SumSurrogate:
    """The sum over the samples of a pass, during which atoms stay as they are.

    Parameters
    ----------
    state : State
    kernels : Kernels
    communicator : Communicator
    """

    needs_old_codes = False

    def __init__(self, state: State, kernels: Kernels, communicator: Communicator) -> None:
        self.state, self.kernels, self.communicator = state, kernels, communicator

    def add(
        self,
        X: Batch,
        new: Coded,
        old: Coded | None,  # noqa: ARG002 (protocol)
        b: int,  # noqa: ARG002 (protocol)
    ) -> RowUpdate:
        """Do B += Xᵀα, C += αᵀα."""
        share, values = new.share, values_of(X)
        self.kernels.accumulate(self.state.C, new.code, share, 1.0)
        if len(self.state.n_known):
            count_known(self.kernels, self.state.n_known, X, new.weight, 1.0)
        return lambda rows: self.kernels.accumulate(self.state.B, values, share, 1.0, rows)

    def total(self) -> Array:
        """Return C of all ranks together."""
        return self.communicator.sum(self.state.C, n_symmetric=1)[0]


class IncrementalSurrogate:
    """Exactly one contribution per sample, that of its latest code, in plain sums.

    Parameters
    ----------
    state : State
    kernels : Kernels
    communicator : Communicator
    """

    needs_old_codes = True

    def __init__(self, state: State, kernels: Kernels, communicator: Communicator) -> None:
        self.state, self.kernels, self.communicator = state, kernels, communicator
        self._change, self._n_left = state.C[:0], 0 * state.n_users

    def add(
        self,
        X: Batch,
        new: Coded,
        old: Coded | None,
        b: int,  # noqa: ARG002 (protocol)
    ) -> RowUpdate:
        """Do B += Xᵀ(α − α_old), C += ααᵀ − α_oldα_oldᵀ."""
        assert old is not None
        B, C, n_users = self.state.B, self.state.C, self.state.n_users
        share, old_share, values = new.share, old.share, values_of(X)
        change = self._change = share - old_share
        self.kernels.accumulate(C, new.code, share, 1.0)
        self.kernels.accumulate(C, old.code, -old_share, 1.0)
        self._n_left = (old.code != 0).sum(axis=0)
        n_users += (new.code != 0).sum(axis=0) - self._n_left
        if len(self.state.n_known):
            count_known(self.kernels, self.state.n_known, X, new.weight - old.weight, 1.0)
        return lambda rows: self.kernels.accumulate(B, values, change, 1.0, rows)

    def total(self) -> Array:
        """Return C of all ranks together, without atoms that no sample uses any more."""
        state = self.state
        total, n_users, n_left = self.communicator.sum(
            state.C, state.n_users, self._n_left, n_symmetric=1
        )
        # Such an atom has nothing but rounding errors in B and C.
        self._clear((n_users == 0) & (n_left > 0), total)
        return total

    def _clear(self, atoms: Array, total: Array) -> None:
        """Forget atoms, also in the sum over ranks."""
        B, C = self.state.B, self.state.C
        self.kernels.clear_atoms(B, C, atoms)
        self._change *= ~atoms  # some rows of B may not have got it yet
        if total is not C:
            self.kernels.clear_atoms(B[:0], total, atoms)
