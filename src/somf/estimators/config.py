"""The only place that checks hyper-parameters."""

import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from somf.algorithm.config import AUTO
from somf.errors import ParameterError, ParameterTypeError
from somf.penalties import AtomBall, CodePenalty
from somf.training.checkpoint import Checkpoint
from somf.training.config import TrainingConfig
from somf.typing import Array

Device: TypeAlias = Literal["cpu", "cuda"]
"""Values of `device`."""

CodeEstimator: TypeAlias = Literal["auto", "averaged", "masked", "exact"]
"""Values of `code_estimator`."""

MaskKind: TypeAlias = Literal["blocks", "bernoulli"]
"""Values of `masks`."""

SurrogateKind: TypeAlias = Literal["online", "incremental", "auto"]
"""Values of `surrogate`."""

InitialAtoms: TypeAlias = Literal["samples", "random", "nndsvd", "auto"]
"""Values of `init` that are words."""

MissingEntries: TypeAlias = Literal["error", "nan", "absent"]
"""Values of `missing`."""

AlphaPer: TypeAlias = Literal["sample", "entry"]
"""Values of `alpha_per`."""

Center: TypeAlias = Literal["none", "features", "both"]
"""Values of `center`."""

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""Values of `dtype`, which may also be given by name."""

LARGEST_INTEGER = 2**31
"""The largest count that is accepted. Arrays of larger sizes could not even be described."""


def check_params(params: Mapping[str, Any]) -> TrainingConfig:
    """Check the parameters of an estimator.

    Parameters
    ----------
    params : mapping
        All parameters of `MatrixFactorization`.

    Returns
    -------
    config : TrainingConfig

    Raises
    ------
    ParameterError
        If one of them is not what it must be.
    """
    p = params
    _check_seed(p)
    _check_center(p)
    _check_normalize(p)
    return TrainingConfig(
        n_components=_integer(p, "n_components", 1),
        penalty=CodePenalty(
            _alpha(p),
            _real(p, "l1_ratio", "in [0, 1]", lambda x: 0 <= x <= 1),
            _boolean(p, "positive_code"),
        ),
        code_density=_code_density(p),
        atom_density=_atom_density(p),
        transform_alpha=_transform_alpha(p),
        ball=AtomBall(
            _real(p, "atom_l1_ratio", "in [0, 1]", lambda x: 0 <= x <= 1),
            _boolean(p, "positive_atoms"),
        ),
        atom_alpha=_real(p, "atom_alpha", "at least 0", lambda x: x >= 0),
        per_entry=_choice(p, "alpha_per", get_args(AlphaPer)) == "entry",
        reduction=_real_or_auto(p, "reduction", "at least 1, or 'auto'", lambda x: x >= 1),
        code_estimator=_choice(p, "code_estimator", get_args(CodeEstimator)),
        masks=_choice(p, "masks", get_args(MaskKind)),
        surrogate=_choice(p, "surrogate", get_args(SurrogateKind)),
        learning_rate=_real_or_auto(
            p, "learning_rate", "strictly between 0.75 and 1, or 'auto'", lambda x: 0.75 < x < 1
        ),
        batch_size=0 if _is_auto(p, "batch_size") else _integer(p, "batch_size", 1),
        n_epochs=_integer(p, "n_epochs", 1),
        tol=_real(p, "tol", "at least 0", lambda x: x >= 0),
        patience=_integer(p, "patience", 1),
        init=_init(p),
        code_tol=_real(p, "code_tol", "at least 0", lambda x: x >= 0),
        record_every=_integer(p, "record_every", 1) if p["record_every"] is not None else None,
        device=_choice(p, "device", get_args(Device)),
        n_threads=_integer(p, "n_threads", 1) if p["n_threads"] is not None else None,
        dtype=_dtype(p),
        callbacks=_callbacks(p),
        checkpoint=_checkpoint(p),
        verbose=_verbose(p),
        has_weights=_choice(p, "missing", get_args(MissingEntries)) != "error",
        is_centred=_choice(p, "center", get_args(Center)) != "none",
    )


def check_tolerance(tol: Any) -> float:
    """Return a tolerance after a check."""
    return _real({"tol": tol}, "tol", "at least 0", lambda x: x >= 0)


def _integer(params: Mapping[str, Any], name: str, least: int) -> int:
    value = params[name]
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterTypeError(name, "be an integer", value)
    if value < least:
        raise ParameterError(name, f"be at least {least}", value)
    if int(value) > LARGEST_INTEGER:
        raise ParameterError(name, f"be at most {LARGEST_INTEGER:,}", value)
    return int(value)


def _real(params: Mapping[str, Any], name: str, rule: str, holds: Callable[[float], bool]) -> float:
    value = params[name]
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterTypeError(name, f"be a number {rule}", value)
    number = float(value)
    if not (np.isfinite(number) and holds(number)):
        raise ParameterError(name, f"be {rule}", value, got=str(value))
    return number


def _boolean(params: Mapping[str, Any], name: str) -> bool:
    value = params[name]
    if not isinstance(value, bool | np.bool_):
        raise ParameterTypeError(name, "be True or False", value)
    return bool(value)


def _alpha(params: Mapping[str, Any]) -> float:
    """Return λ, or zero if it is still to be found."""
    if not _is_auto(params, "alpha"):
        return _real(params, "alpha", "at least 0, or 'auto'", lambda x: x >= 0)
    if params["alpha_per"] == "entry":
        raise ParameterError("alpha", "be a number where alpha_per is 'entry'", AUTO)
    if params["l1_ratio"] == 0 and params["atom_density"] is None:
        raise ParameterError(
            "alpha",
            "be a number where l1_ratio is 0 and atom_density is not given",
            AUTO,
            "Only an ℓ1 penalty decides how dense codes are.",
        )
    return 0.0


def _transform_alpha(params: Mapping[str, Any]) -> float | None:
    if _is_auto(params, "transform_alpha"):
        return None
    return _real(params, "transform_alpha", "at least 0, or 'auto'", lambda x: x >= 0)


def _is_auto(params: Mapping[str, Any], name: str) -> bool:
    value = params[name]
    if isinstance(value, str) and value != AUTO:
        raise ParameterError(name, "be a number or 'auto'", value)
    return isinstance(value, str)


def _real_or_auto(
    params: Mapping[str, Any], name: str, rule: str, holds: Callable[[float], bool]
) -> float | str:
    return AUTO if _is_auto(params, name) else _real(params, name, rule, holds)


def _code_density(params: Mapping[str, Any]) -> float | None:
    density = _real(params, "code_density", "strictly between 0 and 1", lambda x: 0 < x < 1)
    is_wanted = isinstance(params["alpha"], str) and params["atom_density"] is None
    return density if is_wanted else None


def _atom_density(params: Mapping[str, Any]) -> float | None:
    if params["atom_density"] is None:
        return None
    density = _real(params, "atom_density", "strictly between 0 and 1", lambda x: 0 < x < 1)
    if params["atom_l1_ratio"] == 0:
        rule = "be None where atom_l1_ratio is 0"
        raise ParameterError("atom_density", rule, density, "Atoms of the ℓ2 ball are dense.")
    return density if isinstance(params["alpha"], str) else None


def _verbose(params: Mapping[str, Any]) -> int:
    value = params["verbose"]
    return int(value) if isinstance(value, bool | np.bool_) else _integer(params, "verbose", 0)


def _choice(params: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = params[name]
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(name, f"be {_either(choices)}", value)
    return value


def _either(choices: tuple[str, ...]) -> str:
    return " or ".join(repr(c) for c in choices)


def _init(params: Mapping[str, Any]) -> str | Array:
    value = params["init"]
    if isinstance(value, str):
        if value == "nndsvd" and not params["positive_atoms"]:
            raise ParameterError(
                "init", "be 'samples', 'random' or an array where atoms may be negative", value
            )
        return _choice(params, "init", get_args(InitialAtoms))
    atoms = np.asarray(value)
    if atoms.ndim != 2 or atoms.dtype.kind not in "fiu":
        raise ParameterError(
            "init",
            f"be {_either(get_args(InitialAtoms))} or an array of shape (n_components, n_features)",
            value,
        )
    if len(atoms) != params["n_components"]:
        raise ParameterError(
            "init", f"have n_components={params['n_components']} rows", value, got=str(len(atoms))
        )
    if not np.isfinite(atoms).all():
        raise ParameterError("init", "be finite", value, got="NaN or infinity")
    return atoms


def _dtype(params: Mapping[str, Any]) -> np.dtype[Any] | None:
    value = params["dtype"]
    if value is None:
        return None
    for dtype in DTYPES:
        if value in (dtype, dtype.type, dtype.name):
            return dtype
    raise ParameterError("dtype", "be None, float32 or float64", value)


def _check_center(params: Mapping[str, Any]) -> None:
    is_positive = params["positive_code"] and params["positive_atoms"]
    if params["center"] in ("features", "both") and is_positive:
        raise ParameterError(
            "center", "be 'none' where codes and atoms are not negative", params["center"]
        )


def _check_normalize(params: Mapping[str, Any]) -> None:
    if _boolean(params, "normalize") and (params["missing"], params["center"]) != ("error", "none"):
        rule = "be False where entries are unknown, or offsets are subtracted"
        raise ParameterError("normalize", rule, True, "Scale the rows of X before.")


def _check_seed(params: Mapping[str, Any]) -> None:
    value = params["random_state"]
    if isinstance(value, Integral) and not 0 <= int(value) < 2**32:
        raise ParameterError("random_state", "be at least 0 and less than 2**32", value)


def _callbacks(params: Mapping[str, Any]) -> tuple[Callable[..., Any], ...]:
    value = params["callbacks"]
    if not callable(value) and not isinstance(value, Iterable):
        raise ParameterTypeError("callbacks", "be callables", value)
    callbacks = (value,) if callable(value) else tuple(value)
    for callback in callbacks:
        if not callable(callback):
            raise ParameterTypeError("callbacks", "be callables", callback)
    return callbacks


def _checkpoint(params: Mapping[str, Any]) -> Checkpoint | None:
    value = params["checkpoint"]
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return Checkpoint(value)
    if not isinstance(value, Checkpoint):
        raise ParameterTypeError("checkpoint", "be None, a path or a somf.Checkpoint", value)
    given = vars(value)
    if value.every_seconds is not None:
        _real(given, "every_seconds", "at least 0", lambda x: x >= 0)
    if value.every_samples is not None:
        _integer(given, "every_samples", 1)
    _boolean(given, "hash_data")
    return value
