"""Random subsets of the features: every feature is in 1 out of `reduction` subsets.

A mask is a pure function of (seed, iteration, reduction).
"""

from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from somf.algorithm.config import Config
from somf.kernels import Kernels
from somf.randomness import generator
from somf.typing import Array, Ints, Matrix, Slices

BLOCKS_PER_MASK = 2
"""Blocks that a mask at the strongest reduction is made of."""

MOST_SUBSETS = 4096
"""Subsets that are kept."""

MOST_INDICATORS = 4096
"""Indicator vectors that are kept on the device."""


class Subset(NamedTuple):
    """The features that one iteration uses.

    Parameters
    ----------
    rows : tuple of slices, or ndarray of int
        The rows of D and B: a few contiguous runs, or any.
    blocks : tuple of int
        The blocks that hold these rows.
    scale : float
        The factor that makes sums over the subset unbiased estimates of sums over all features.
    """

    rows: Slices | Ints
    blocks: tuple[int, ...]
    scale: float

    @property
    def is_whole_blocks(self) -> bool:
        """Whether the subset is the union of its blocks, rather than a part of them."""
        return isinstance(self.rows, tuple)

    def runs(self, n_features: int) -> Slices:
        """Return contiguous runs of rows that hold those of the subset, and few others."""
        return self.rows if isinstance(self.rows, tuple) else (slice(0, n_features),)

    def of_features(self, D: Array) -> tuple[Array, Slices]:
        """Return an array and the rows in it that are those of the subset.

        The array is D itself where the subset is made of contiguous runs, else a copy of its rows.
        """
        if isinstance(self.rows, tuple):
            return D, self.rows
        return D[self.rows], (slice(0, len(self.rows)),)

    def of_samples(self, X: Matrix) -> Matrix:
        """Return samples whose columns are the rows of `of_features`."""
        return X if isinstance(self.rows, tuple) else X[:, self.rows]

    def write_back(self, D: Array, D_s: Array) -> None:
        """Copy changes in the array of `of_features` back into D."""
        if not isinstance(self.rows, tuple):
            D[self.rows] = D_s


class Indicators:
    """Vectors of zeros and ones that select blocks, on the device.

    With few blocks per mask there are few such vectors, and they are needed again and again.

    Parameters
    ----------
    n_blocks : int
    dtype : numpy.dtype
    kernels : Kernels
    """

    def __init__(self, n_blocks: int, dtype: np.dtype[Any], kernels: Kernels) -> None:
        self.n_blocks, self.dtype, self.kernels = n_blocks, dtype, kernels
        self._known: dict[tuple[tuple[int, ...], int], Array] = {}

    def of(self, blocks: tuple[int, ...]) -> Array:
        """Return ones at some blocks and zeros elsewhere."""
        return self._vector(blocks, 1)

    def without(self, blocks: tuple[int, ...]) -> Array:
        """Return zeros at some blocks and ones elsewhere."""
        return self._vector(blocks, 0)

    def _vector(self, blocks: tuple[int, ...], inside: int) -> Array:
        if (blocks, inside) not in self._known:
            if len(self._known) == MOST_INDICATORS:
                self._known.clear()
            vector = np.full(self.n_blocks, 1 - inside, dtype=self.dtype)
            vector[list(blocks)] = inside
            self._known[blocks, inside] = self.kernels.to_device(vector)
        return self._known[blocks, inside]


class Masks(Protocol):
    """A sequence of subsets.

    Attributes
    ----------
    blocks : list of slice
        The blocks of rows of which subsets are unions (a single one if they are not).
    permutation : ndarray of shape (p,) or None
        The feature at each row of D and B; None if they are in the order of the data.
    reduction : float
        The strongest there may be.
    """

    blocks: list[slice]
    permutation: Ints | None
    reduction: float

    def draw(self, iteration: int, reduction: float) -> Subset:
        """Return the subset of an iteration at a reduction, the strongest or a weaker one."""
        ...

    def unite(self) -> None:
        """Join all blocks into one, for subsets that are all features from now on."""
        ...


