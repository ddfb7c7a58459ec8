"""The validated request: the only place that checks hyper-parameters."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from somf.checkpoint import Checkpoint
from somf.penalties import AtomBall, CodePenalty
from somf.reduction import STRONGEST
from somf.typing import Array

AUTO = "auto"
"""The value of `alpha` that asks for a density instead, and of `reduction` that leaves it to us."""

DEVICES = ("cpu", "cuda")
CODE_ESTIMATORS = ("averaged", "masked", "exact")
MASKS = ("blocks", "bernoulli")
SURROGATES = ("online", "incremental")
INITS = ("samples", "random")
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Config:
    """Hyper-parameters that have been checked, in the terms of the algorithm.

    Where `code_density` is not None, λ of the penalty is still to be found (see `somf.density`).
    """

    n_components: int
    penalty: CodePenalty
    code_density: float | None
    ball: AtomBall
    reduction: float | str
    code_estimator: str
    masks: str
    surrogate: str
    learning_rate: float
    batch_size: int
    n_epochs: int
    init: str | Array
    code_tol: float
    record_every: int | None
    device: str
    n_threads: int | None
    dtype: np.dtype[Any] | None
    callbacks: tuple[Callable[..., Any], ...]
    checkpoint: Checkpoint | None
    verbose: int

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> "Config":
        """Check the parameters of an estimator.

        Parameters
        ----------
        params : mapping
            All parameters of `MatrixFactorization`.

        Raises
        ------
        TypeError, ValueError
            If one of them is not what it must be.
        """
        p = params
        _check_seed(p)
        return cls(
            n_components=_integer(p, "n_components", 1),
            penalty=CodePenalty(
                _alpha(p),
                _real(p, "l1_ratio", "in [0, 1]", lambda x: 0 <= x <= 1),
                _boolean(p, "positive_code"),
            ),
            code_density=_code_density(p),
            ball=AtomBall(
                _real(p, "atom_l1_ratio", "in [0, 1]", lambda x: 0 <= x <= 1),
                _boolean(p, "positive_atoms"),
            ),
            reduction=_reduction(p),
            code_estimator=_choice(p, "code_estimator", CODE_ESTIMATORS),
            masks=_choice(p, "masks", MASKS),
            surrogate=_choice(p, "surrogate", SURROGATES),
            learning_rate=_real(
                p, "learning_rate", "strictly between 0.75 and 1", lambda x: 0.75 < x < 1
            ),
            batch_size=_integer(p, "batch_size", 1),
            n_epochs=_integer(p, "n_epochs", 1),
            init=_init(p),
            code_tol=_real(p, "code_tol", "at least 0", lambda x: x >= 0),
            record_every=_integer(p, "record_every", 1) if p["record_every"] is not None else None,
            device=_choice(p, "device", DEVICES),
            n_threads=_integer(p, "n_threads", 1) if p["n_threads"] is not None else None,
            dtype=_dtype(p),
            callbacks=_callbacks(p),
            checkpoint=_checkpoint(p),
            verbose=_integer(p, "verbose", 0),
        )

    def for_features(self, n_features: int) -> "Config":
        """Return the same request with a reduction that leaves at least one feature."""
        if self.reduction == AUTO:
            return self
        return replace(self, reduction=min(self.strongest_reduction, float(n_features)))

    def with_alpha(self, alpha: float) -> "Config":
        """Return the same request with λ found."""
        return replace(self, penalty=replace(self.penalty, alpha=alpha), code_density=None)

    @property
    def strongest_reduction(self) -> float:
        """The reduction, or that of the start if it is lowered later."""
        return STRONGEST if isinstance(self.reduction, str) else self.reduction

    @property
    def estimator_in_use(self) -> str:
        """The code estimator; without subsampling they all are OMF, and none needs a memory."""
        return "masked" if self.reduction == 1.0 else self.code_estimator

    @property
    def remembers_samples(self) -> bool:
        """Whether anything has to be kept for every sample."""
        return self.estimator_in_use == "averaged" or self.surrogate == "incremental"

    @property
    def is_non_negative(self) -> bool:
        """Whether negative data cannot be reproduced."""
        return self.penalty.positive and self.ball.positive

    def dtype_for(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the floating type in which data of some type is worked on."""
        if self.dtype is not None:
            return self.dtype
        is_single = dtype.kind == "f" and dtype.itemsize <= 4
        return np.dtype(np.float32 if is_single else np.float64)


