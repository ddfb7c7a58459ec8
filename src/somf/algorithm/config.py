"""The hyper-parameters of the algorithm, in its own terms."""

from dataclasses import dataclass, replace
from typing import Self

from somf.algorithm.schedule import STRONGEST, TOP
from somf.penalties import AtomBall, CodePenalty

AUTO = "auto"
"""The value of a parameter that leaves the choice to somf."""

AUTO_LEARNING_RATE = 0.78
"""v of the averages of β and G where `learning_rate` is "auto"."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """All that an iteration depends on besides its state and its samples.

    Attributes
    ----------
    n_components : int
        k.
    penalty : CodePenalty
        λΩ, the penalty on codes.
    ball : AtomBall
        𝒞, the set that every atom is in.
    atom_alpha : float
        ρ ≥ 0: every known entry adds ρ times the squared norm of its row of D to the objective.
    per_entry : bool
        Whether λ counts for every known entry of a sample, rather than once.
    reduction : float or "auto"
        r ≥ 1.
    code_estimator : {"auto", "averaged", "masked", "exact"}
    masks : {"blocks", "bernoulli"}
    surrogate : {"online", "incremental", "auto"}
        Without "auto" in an iteration; see `with_surrogate`.
    learning_rate : float or "auto"
        v in (3/4, 1).
    code_tol : float
        Relative duality gap of the codes of an iteration.
    device : {"cpu", "cuda"}
    has_weights : bool
        Whether entries of samples have weights, zero if they are unknown.
    base_weight : int
        What most weights are, 0 or 1.
    """

    n_components: int
    penalty: CodePenalty
    ball: AtomBall
    reduction: float | str
    code_estimator: str
    masks: str
    surrogate: str
    learning_rate: float | str
    code_tol: float
    device: str
    atom_alpha: float = 0.0
    per_entry: bool = False
    has_weights: bool = False
    base_weight: int = 0

    def for_features(self, n_features: int) -> Self:
        """Return the same with a reduction that leaves at least one feature."""
        if self.reduction == AUTO:
            return self
        return replace(self, reduction=min(self.strongest_reduction, float(n_features)))

    def with_surrogate(self, remembers: bool) -> Self:
        """Return the same with a surrogate that is known, if it is left to somf.

        Parameters
        ----------
        remembers : bool
            Whether codes are remembered. Averaged codes are remembered in any case.
        """
        if self.surrogate != AUTO:
            return self
        is_incremental = remembers and self.estimator_in_use != "averaged"
        return replace(self, surrogate="incremental" if is_incremental else "online")

    @property
    def strongest_reduction(self) -> float:
        """The reduction; with "auto" the one that a fit may begin with."""
        return STRONGEST if isinstance(self.reduction, str) else self.reduction

    @property
    def estimator_in_use(self) -> str:
        """The code estimator; without subsampling they all are OMF, and none needs a memory."""
        if self.reduction == 1.0:
            return "masked"
        if self.code_estimator == AUTO:
            return "masked" if self.reduction == AUTO else "averaged"
        return self.code_estimator

    @property
    def exponent(self) -> float:
        """The exponent v of the weights of samples; with "auto", of the averages of β and G."""
        is_auto = isinstance(self.learning_rate, str)
        return AUTO_LEARNING_RATE if is_auto else float(self.learning_rate)

    @property
    def has_auto_weights(self) -> bool:
        """Whether somf chooses how much of a stream is remembered."""
        return self.learning_rate == AUTO and self.surrogate == "online"

    @property
    def may_gather(self) -> bool:
        """Whether a fit may end with passes over all samples (see `somf.algorithm.phases`).

        Codes from a part of the features would differ from visit to visit.
        """
        return self.has_auto_weights and self.reduction in (AUTO, 1.0)

    @property
    def last_rung(self) -> int:
        """The rung of the ladder that a fit ends on; 0 if it does not climb."""
        return TOP if self.reduction == AUTO else 0

    @property
    def is_non_negative(self) -> bool:
        """Whether negative data cannot be reproduced."""
        return self.penalty.positive and self.ball.positive
