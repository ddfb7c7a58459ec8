"""What is remembered of every sample between two visits."""

from dataclasses import dataclass, field

import numpy as np

from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.typing import Array, Ints

STORED = ("beta", "sq_norm", "gram", "code", "weight")
"""Arrays of `SampleMemory` that are on the device, if it has room for them."""

PER_SAMPLE = ("n_visits", *STORED)
"""Arrays of `SampleMemory` with one row per slot."""


@dataclass
class SampleMemory:
    """What is remembered of every sample between two visits.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        The caller's name of the sample in each slot.
    n_visits : ndarray of shape (n,)
    beta : ndarray of shape (n, k)
        Averaged β; (n, 0) where nothing is averaged.
    sq_norm : ndarray of shape (n,)
        Averaged ‖x‖².
    gram : ndarray of shape (n, R) or (n, k²)
        Averaged statistics of the sample's Gram matrix (see `regression`); (n, 0) likewise.
    code : ndarray of shape (n, k)
        The last code.
    weight : ndarray of shape (n,)
        How much the sample counted at its last visit; zero if there was none. Older versions had no
        such weights.
    n_elsewhere : int
        How many samples other ranks remember.
    """

    ids: Ints
    n_visits: Ints
    beta: Array
    sq_norm: Array
    gram: Array
    code: Array
    n_elsewhere: int = 0
    weight: Array = field(default_factory=lambda: np.empty(0))
    _slots: dict[int, int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.weight) < len(self.code):
            self.weight = np.ones(len(self.code), to_host(self.code[:0]).dtype)

    @classmethod
    def blank(
        cls, ids: Ints, gram_size: int, kernels: Kernels, C: Array, n_elsewhere: int = 0
    ) -> "SampleMemory":
        """Return the memory of samples that have never been seen.

        Parameters
        ----------
        ids : ndarray of shape (n,)
        gram_size : int
            Numbers that a sample remembers of its Gram matrix; 0 if nothing is averaged.
        kernels : Kernels
        C : array of shape (k, k)
            Has the floating type and the number of atoms.
        n_elsewhere : int
        """
        n, k = len(ids), len(C)

        def zeros(*shape: int) -> Array:
            return kernels.store_zeros((n, *shape), C)

        return cls(
            ids=ids,
            n_visits=np.zeros(n, dtype=np.int64),
            beta=zeros(k if gram_size else 0),
            sq_norm=zeros(),
            gram=zeros(gram_size),
            code=zeros(k),
            weight=zeros(),
            n_elsewhere=n_elsewhere,
        )

    @property
    def n_samples(self) -> int:
        """How many samples all ranks remember."""
        return len(self.ids) + self.n_elsewhere

    def slots(self, ids: Ints, kernels: Kernels) -> Ints:
        """Return the slots of the given samples, with new ones for samples not known yet."""
        if self._slots is None:
            self._slots = {int(i): slot for slot, i in enumerate(self.ids)}
        unknown = [i for i in ids.tolist() if i not in self._slots]
        if unknown:
            n = len(self.ids)
            self._reserve(n + len(unknown), kernels)
            self._slots.update({i: n + slot for slot, i in enumerate(unknown)})
            self.ids = np.concatenate([self.ids, np.array(unknown, dtype=np.int64)])
        return np.array([self._slots[i] for i in ids.tolist()], dtype=np.int64)

    def _reserve(self, n: int, kernels: Kernels) -> None:
        """Make the arrays large enough for n samples, and double them, so that growing is cheap."""
        if n <= len(self.code):
            return
        for name in PER_SAMPLE:
            old = getattr(self, name)
            shape = (max(n, 2 * len(old)), *old.shape[1:])
            is_host = isinstance(old, np.ndarray) and name == "n_visits"
            grown = np.zeros(shape, old.dtype) if is_host else kernels.store_zeros(shape, old)
            grown[: len(old)] = to_host(old) if isinstance(grown, np.ndarray) else old
            setattr(self, name, grown)

    def without_samples(self) -> "SampleMemory":
        """Return a memory of the same kind that remembers no samples."""
        arrays = {name: getattr(self, name)[:0] for name in PER_SAMPLE}
        return SampleMemory(self.ids[:0], **arrays)

    def arrays(self) -> dict[str, Array]:
        """Return all arrays of the host by name, without the slots reserved for later samples."""
        n = len(self.ids)
        return {"ids": self.ids} | {name: to_host(getattr(self, name)[:n]) for name in PER_SAMPLE}

    def forget_atoms(self, atoms: Ints) -> None:
        """Forget everything about atoms that have been replaced.

        An average of β that mixes an old and a new atom serves neither of them. So every average
        starts again at the next visit of its sample.
        """
        self.code[:, atoms] = 0
        self.n_visits[:] = 0