class BlockMasks:
    """Unions of blocks of features, so that the rows of a subset are few contiguous runs.

    Features are assigned once to 2⌈r⌉ blocks, at random. Iterations come in cycles of ⌊r⌋ or ⌈r⌉,
    r on average. A cycle visits all blocks in a new random order, hence each feature exactly once.
    A weaker reduction has shorter cycles, and so more blocks per mask.

    A mask needs at least two blocks. The atoms' budget is shared by all blocks, and an update can
    move it only between those that it sees together: with one block per mask the algorithm stalls
    far from a stationary point, with pairs that change it does not.

    Parameters
    ----------
    n_features : int
    reduction : float
        r in [1, n_features], the strongest that may be requested.
    seed : int
    """

    def __init__(self, n_features: int, reduction: float, seed: int) -> None:
        self.reduction = reduction
        self.seed = seed
        n_blocks = (
            min(BLOCKS_PER_MASK * int(np.ceil(reduction)), n_features) if reduction > 1 else 1
        )
        edges = np.linspace(0, n_features, n_blocks + 1).astype(int)
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self.permutation: Ints | None = None
        self._everything = Subset((slice(0, n_features),), (0,), 1.0)  # if there is one block
        self._latest: tuple[tuple[float, int], list[Subset]] = ((0.0, 0), [])  # the latest cycle
        self._subsets: dict[tuple[tuple[int, ...], int], Subset] = {}
        if n_blocks > 1:
            shuffled = generator(seed, "features").permutation(n_features)
            # Sorted inside a block: the order there is free, and memory is read faster forwards.
            self.permutation = np.concatenate([np.sort(shuffled[block]) for block in self.blocks])

    def draw(self, iteration: int, reduction: float) -> Subset:
        """Return the subset of an iteration at a reduction, the strongest or a weaker one."""
        if len(self.blocks) == 1:
            return self._everything
        # Cycle c starts at iteration ⌊c r⌋.
        cycle = int((iteration + 1) / reduction)
        while int(cycle * reduction) > iteration:
            cycle -= 1
        if self._latest[0] != (reduction, cycle):
            length = int((cycle + 1) * reduction) - int(cycle * reduction)
            self._latest = (reduction, cycle), self._subsets_of(cycle, length)
        return self._latest[1][iteration - int(cycle * reduction)]

    def _subsets_of(self, cycle: int, length: int) -> list[Subset]:
        """Return the subsets of a cycle; the first ones have a block more if they must differ."""
        order = generator(self.seed, "mask", cycle).permutation(len(self.blocks)).tolist()
        size, n_larger = divmod(len(order), length)
        edges = [size * i + min(i, n_larger) for i in range(length + 1)]
        return [self._subset(tuple(sorted(order[a:b])), length) for a, b in pairwise(edges)]

    def _subset(self, blocks: tuple[int, ...], length: int) -> Subset:
        """Return the union of some blocks, in a cycle of some length; pairs come again."""
        subset = self._subsets.get((blocks, length))
        if subset is None:
            rows = _joined([self.blocks[g] for g in blocks])
            # A feature is in one of the masks of its cycle, each as likely as the other.
            subset = Subset(rows, blocks, float(length))
            if len(blocks) <= BLOCKS_PER_MASK and len(self._subsets) < MOST_SUBSETS:
                self._subsets[blocks, length] = subset
        return subset

    def unite(self) -> None:
        """Join all blocks into one, for subsets that are all features from now on."""
        self.blocks = [slice(0, self.blocks[-1].stop)]


def _joined(runs: list[slice]) -> Slices:
    """Return runs of rows, in order, with adjacent ones joined."""
    joined = runs[:1]
    for run in runs[1:]:
        if run.start == joined[-1].stop:
            joined[-1] = slice(joined[-1].start, run.stop)
        else:
            joined.append(run)
    return tuple(joined)


class BernoulliMasks:
    """The paper's masks: every feature flips its own coin; at least one feature is kept.

    Parameters
    ----------
    n_features : int
    reduction : float
        r in [1, n_features], the strongest that may be requested.
    seed : int
    """

    def __init__(self, n_features: int, reduction: float, seed: int) -> None:
        self.n_features = n_features
        self.reduction = reduction
        self.seed = seed
        self.blocks = [slice(0, n_features)]
        self.permutation: Ints | None = None

    def draw(self, iteration: int, reduction: float) -> Subset:
        """Return the subset of an iteration at a reduction, the strongest or a weaker one."""
        if reduction == 1.0:
            return Subset((slice(0, self.n_features),), (0,), 1.0)
        rng = generator(self.seed, "mask", iteration)
        rows = np.flatnonzero(rng.random(self.n_features) < 1.0 / reduction)
        if rows.size == 0:
            rows = rng.integers(self.n_features, size=1)
        return Subset(rows, (0,), reduction)

    def unite(self) -> None:
        """Do nothing: there is a single block already."""


def masks_for(config: Config, n_features: int, seed: int) -> Masks:
    """Return the sequence of masks that a configuration asks for."""
    kind = BlockMasks if config.masks == "blocks" else BernoulliMasks
    return kind(n_features, min(config.strongest_reduction, float(n_features)), seed)
