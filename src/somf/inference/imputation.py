"""Unknown entries of samples, from the codes of what is known."""

import scipy.sparse as sp

from somf.inference.coding import CodedChunk
from somf.kernels.host import to_host
from somf.kernels.observed import Observed
from somf.typing import Array


def filled_in(chunk: CodedChunk, components: Array) -> Array:
    """Return samples with their unknown entries filled in, and all others as they are.

    Parameters
    ----------
    chunk : CodedChunk
        With samples whose weights are zero and one.
    components : ndarray of shape (k, p)

    Returns
    -------
    filled : ndarray of shape (b, p)
    """
    X = chunk.X
    assert isinstance(X, Observed)
    filled: Array = to_host(chunk.code) @ components
    if isinstance(X.values, sp.csc_array):
        entries = X.values.tocoo()
        filled[entries.row, entries.col] = entries.data
    else:
        deviations = X.deviations
        dense = (
            deviations.toarray() if isinstance(deviations, sp.csc_array) else to_host(deviations)
        )
        known = dense + X.base > 0
        filled[known] = to_host(X.values)[known]
    return filled
