"""From the X of a method to a source of samples, and what follows from it."""

from dataclasses import replace
from typing import Any

from somf.data import ImagePatches, ObservedSource, Source, as_source
from somf.errors import ParameterError
from somf.training.config import TrainingConfig


def open_samples(X: Any, weights: Any, missing: str, center: str) -> tuple[Source, Any]:
    """Return the source of X, and X itself if scikit-learn can check it: a path has no shape.

    If entries may be unknown, or have weights, the source tells so.

    Parameters
    ----------
    X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
    weights : None, or likewise
        How much each entry counts.
    missing, center : str
        The parameters of the estimator.
    """
    source = as_source(X)
    checked = X if hasattr(X, "shape") else source
    if missing == "error" and isinstance(source, ImagePatches) and source.has_missing:
        rule = "be 'nan' for patches with no_data='missing'"
        raise ParameterError("missing", rule, missing, "Entries without data are unknown.")
    if missing != "error" or center != "none" or weights is not None:
        of_entries = None if weights is None else as_source(weights)
        source = ObservedSource(source, missing, of_entries)
    return source, checked


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


def geometry_of(source: Source) -> dict[str, Any] | None:
    """Return how samples were cut out of an image, if they were."""
    source = source.source if isinstance(source, ObservedSource) else source
    return source.geometry if isinstance(source, ImagePatches) else None
