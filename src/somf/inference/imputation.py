"""Unknown entries of samples, from the codes of what is known."""

import numpy as np

from somf.data import Source
from somf.data.observed import ObservedSource
from somf.data.offsets import known_entries
from somf.typing import Array, Ints


def filled_in(source: Source, ids: Ints, predicted: Array) -> Array:
    """Return samples with their unknown entries filled in, and all others as they are.

    Parameters
    ----------
    source : ObservedSource
    ids : ndarray of shape (b,)
    predicted : ndarray of shape (b, p), overwritten
        What codes stand for, without offsets.

    Returns
    -------
    filled : ndarray of shape (b, p)
    """
    assert isinstance(source, ObservedSource)
    rows = source.rows(ids)
    if source.offsets is not None:
        weights = None if source.weights is None else source.weights.rows(ids)
        of_samples = source.offsets.of_samples(rows, weights)
        predicted += (source.offsets.features + of_samples[:, None]).astype(predicted.dtype)
    samples, features, entries, _ = known_entries(rows)
    predicted[samples, features] = entries
    return np.asarray(predicted)
