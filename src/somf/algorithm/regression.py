"""β and G of a minibatch: the quadratic ½ αᵀGα − αᵀβ that its codes minimise.

=========== ======================================================================================
masked      From the current subset alone (Mensch et al., ICML 2016).
averaged    Averaged over all subsets with which a sample has been seen (the paper).
exact       From all features; only the dictionary update is partial.
=========== ======================================================================================

Gram matrices are described by *statistics*, one row per sample or one for all, from which
`GramCache.expand` computes the matrices. With block masks a statistic is one weight per block,
since G = Σ_g ω[g] D_gᵀD_g; with Bernoulli masks it is the matrix itself.
"""

from typing import NamedTuple, Protocol

from somf.algorithm.config import AUTO, Config
from somf.algorithm.masks import Indicators, Masks, Subset
from somf.algorithm.memory import SampleMemory
from somf.algorithm.state import State
from somf.distributed import ALONE, Alone, Communicator
from somf.kernels import Kernels
from somf.penalties import CodePenalty
from somf.typing import Array, Ints, Matrix


class Quadratic(NamedTuple):
    """The regression problems of a minibatch.

    Attributes
    ----------
    grams : ndarray of shape (1, k, k) or (b, k, k)
    beta : ndarray of shape (b, k)
    sq_norm : ndarray of shape (b,)
        ‖x‖², estimated like β.
    """

    grams: Array
    beta: Array
    sq_norm: Array

    def objective(self, code: Array, penalty: CodePenalty) -> Array:
        """Return ½‖x‖² + ½αᵀGα − αᵀβ + λΩ(α) of codes."""
        is_shared = len(self.grams) == 1
        G_code = code @ self.grams[0] if is_shared else (code[:, None] @ self.grams)[:, 0]
        smooth = self.sq_norm / 2 + (code * (G_code / 2 - self.beta)).sum(axis=1)
        objective: Array = smooth + penalty.value(code)
        return objective


class GramCache(Protocol):
    """Keeps DᵀD up to date while D changes on subsets of its rows.

    Attributes
    ----------
    statistic_size : int
        Numbers that describe a Gram matrix.
    grams_of_blocks : ndarray of shape (R, k, k) or None
        The current Gram matrix of every block of rows, where it is kept.
    """

    statistic_size: int
    grams_of_blocks: Array | None

    def of_subset(self, subset: Subset) -> Array:
        """Return the statistic of D_sᵀD_s."""
        ...

    def of_all(self) -> Array:
        """Return the statistic of DᵀD."""
        ...

    def expand(self, statistics: Array) -> Array:
        """Return the Gram matrices (m, k, k) of statistics (m, size) of the current dictionary."""
        ...

    def expand_averages(self, past: Array, present: Array) -> Array:
        """Return the Gram matrices (m, k, k) of averages over past visits and the present one.

        Parameters
        ----------
        past, present : ndarray of shape (m, size)
            Statistics, with their weights in the average.
        """
        ...

    def age(self, pace: float) -> None:
        """Move the aged Gram matrices towards the current ones.

        Parameters
        ----------
        pace : float
            The weight of the current dictionary in the averages of all samples together.
        """
        ...

    def update(self, subset: Subset) -> None:
        """Recompute what depends on the rows of D in a subset, which have changed."""
        ...

    def recompute(self) -> None:
        """Recompute everything: any row of D may have changed."""
        ...


