"""Random subsets of the features: every feature is in 1 out of `reduction` subsets.

A sequence of masks is a pure function of (seed, iteration).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from somf.randomness import generator
from somf.typing import Ints, Rows

BLOCKS_PER_MASK = 2


@dataclass(frozen=True)
class Subset:
    """The features that one iteration looks at.

    Parameters
    ----------
    rows : slice or ndarray of int
        The rows of D and B.
    blocks : tuple of int
        The blocks that hold these rows.
    scale : float
        What makes sums over the subset unbiased estimates of sums over all features.
    """

    rows: Rows
    blocks: tuple[int, ...]
    scale: float


class Masks(Protocol):
    """A sequence of subsets.

    Attributes
    ----------
    blocks : list of slice
        The blocks of rows of which subsets are unions (a single one if they are not).
    permutation : ndarray of shape (p,) or None
        The feature at each row of D and B; None if they are in the order of the data.
    """

    blocks: list[slice]
    permutation: Ints | None

    def draw(self, iteration: int) -> Subset:
        """Return the subset of an iteration."""
        ...


class BlockMasks:
    """Unions of blocks of features, so that the rows of a subset are contiguous in memory.

    Features are shuffled once and cut into 2⌈r⌉ blocks. Iterations come in cycles of ⌊r⌋ or ⌈r⌉, r
    on average; a cycle deals all blocks in a fresh order, so it visits each feature exactly once.

    A mask needs at least two blocks. The atoms' budget is shared by all blocks, and an update can
    move it only between those that it sees together: with one block per mask the algorithm stalls
    far from a stationary point, with pairs that change it does not.

    Parameters
    ----------
    n_features : int
    reduction : float
        r in [1, n_features].
    seed : int
    """

    def __init__(self, n_features: int, reduction: float, seed: int) -> None:
        self.n_features = n_features
        self.reduction = reduction
        self.seed = seed
        n_blocks = (
            min(BLOCKS_PER_MASK * int(np.ceil(reduction)), n_features) if reduction > 1 else 1
        )
        edges = np.linspace(0, n_features, n_blocks + 1).astype(int)
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self.permutation: Ints | None = None
        if n_blocks > 1:
            self.permutation = generator(seed, "features").permutation(n_features)

    def draw(self, iteration: int) -> Subset:
        """Return the subset of an iteration."""
        # Cycle c starts at iteration ⌊c r⌋.
        cycle = int((iteration + 1) / self.reduction)
        while int(cycle * self.reduction) > iteration:
            cycle -= 1
        start, stop = int(cycle * self.reduction), int((cycle + 1) * self.reduction)
        order = generator(self.seed, "mask", cycle).permutation(len(self.blocks))
        chosen = np.sort(np.array_split(order, stop - start)[iteration - start])
        rows = self._rows(chosen)
        size = sum(self.blocks[g].stop - self.blocks[g].start for g in chosen)
        return Subset(rows, tuple(int(g) for g in chosen), self.n_features / size)

    def _rows(self, chosen: Ints) -> Rows:
        """Return the rows of some blocks, as a slice if they are neighbours."""
        first, last = int(chosen[0]), int(chosen[-1])
        if last - first == len(chosen) - 1:
            return slice(self.blocks[first].start, self.blocks[last].stop)
        return np.concatenate(
            [np.arange(self.blocks[g].start, self.blocks[g].stop) for g in chosen]
        )


class BernoulliMasks:
    """The paper's masks: every feature flips its own coin; at least one feature is kept.

    Parameters
    ----------
    n_features : int
    reduction : float
        r in [1, n_features].
    seed : int
    """

    def __init__(self, n_features: int, reduction: float, seed: int) -> None:
        self.n_features = n_features
        self.reduction = reduction
        self.seed = seed
        self.blocks = [slice(0, n_features)]
        self.permutation: Ints | None = None

    def draw(self, iteration: int) -> Subset:
        """Return the subset of an iteration."""
        if self.reduction == 1.0:
            return Subset(slice(0, self.n_features), (0,), 1.0)
        rng = generator(self.seed, "mask", iteration)
        rows = np.flatnonzero(rng.random(self.n_features) < 1.0 / self.reduction)
        if rows.size == 0:
            rows = rng.integers(self.n_features, size=1)
        return Subset(rows, (0,), self.reduction)
