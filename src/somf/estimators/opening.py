"""From the X of a method to a source of samples, and what follows from it."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from somf.data import ImagePatches, ObservedSource, Source, as_source
from somf.data.sources.centred import CentredSource
from somf.data.sources.frames import is_frame
from somf.data.sources.normalized import NormalizedSource
from somf.errors import DataError, ParameterError
from somf.training.config import TrainingConfig


def open_samples(
    X: Any, weights: Any, missing: str, center: str, normalize: bool = False
) -> tuple[Source, Any]:
    """Return the source of X, and X itself if scikit-learn can check it: a path has no shape.

    If entries may be unknown, or have weights, the source tells so.

    Parameters
    ----------
    X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
    weights : None, or likewise
        How much each entry counts.
    missing, center : str
    normalize : bool
        The parameters of the estimator.
    """
    source = as_source(X)
    # scikit-learn knows the names of a frame only, and takes the index of a table for a feature.
    is_known = is_frame(X) and tuple(X.shape) == source.shape
    is_named = source.feature_names is not None and not is_known
    checked = X if hasattr(X, "shape") and not is_named else source
    if missing == "error" and isinstance(source, ImagePatches) and source.has_missing:
        rule = "be 'nan' for patches with no_data='missing'"
        raise ParameterError("missing", rule, missing, "Entries without data are unknown.")
    is_observed = missing != "error" or center == "both" or weights is not None
    if center == "features" and is_observed:
        rule = "be 'both' or 'none' where entries are unknown or have weights"
        raise ParameterError("center", rule, center)
    if is_observed:
        of_entries = None if weights is None else as_source(weights)
        source = ObservedSource(source, missing, of_entries)
    if normalize and isinstance(source, ObservedSource):
        rule = "be False where entries are unknown or have weights, or offsets are subtracted"
        raise ParameterError("normalize", rule, normalize, "Scale the rows of X before.")
    if normalize:
        return NormalizedSource(source), checked
    return CentredSource(source) if center == "features" else source, checked


def for_source(config: TrainingConfig, source: Source) -> TrainingConfig:
    """Return a configuration for the features of a source, and for what is known of its entries."""
    config = config.for_features(source.shape[1])
    if not isinstance(source, ObservedSource):
        if config.per_entry:
            rule = "be 'sample' where all entries are known"
            hint = "Multiply alpha by the number of features."
            raise ParameterError("alpha_per", rule, "entry", hint)
        return replace(config, has_weights=False)
    return replace(config, has_weights=True, base_weight=source.base_weight)


def adopt_features(estimator: Any, X: Any, source: Source) -> None:
    """Let an estimator know the number of features, and their names and channels, if any.

    Parameters
    ----------
    estimator : BaseEstimator
    X, source
        What `open_samples` returns.
    """
    validate_data(estimator, X, skip_check_array=True)
    if isinstance(X, Source) and source.feature_names is not None:
        estimator.feature_names_in_ = np.array(source.feature_names, dtype=object)
    if source.channels is not None:
        estimator.channels_ = source.channels
    elif hasattr(estimator, "channels_"):
        del estimator.channels_  # they are those of an earlier fit


def check_features(estimator: Any, X: Any) -> None:
    """Raise ValueError unless X has the features of the fit, in number and, if known, in name."""
    wanted = estimator.n_features_in_
    if X.shape[0] == wanted != X.shape[1]:
        raise DataError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {wanted} "
            "features as input. X has as many rows: is it transposed? Pass X.T, or open the file "
            "with somf.data.open_source(path, transposed=True)."
        )
    if not isinstance(X, Source):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return
    if X.shape[1] != wanted:
        raise DataError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{wanted} features as input."
        )
    expected = getattr(estimator, "feature_names_in_", None)
    if expected is None or X.feature_names is None:
        return
    for i, (wanted, found) in enumerate(zip(expected, X.feature_names, strict=True)):
        if wanted != found:
            raise DataError(
                f"Feature {i} of X must be {wanted!r} as in the fit, got {found!r}. Give X the "
                "features of the fit, in the same order."
            )


def as_stored(data: Any) -> Any:
    """Return a source without the means that it subtracts, which a fit learns; else the same."""
    return data.source if isinstance(data, CentredSource) else data


def geometry_of(source: Source) -> dict[str, Any] | None:
    """Return how samples were cut out of an image, if they were."""
    if isinstance(source, ObservedSource | NormalizedSource | CentredSource):
        source = source.source
    return source.geometry if isinstance(source, ImagePatches) else None