class BlockGrams:
    """One Gram matrix per block of rows: no memory of size n k².

    The past part of an averaged β is as old as the visits it comes from. So each block keeps two
    Gram matrices: the current one, and an aged one that is as old on average over samples. If the
    current one stood for both, β and G would disagree by the distance that D has moved since. Codes
    are then useless after the first epoch, where a mask has fewer features than there are atoms.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        blocks: list[slice],
        communicator: Communicator = ALONE,
    ) -> None:
        self.state, self.kernels, self.blocks = state, kernels, blocks
        self.communicator = communicator
        self.statistic_size = len(blocks)
        self.indicators = Indicators(len(blocks), state.dtype, kernels)
        # One array holds both, of which the state has views: `expand_averages` needs both at once.
        self._aged_and_current = kernels.concatenate([state.aged_grams, state.grams], axis=0)
        state.aged_grams = self._aged_and_current[: len(blocks)]
        state.grams = self._aged_and_current[len(blocks) :]
        self.grams_of_blocks: Array | None = state.grams

    def of_subset(self, subset: Subset) -> Array:
        """Return ones at the blocks of the subset."""
        return self.indicators.of(subset.blocks)

    def of_all(self) -> Array:
        """Return ones at all blocks."""
        return self.indicators.without(())

    def expand(self, statistics: Array) -> Array:
        """Return Σ_g ω[g] D_gᵀD_g for every row ω."""
        return self.kernels.combine(statistics, self.state.grams)

    def expand_averages(self, past: Array, present: Array) -> Array:
        """Return the same with aged matrices for the past and current ones for the present."""
        weights = self.kernels.concatenate([past, present], axis=1)
        return self.kernels.combine(weights, self._aged_and_current)

    def age(self, pace: float) -> None:
        """Do aged ← (1 − pace) aged + pace current."""
        aged = self.state.aged_grams
        aged *= 1 - pace
        aged += pace * self.state.grams

    def update(self, subset: Subset) -> None:
        """Recompute the Gram matrices of the blocks of a subset; ranks share the rows."""
        parts = [
            self.kernels.gram(self.state.D, (self.communicator.part_of(self.blocks[g]),))
            for g in subset.blocks
        ]
        grams = self.communicator.sum(*parts, n_symmetric=len(parts))
        for g, gram in zip(subset.blocks, grams, strict=True):
            self.state.grams[g] = gram

    def recompute(self) -> None:
        """Recompute the Gram matrices of all blocks."""
        for g, rows in enumerate(self.blocks):
            self.state.grams[g] = self.kernels.gram(self.state.D, (rows,))


class StoredGrams:
    """A Gram matrix for every subset that comes along, as in the paper.

    The whole DᵀD is kept only if it is needed, and recomputed at each change: Bernoulli masks are
    here to be correct, not to be fast.
    """

    def __init__(self, state: State, kernels: Kernels, keep_all: bool) -> None:
        self.state, self.kernels, self.keep_all = state, kernels, keep_all
        self.statistic_size = state.C.shape[0] ** 2
        self.grams_of_blocks: Array | None = None

    def of_subset(self, subset: Subset) -> Array:
        """Return D_sᵀD_s itself."""
        return self.kernels.gram(*subset.of_features(self.state.D)).ravel()

    def of_all(self) -> Array:
        """Return DᵀD itself."""
        G: Array = self.state.grams[0] if self.keep_all else self._all()
        return G.ravel()

    def expand(self, statistics: Array) -> Array:
        """Return the statistics as matrices."""
        return statistics.reshape(-1, *self.state.C.shape)

    def expand_averages(self, past: Array, present: Array) -> Array:
        """Return the sum of both as matrices: stored averages have the right age."""
        return self.expand(past + present)

    def age(self, pace: float) -> None:
        """Do nothing: the stored averages hold the matrices."""

    def update(self, subset: Subset) -> None:  # noqa: ARG002 (part of the protocol)
        """Recompute DᵀD, if it is needed."""
        self.recompute()

    def recompute(self) -> None:
        """Recompute DᵀD, if it is needed."""
        if self.keep_all:
            self.state.grams[0] = self._all()

    def _all(self) -> Array:
        return self.kernels.gram(self.state.D, (slice(0, len(self.state.D)),))


def gram_cache_for(
    config: Config,
    state: State,
    kernels: Kernels,
    masks: Masks,
    communicator: Communicator = ALONE,
) -> GramCache:
    """Return the Gram cache that suits the masks."""
    if config.masks == "blocks" and not config.has_weights:
        return BlockGrams(state, kernels, masks.blocks, communicator)
    keep_all = config.estimator_in_use == "exact" or config.reduction == AUTO
    return StoredGrams(state, kernels, keep_all and not config.has_weights)


class Regression:
    """Estimates β and G by the chosen code estimator.

    Parameters
    ----------
    code_estimator : {"masked", "averaged", "exact"}
    learning_rate : float
        v; an average gives its c-th observation the weight γ = c^−(2.5−2v).
    state : State
    kernels : Kernels
    gram_cache : GramCache
    communicator : Communicator, optional
    """

    def __init__(
        self,
        code_estimator: str,
        learning_rate: float,
        state: State,
        kernels: Kernels,
        gram_cache: GramCache,
        communicator: Communicator | None = None,
    ) -> None:
        self.state, self.kernels, self.gram_cache = state, kernels, gram_cache
        self.communicator = Alone() if communicator is None else communicator
        self._ages = False
        self.decay = 2.5 - 2.0 * learning_rate
        self.dtype = state.dtype
        self.code_estimator = code_estimator

    def estimate(
        self, X: Matrix, subset: Subset, memory: SampleMemory | None, slots: Ints | None
    ) -> Quadratic:
        """Return β and G of a minibatch.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)
        subset : Subset
        memory : SampleMemory or None
            Averages are read from it and written to it. Without it, all samples are new.
        slots : ndarray of shape (b,) or None
            Where in `memory` the samples are.
        """
        if self.code_estimator == "exact":
            return self.of_all_features(X)
        if self.code_estimator == "masked" or memory is None or slots is None:
            return self.of_subset(X, subset)
        return self._averaged(X, subset, memory, slots)

    def of_all_features(self, X: Matrix) -> Quadratic:
        """Return β and G of a minibatch from all features."""
        everything = (slice(0, len(self.state.D)),)
        beta, sq_norm = self.kernels.observe(X, self.state.D, everything)
        grams = self.gram_cache.expand(self.gram_cache.of_all()[None])
        return Quadratic(grams, beta, sq_norm)

    def of_subset(self, X: Matrix, subset: Subset) -> Quadratic:
        """Return β and G of a minibatch from a subset of the features alone."""
        beta, sq_norm, seen = self._observe(X, subset)
        return Quadratic(self.gram_cache.expand(seen), beta, sq_norm)

    def _averaged(self, X: Matrix, subset: Subset, memory: SampleMemory, slots: Ints) -> Quadratic:
        beta, sq_norm, seen = self._observe(X, subset)
        memory.n_visits[slots] += 1
        weights = memory.n_visits[slots] ** -self.decay
        if (weights == 1).all():  # all samples are new, and share one Gram matrix
            average, grams = seen, self.gram_cache.expand(seen)
        else:
            gamma = self.kernels.to_device(weights.astype(self.dtype))
            take, mix = self.kernels.take, self.kernels.mix
            beta = mix(take(memory.beta, slots), beta, gamma[:, None])
            sq_norm = mix(take(memory.sq_norm, slots), sq_norm, gamma)
            past = take(memory.gram, slots)
            average = mix(past, seen, gamma[:, None])
            grams = self.gram_cache.expand_averages(
                (1 - gamma)[:, None] * past, gamma[:, None] * seen
            )
        self.kernels.put(memory.beta, slots, beta)
        self.kernels.put(memory.sq_norm, slots, sq_norm)
        self.kernels.put(memory.gram, slots, average)
        if memory is self.state.memory:
            self._ages = True
            self.communicator.enclose("gamma", float(weights.sum()))
        return Quadratic(grams, beta, sq_norm)

    def age(self, b: int) -> None:
        """Age the Gram matrices of blocks like the averages of all samples together.

        In the first pass over the samples every average consists of one visit. Later, a sample
        forgets the fraction γ at each visit, and is visited every n / b iterations.

        Parameters
        ----------
        b : int
            Samples of the minibatch on all ranks.
        """
        memory, self._ages, ages = self.state.memory, False, self._ages
        if not ages or memory is None:
            return
        self.state.n_averaged += b
        if self.state.n_averaged <= memory.n_samples:
            pace = b / self.state.n_averaged
        else:
            gamma = self.communicator.enclosed("gamma") / b
            pace = 1.0 - (1.0 - gamma) ** (b / memory.n_samples)
        self.gram_cache.age(pace)

    def _observe(self, X: Matrix, subset: Subset) -> tuple[Array, Array, Array]:
        """Return the unbiased estimates of β, ‖x‖² and the statistic of G that a subset gives."""
        X_s, (D_s, rows) = subset.of_samples(X), subset.of_features(self.state.D)
        beta, sq_norm = self.kernels.observe(X_s, D_s, rows)
        seen = self.gram_cache.of_subset(subset)[None]
        if subset.scale == 1:
            return beta, sq_norm, seen
        return subset.scale * beta, subset.scale * sq_norm, subset.scale * seen
