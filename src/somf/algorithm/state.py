"""Everything that changes while fitting."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from somf.algorithm.memory import STORED, SampleMemory
from somf.algorithm.phases import Phase
from somf.algorithm.schedule import TOP
from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.typing import Array, Ints

MOVES = ("rows_before", "last_move")
"""Arrays of `State` that tell how atoms move."""

ON_DEVICE = (
    "D",
    "B",
    "C",
    "C_by_feature",
    "n_known",
    "norms",
    "grams",
    "aged_grams",
    "last_used",
    "n_users",
)
"""Arrays of `State` that are on the device."""

COUNTERS = (
    "seed",
    "n_iter",
    "n_samples_seen",
    "n_averaged",
    "rung",
    "base_weight",
    "phase",
    "n_lowered",
    "window_start",
    "is_settled",
)
"""Whole numbers of `State`."""

FRACTIONS = ("n_remembered", "growth")
"""Numbers of `State` that are not whole."""

FIRST_GROWTH = 0.82
"""`State.growth` before anything is known of the data."""

DISCARDED = ("witnesses", "witness_weights", "witness_codes", "pace", "compared_at")
"""What files of earlier versions have, and a state has no longer."""


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
    rung : int
        Where on the ladder of ``reduction="auto"`` the fit is (see `somf.algorithm.schedule`).
    permutation : ndarray of shape (p,) or None
        The feature at each row; None is the order of the data.
    D : ndarray of shape (p, k)
        The dictionary.
    B : ndarray of shape (p, k)
    C : ndarray of shape (k, k)
        The surrogate: averages, or sums, of xαᵀ and ααᵀ.
    C_by_feature : ndarray of shape (p, k (k + 1) / 2)
        Where entries have weights: averages, or sums, of (ω − `base_weight`) ααᵀ for every feature;
        else (0, 0).
    n_known : ndarray of shape (p,)
        Where atoms have a penalty: the average, or sum, of the weights of every feature; else (0,).
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
    offsets : ndarray of shape (p,) or (0,)
        What is subtracted from every feature, in the order of the data; (0,) if nothing is.
    base_weight : int
        What most weights of entries are, 0 or 1.
    phase : int
        What B and C are made of (see `somf.algorithm.phases`).
    n_lowered : int
        Passes over all samples, in a row, that have lowered the objective.
    n_remembered : float
        Samples that the average of ``learning_rate="auto"`` remembers, N; zero if that is unknown.
    growth : float
        N grows like the number of samples seen to this power.
    window_start : int
        How many samples had been seen when `rows_before` was taken; zero if there is none.
    is_settled : int
        1 once it is clear that the fit does not go down the ladder again, else 0.
    rows_before : ndarray of shape (m, k)
        Some rows of D of some time ago, on the host (see `somf.algorithm.drift`); (0, 0) where
        there are none.
    last_move : ndarray of shape (m, k)
        How they had changed before; likewise. NaN for atoms that have been replaced since.
    D_before : ndarray of shape (p, k)
        During a pass the atoms before they were extrapolated, between passes those before the last
        one, on the host; (0, 0) where there are none.
    """

    seed: int
    n_iter: int
    n_samples_seen: int
    n_averaged: int
    rung: int
    permutation: Ints | None
    D: Array
    B: Array
    C: Array
    C_by_feature: Array
    n_known: Array
    norms: Array
    grams: Array
    aged_grams: Array
    last_used: Ints
    patience: Ints
    n_users: Ints
    memory: SampleMemory | None
    offsets: Array
    base_weight: int = 0
    phase: int = Phase.ONLINE
    n_lowered: int = 0
    n_remembered: float = 0.0
    growth: float = FIRST_GROWTH
    window_start: int = 0
    is_settled: int = 0
    rows_before: Array = field(default_factory=lambda: np.zeros((0, 0)))
    last_move: Array = field(default_factory=lambda: np.zeros((0, 0)))
    D_before: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        for name in (*MOVES, "D_before"):
            if not len(getattr(self, name)):
                setattr(self, name, np.zeros((0, 0), self.dtype))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating type, as a NumPy type."""
        return to_host(self.D[:0]).dtype

    @property
    def remembers(self) -> bool:
        """Whether it has something of every sample, and not only at the end of a fit."""
        return self.memory is not None and self.phase == Phase.ONLINE

    @property
    def components(self) -> Array:
        """The atoms as rows, features in the order of the data: a new (k, p) array."""
        if self.permutation is None:
            return np.array(to_host(self.D.T), order="C")
        place = np.empty_like(self.permutation)
        place[self.permutation] = np.arange(len(place))
        return np.ascontiguousarray(to_host(self.D[place].T))

    def on_device(self, kernels: Kernels) -> "State":
        """Return the state with its arrays on a device, those of samples if there is room.

        Arrays that are there already are not copied.
        """
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

    def begin_sums(self, memory: SampleMemory) -> None:
        """Empty B and C, which are sums over samples from now on; `memory` has their codes."""
        self.phase, self.memory = Phase.PASS, memory
        for array in (self.B, self.C, self.C_by_feature, self.n_known, self.n_users):
            array[:] = 0

    def end_sums(self, n_samples: float) -> None:
        """Make averages of the sums over so many samples, and forget the codes of samples."""
        self.phase, self.n_lowered = Phase.ONLINE, 0
        self.D_before = self.D_before[:0, :0]
        if self.memory is None:
            return
        for name in ("B", "C", "C_by_feature", "n_known"):
            average = getattr(self, name)
            average /= n_samples  # in place: it may be larger than memory
        if self.n_remembered:
            self.n_remembered = n_samples
        self.n_users[:] = 0
        self.memory = None

    def forget_moves(self) -> None:
        """Forget how atoms have moved, and what followed from it."""
        self.window_start, self.growth = 0, FIRST_GROWTH
        for name in MOVES:
            setattr(self, name, getattr(self, name)[:0, :0])

    def divide_blocks(self, n_blocks: int, kernels: Kernels) -> None:
        """Make room for norms and Gram matrices of blocks, which are then to be computed."""
        k = len(self.C)
        self.norms = kernels.zeros((n_blocks, k), self.C)
        self.grams, self.aged_grams = (kernels.zeros((n_blocks, k, k), self.C) for _ in range(2))

    def forget_blocks(self, keeps_codes: bool) -> None:
        """Join all blocks into one, and forget the averages that codes from subsets need.

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
        """Return all arrays, on the host, by name; those of samples begin with ``memory.``."""
        names = (*ON_DEVICE, "patience", "offsets", "D_before", *MOVES)
        found = {name: to_host(getattr(self, name)) for name in names}
        if self.permutation is not None:
            found["permutation"] = self.permutation
        if self.memory is not None:
            found |= {f"memory.{name}": array for name, array in self.memory.arrays().items()}
        return found

    def counters(self) -> dict[str, float]:
        """Return all numbers by name."""
        counts = {name: int(getattr(self, name)) for name in COUNTERS}
        return counts | {name: float(getattr(self, name)) for name in FRACTIONS}

    @classmethod
    def restore(cls, arrays: dict[str, Array], counters: dict[str, float]) -> "State":
        """Return the state that `arrays` and `counters` were taken from."""
        kept = {n.removeprefix("memory."): a for n, a in arrays.items() if n.startswith("memory.")}
        plain = {
            n: a for n, a in arrays.items() if not n.startswith("memory.") and n not in DISCARDED
        }
        counters = {n: c for n, c in counters.items() if n not in DISCARDED}
        plain.setdefault("permutation", None)  # type: ignore[arg-type] # absent where it is None
        # Older versions knew no weights of entries.
        plain.setdefault("C_by_feature", np.zeros((0, 0), plain["D"].dtype))
        plain.setdefault("n_known", np.zeros(0, plain["D"].dtype))
        plain.setdefault("offsets", np.zeros(0, plain["D"].dtype))
        for name in (*MOVES, "D_before"):
            plain.setdefault(name, np.zeros((0, 0), plain["D"].dtype))
        if "rung" not in counters or "phase" not in counters:
            # Older versions had more rungs, or counted halvings of the reduction, or nothing.
            has_climbed = counters.get("rung", counters.get("n_halvings", 0)) > 0
            counters = {n: c for n, c in counters.items() if n not in ("rung", "n_halvings")}
            counters["rung"] = TOP if has_climbed and len(plain["norms"]) == 1 else 0
        return cls(**plain, **counters, memory=SampleMemory(**kept) if kept else None)  # type: ignore[arg-type] # names are checked by the constructor
