"""Everything that changes while fitting."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.scratch import scratch_zeros
from somf.typing import Array, Ints

STORED = ("beta", "sq_norm", "gram", "code")
PER_SAMPLE = ("n_visits", *STORED)
ON_DEVICE = ("D", "B", "C", "norms", "grams", "aged_grams", "last_used", "n_users")
INTEGERS = {"permutation", "last_used", "patience", "n_users", "ids", "n_visits"}

ENTRIES_AT_ONCE = 2**22
"""Entries of an array that are looked at at once when a state is checked."""


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
        Averaged statistics of which the sample's Gram matrix is made; (n, 0) likewise.
    code : ndarray of shape (n, k)
        The last code.
    """

    ids: Ints
    n_visits: Ints
    beta: Array
    sq_norm: Array
    gram: Array
    code: Array
    _slots: dict[int, int] | None = field(default=None, repr=False)

    @classmethod
    def blank(
        cls, ids: Ints, n_components: int, gram_size: int, zeros: Callable[..., Array]
    ) -> "SampleMemory":
        """Return the memory of samples that have never been seen.

        Parameters
        ----------
        ids : ndarray of shape (n,)
        n_components : int
        gram_size : int
            0 if nothing is averaged.
        zeros : callable
            ``zeros(*shape)`` returns the zeros of n samples.
        """
        return cls(
            ids=ids,
            n_visits=np.zeros(len(ids), dtype=np.int64),
            beta=zeros(n_components if gram_size else 0),
            sq_norm=zeros(),
            gram=zeros(gram_size),
            code=zeros(n_components),
        )

    def slots(self, ids: Ints) -> Ints:
        """Return the slots of the given samples, with new ones for samples not known yet."""
        if self._slots is None:
            self._slots = {int(i): slot for slot, i in enumerate(self.ids)}
        unknown = [i for i in ids.tolist() if i not in self._slots]
        if unknown:
            n = len(self.ids)
            self._slots.update({i: n + slot for slot, i in enumerate(unknown)})
            self.ids = np.concatenate([self.ids, np.array(unknown, dtype=np.int64)])
            self._reserve(len(self.ids))
        return np.array([self._slots[i] for i in ids.tolist()], dtype=np.int64)

    def _reserve(self, n: int) -> None:
        """Make room for n samples, and at once for more, so that a stream copies little."""
        if n <= len(self.code):
            return
        for name in PER_SAMPLE:
            old = getattr(self, name)
            grown = scratch_zeros((max(n, 2 * len(old)), *old.shape[1:]), old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by name, without the room for samples still to come."""
        n = len(self.ids)
        return {"ids": self.ids} | {name: to_host(getattr(self, name)[:n]) for name in PER_SAMPLE}

    def forget_atoms(self, atoms: Ints) -> None:
        """Forget all that refers to atoms that have been replaced.

        An average of β that mixes an old and a new atom would be of use for neither of them, so
        every average starts again at the next visit of its sample.
        """
        self.code[:, atoms] = 0
        self.n_visits[:] = 0


@dataclass
class State:
    """The state of a fit; rows of D and B are in the order of `permutation`.

    Attributes
    ----------
    seed : int
    n_iter : int
    n_samples_seen : int
    n_averaged : int
        Visits of remembered samples since their averages began.
    n_halvings : int
        How often the reduction has been halved.
    permutation : ndarray of shape (p,) or None
        The feature at each row; None is the order of the data.
    D : ndarray of shape (p, k)
        The dictionary.
    B : ndarray of shape (p, k)
    C : ndarray of shape (k, k)
        The surrogate: averages, or sums, of xαᵀ and ααᵀ.
    norms : ndarray of shape (R, k)
        ‖d‖ of every atom inside each block of rows.
    grams : ndarray of shape (R, k, k)
        DᵀD inside each block of rows (with Bernoulli masks: of all rows).
    aged_grams : ndarray of shape (R, k, k)
        The same, as old as the averages of the samples are.
    last_used : ndarray of shape (k,)
        How many samples had been seen when the atom was last used.
    patience : ndarray of shape (k,)
        How many samples in a row may leave the atom unused before it is replaced.
    n_users : ndarray of shape (k,)
        How many remembered codes use the atom (kept by the incremental surrogate).
    memory : SampleMemory or None
    """

    seed: int
    n_iter: int
    n_samples_seen: int
    n_averaged: int
    n_halvings: int
    permutation: Ints | None
    D: Array
    B: Array
    C: Array
    norms: Array
    grams: Array
    aged_grams: Array
    last_used: Ints
    patience: Ints
    n_users: Ints
    memory: SampleMemory | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating type, in the words of NumPy."""
        return to_host(self.D[:0]).dtype

    @property
    def components(self) -> Array:
        """The atoms as rows, features in the order of the data: a new (k, p) array."""
        if self.permutation is None:
            return np.array(to_host(self.D.T), order="C")
        place = np.empty_like(self.permutation)
        place[self.permutation] = np.arange(len(place))
        return np.ascontiguousarray(to_host(self.D[place].T))

    def on_device(self, kernels: Kernels) -> "State":
        """Return the state with its arrays on a device, those of samples if there is room."""
        arrays = {name: kernels.to_device(getattr(self, name)) for name in ON_DEVICE}
        return replace(self, memory=self._memory_in(kernels.to_store), **arrays)  # type: ignore[arg-type] # names of arrays

    def on_host(self) -> "State":
        """Return the state with its arrays in the memory of the host."""
        arrays = {name: to_host(getattr(self, name)) for name in ON_DEVICE}
        return replace(self, memory=self._memory_in(to_host), **arrays)  # type: ignore[arg-type] # names of arrays

    def _memory_in(self, place: Callable[[Array], Array]) -> SampleMemory | None:
        if self.memory is None:
            return None
        arrays = {name: place(getattr(self.memory, name)) for name in STORED}
        return replace(self.memory, **arrays)  # type: ignore[arg-type] # names of arrays

    def forget_blocks(self, keeps_codes: bool) -> None:
        """Make one block of all, and forget what codes from parts of the features were made of.

        Parameters
        ----------
        keeps_codes : bool
            Whether the codes of samples are still needed.
        """
        for name in ("norms", "grams", "aged_grams"):
            setattr(self, name, getattr(self, name).sum(axis=0)[None])
        memory = self.memory
        self.memory = None
        if memory is not None and keeps_codes:
            self.memory = replace(memory, beta=memory.beta[:, :0], gram=memory.gram[:, :0])

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by name, those of the samples behind ``memory.``."""
        found = {name: to_host(getattr(self, name)) for name in (*ON_DEVICE, "patience")}
        if self.permutation is not None:
            found["permutation"] = self.permutation
        if self.memory is not None:
            found |= {f"memory.{name}": array for name, array in self.memory.arrays().items()}
        return found

    def counters(self) -> dict[str, int]:
        """Return all numbers by name."""
        names = ("seed", "n_iter", "n_samples_seen", "n_averaged", "n_halvings")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def restore(cls, arrays: dict[str, Array], counters: dict[str, int]) -> "State":
        """Return the state of which `arrays` and `counters` are the parts."""
        kept = {n.removeprefix("memory."): a for n, a in arrays.items() if n.startswith("memory.")}
        plain = {n: a for n, a in arrays.items() if not n.startswith("memory.")}
        plain.setdefault("permutation", None)  # type: ignore[arg-type] # absent where it is None
        counters = {"n_halvings": 0} | counters  # absent in files of older versions
        return cls(**plain, **counters, memory=SampleMemory(**kept) if kept else None)  # type: ignore[arg-type] # names are checked by the constructor

    def check(self, dealt: list[Ints] | None, n_blocks: int, gram_size: int) -> None:
        """Raise ValueError unless this is a state that a fit can have left, whoever has written it.

        Parameters
        ----------
        dealt : list of ndarray, optional
            The features that the seed has dealt to each block, in order; inside a block older
            versions had them in another one. None if features are in the order of the data.
        n_blocks : int
        gram_size : int
            Numbers that a sample remembers of its Gram matrix; 0 if nothing is averaged.
        """
        (p, k), R = self.D.shape, n_blocks
        n = 0 if self.memory is None else len(self.memory.ids)
        shapes = {
            "D": (p, k),
            "B": (p, k),
            "C": (k, k),
            "norms": (R, k),
            "grams": (R, k, k),
            "aged_grams": (R, k, k),
            "last_used": (k,),
            "patience": (k,),
            "n_users": (k,),
            "memory.ids": (n,),
            "memory.n_visits": (n,),
            "memory.beta": (n, k if gram_size else 0),
            "memory.sq_norm": (n,),
            "memory.gram": (n, gram_size),
            "memory.code": (n, k),
        }
        arrays = self.arrays()
        given = arrays.pop("permutation", None)
        if not _is_dealt(given, dealt):
            raise ValueError("the permutation of its state is not that of its seed")
        for name, array in arrays.items():
            is_integer = name.removeprefix("memory.") in INTEGERS
            dtype = np.dtype(np.int64) if is_integer else self.D.dtype
            if array.shape != shapes[name] or array.dtype != dtype:
                raise ValueError(f"{name} of its state must be {dtype} of shape {shapes[name]}")
            if not is_integer and not _all_finite(array):
                raise ValueError(f"{name} of its state must be finite")
        if self.memory is not None and (
            len(np.unique(self.memory.ids)) < n or self.memory.n_visits.min(initial=0) < 0
        ):
            raise ValueError("its state remembers samples that cannot be")


def _is_dealt(permutation: Array | None, dealt: list[Ints] | None) -> bool:
    """Return whether a permutation has the features of every block where they belong."""
    if permutation is None or dealt is None:
        return permutation is None and dealt is None
    if permutation.shape != (sum(map(len, dealt)),):
        return False
    found = np.split(permutation, np.cumsum([len(block) for block in dealt])[:-1])
    return all(np.array_equal(np.sort(a), b) for a, b in zip(found, dealt, strict=True))


def _all_finite(array: Array) -> bool:
    """Return whether all entries are finite, looking at some of them at a time.

    What is remembered of samples may be larger than memory.
    """
    step = max(1, ENTRIES_AT_ONCE // max(1, math.prod(array.shape[1:])))
    return all(np.isfinite(array[i : i + step]).all() for i in range(0, len(array), step))
