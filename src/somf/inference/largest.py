"""The features that an atom consists of, those of largest weight first."""

import numpy as np

from somf.typing import Array, Ints


def largest_features(atom: Array, n: int) -> Ints:
    """Return the features with the entries of largest magnitude, which are not zero.

    Parameters
    ----------
    atom : ndarray of shape (p,)
    n : int
        How many features to return at most.

    Returns
    -------
    features : ndarray of int
        The one of largest magnitude first.
    """
    sizes = np.abs(atom)
    n = min(n, len(atom))
    largest = np.argpartition(-sizes, n - 1)[:n]
    largest = largest[np.argsort(-sizes[largest], kind="stable")]
    return np.asarray(largest[sizes[largest] > 0])