def check_tolerance(tol: Any) -> float:
    """Return a tolerance, or say why it is none."""
    return _real({"tol": tol}, "tol", "at least 0", lambda x: x >= 0)


def _integer(params: Mapping[str, Any], name: str, least: int) -> int:
    value = params[name]
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")
    return int(value)


def _real(params: Mapping[str, Any], name: str, rule: str, holds: Callable[[float], bool]) -> float:
    value = params[name]
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number {rule}, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and holds(number)):
        raise ValueError(f"{name} must be {rule}, got {value}.")
    return number


def _boolean(params: Mapping[str, Any], name: str) -> bool:
    value = params[name]
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _alpha(params: Mapping[str, Any]) -> float:
    """Return λ, or zero if it is still to be found."""
    value = params["alpha"]
    if not isinstance(value, str):
        return _real(params, "alpha", "at least 0, or 'auto'", lambda x: x >= 0)
    if value != AUTO:
        raise ValueError(f"alpha must be a number or 'auto', got {value!r}.")
    if params["l1_ratio"] == 0:
        raise ValueError(
            "alpha must be a number where l1_ratio is 0, got 'auto': only an ℓ1 penalty decides "
            "how dense codes are."
        )
    return 0.0


def _reduction(params: Mapping[str, Any]) -> float | str:
    value = params["reduction"]
    if not isinstance(value, str):
        return _real(params, "reduction", "at least 1, or 'auto'", lambda x: x >= 1)
    if value != AUTO:
        raise ValueError(f"reduction must be a number or 'auto', got {value!r}.")
    return value


def _code_density(params: Mapping[str, Any]) -> float | None:
    density = _real(params, "code_density", "strictly between 0 and 1", lambda x: 0 < x < 1)
    return density if isinstance(params["alpha"], str) else None


def _choice(params: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = params[name]
    if not isinstance(value, str) or value not in choices:
        options = " or ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be {options}, got {value!r}.")
    return value


def _init(params: Mapping[str, Any]) -> str | Array:
    value = params["init"]
    if isinstance(value, str):
        return _choice(params, "init", INITS)
    atoms = np.asarray(value)
    if atoms.ndim != 2 or atoms.dtype.kind not in "fiu":
        raise ValueError(
            f"init must be 'samples', 'random' or an array of shape (n_components, n_features), "
            f"got {value!r}."
        )
    if len(atoms) != params["n_components"]:
        raise ValueError(
            f"init must have n_components={params['n_components']} rows, got {len(atoms)}."
        )
    if not np.isfinite(atoms).all():
        raise ValueError("init must be finite, got NaN or infinity.")
    return atoms


def _dtype(params: Mapping[str, Any]) -> np.dtype[Any] | None:
    value = params["dtype"]
    if value is None:
        return None
    for dtype in DTYPES:
        if value in (dtype, dtype.type, dtype.name):
            return dtype
    raise ValueError(f"dtype must be None, float32 or float64, got {value!r}.")


def _check_seed(params: Mapping[str, Any]) -> None:
    value = params["random_state"]
    if isinstance(value, Integral) and not 0 <= int(value) < 2**32:
        raise ValueError(f"random_state must be at least 0 and less than 2**32, got {value}.")


def _callbacks(params: Mapping[str, Any]) -> tuple[Callable[..., Any], ...]:
    value = params["callbacks"]
    if not callable(value) and not isinstance(value, Iterable):
        raise TypeError(f"callbacks must be callables, got {value!r}.")
    callbacks = (value,) if callable(value) else tuple(value)
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks must be callables, got {callback!r}.")
    return callbacks


def _checkpoint(params: Mapping[str, Any]) -> Checkpoint | None:
    value = params["checkpoint"]
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return Checkpoint(value)
    if not isinstance(value, Checkpoint):
        raise TypeError(f"checkpoint must be None, a path or a somf.Checkpoint, got {value!r}.")
    given = vars(value)
    if value.every_seconds is not None:
        _real(given, "every_seconds", "at least 0", lambda x: x >= 0)
    if value.every_samples is not None:
        _integer(given, "every_samples", 1)
    return value
