"""The parts of an iteration where entries of samples have weights, zero if they are unknown.

The objective of a sample is ½ Σ_f ω_f (x_f − d_fᵀα)² + λΩ(α). Two things differ from samples that
are known as a whole (see `regression`, `surrogate` and `dictionary`):

- every sample has a Gram matrix G = Σ_f ω_f d_f d_fᵀ of its own;
- every feature f has a matrix C_f, the average of ω_f ααᵀ over samples. If most entries are known,
  C_f is C, the same for all features, plus the average of (ω_f − 1) ααᵀ; otherwise C is left out.
  Either way p k² / 2 numbers are kept, as upper triangles. One C for all features, or predictions
  in the place of unknown entries, would need less, and learn more slowly (see docs/missing.md).

A fit has weights from its first to its last minibatch, or never: the classes here get nothing but
`Observed`, which is why they narrow the type of X.
"""

from functools import cached_property

import numpy as np

from somf.algorithm.dictionary import Dictionary
from somf.algorithm.masks import Subset
from somf.algorithm.regression import Quadratic, Regression
from somf.algorithm.surrogate import (
    Coded,
    IncrementalSurrogate,
    OnlineSurrogate,
    RowUpdate,
    SumSurrogate,
)
from somf.distributed.communicator import AtomUpdateByFeature
from somf.kernels.observed import Observed, quadratics
from somf.typing import Array, Ints, Slices


class ObservedRegression(Regression):
    """Estimates β and G from the entries that are known.

    Attributes
    ----------
    per_entry : bool
        See `Config`. Both are then divided by the weight of all known entries of the sample.
    """

    per_entry = False

    def of_all_features(self, X: Observed) -> Quadratic:  # type: ignore[override] # has weights
        """Return β and G of a minibatch from all entries that are known."""
        everything = (slice(0, len(self.state.D)),)
        return Quadratic(*self._quadratics(X, self.state.D, everything))

    def _quadratics(self, X: Observed, D: Array, rows: Slices) -> tuple[Array, Array, Array]:
        gram = self.kernels.gram
        return quadratics(self.kernels, X, D, rows, lambda: gram(D, rows)[None], self.per_entry)

    def of_subset(self, X: Observed, subset: Subset) -> Quadratic:  # type: ignore[override] # has weights
        """Return β and G of a minibatch from the entries that are known in a subset."""
        D_s, rows = subset.of_features(self.state.D)
        found = self._quadratics(X.each(subset.of_samples), D_s, rows)
        if subset.scale == 1:
            return Quadratic(*found)
        return Quadratic(*(subset.scale * part for part in found))

    def _observe(self, X: Observed, subset: Subset) -> tuple[Array, Array, Array]:  # type: ignore[override] # has weights
        seen = self.of_subset(X, subset)
        return seen.beta, seen.sq_norm, seen.grams.reshape(len(seen.beta), -1)


class ObservedOnlineSurrogate(OnlineSurrogate):
    """The online surrogate, with a matrix C_f for every feature."""

    def add(self, X: Observed, new: Coded, old: Coded | None, b: int) -> RowUpdate:  # type: ignore[override] # has weights
        """Do B_f ← (1−w) B_f + w/b Σ ω_f x_f α and likewise C_f."""
        w = self.forgetting.weight(self.state.n_samples_seen, b)
        pairs = self.kernels.pairs(new.code, new.weight * (w / b))
        self.kernels.accumulate(self.state.C_by_feature, X.deviations, pairs, 1.0 - w)
        return super().add(X, new, old, b)


class ObservedSumSurrogate(SumSurrogate):
    """The sum over the samples of a pass, with a matrix C_f for every feature."""

    def add(self, X: Observed, new: Coded, old: Coded | None, b: int) -> RowUpdate:  # type: ignore[override] # has weights
        """Do B_f += Σ ω_f x_f α and C_f += Σ ω_f ααᵀ."""
        pairs = self.kernels.pairs(new.code, new.weight)
        self.kernels.accumulate(self.state.C_by_feature, X.deviations, pairs, 1.0)
        return super().add(X, new, old, b)


class ObservedIncrementalSurrogate(IncrementalSurrogate):
    """The incremental surrogate, with a matrix C_f for every feature."""

    def add(self, X: Observed, new: Coded, old: Coded | None, b: int) -> RowUpdate:  # type: ignore[override] # has weights
        """Do B_f += Σ ω_f x_f (α − α_old) and C_f += Σ ω_f (ααᵀ − α_oldα_oldᵀ)."""
        assert old is not None
        change = self.kernels.pairs(new.code, new.weight)
        change -= self.kernels.pairs(old.code, old.weight)
        self.kernels.accumulate(self.state.C_by_feature, X.deviations, change, 1.0)
        return super().add(X, new, old, b)

    def _clear(self, atoms: Array, total: Array) -> None:
        super()._clear(atoms, total)
        self.kernels.clear_pairs(self.state.C_by_feature, atoms)


class ObservedDictionary(Dictionary):
    """Moves atoms by a matrix C for every feature."""

    @cached_property
    def _update_by_feature(self) -> AtomUpdateByFeature:
        return self.communicator.atom_update_by_feature(self.kernels, self.ball)

    def _move(self, subset: Subset, C: Array, budget: Array) -> None:
        state = self.state
        D_s, rows = subset.of_features(state.D)
        B_s, C_s = (subset.of_features(A)[0] for A in (state.B, state.C_by_feature))
        C, ridge = state.base_weight * C, None
        if len(state.n_known):
            ridge = 2.0 * self.atom_alpha * subset.of_features(state.n_known)[0]
        self._update_by_feature(D_s, B_s, C, C_s, ridge, rows, budget)
        subset.write_back(state.D, D_s)

    def _forget(self, atoms: Ints) -> None:
        super()._forget(atoms)
        is_forgotten = np.zeros(len(self.state.C), dtype=bool)
        is_forgotten[atoms] = True
        self.kernels.clear_pairs(self.state.C_by_feature, self.kernels.to_device(is_forgotten))
