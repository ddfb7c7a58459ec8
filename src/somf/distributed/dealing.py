"""Which samples a rank has, and when it is the turn of each of them.

Rows are cut into one run of consecutive rows for each rank, so that a rank reads a part of a file.
An epoch takes samples from all ranks in proportion to what they have, like cards that are dealt: a
minibatch has the same part of the samples of every rank, to within one sample.
"""

import numpy as np

from somf.typing import Ints


def edges_of(n_rows: int, size: int) -> Ints:
    """Return where the rows of each rank begin, and the number of rows at the end.

    Parameters
    ----------
    n_rows, size : int

    Returns
    -------
    edges : ndarray of shape (size + 1,)
        Rank w has the rows from ``edges[w]`` to ``edges[w + 1]``; their numbers differ by one at
        most.
    """
    return np.array([-(-n_rows * rank // size) for rank in range(size + 1)], dtype=np.int64)


def turns(counts: Ints, rank: int) -> Ints:
    """Return the positions in the epoch of all ranks at which it is the turn of one of them.

    The j-th of the m samples of a rank has the key (2j + 1) / m, which is between 0 and 2. The
    epoch goes by these keys, and by the rank where they are equal (Webster's method).

    Parameters
    ----------
    counts : ndarray of shape (size,)
        How many samples each rank has.
    rank : int

    Returns
    -------
    positions : ndarray of shape (counts[rank],)
        Increasing. Those of all ranks together are 0 … n − 1.
    """
    m = int(counts[rank])
    odd = 2 * np.arange(m, dtype=np.int64) + 1
    positions = np.zeros(m, dtype=np.int64)
    for other, n in enumerate(counts.tolist()):
        # How many i have (2i + 1) / n < (2j + 1) / m, or ≤ for ranks before this one.
        twice = odd * n - m
        before = twice // (2 * m) + 1 if other < rank else -(-twice // (2 * m))
        positions += before.clip(0, n)
    return positions


def parts(counts: Ints, rank: int, ends: Ints) -> Ints:
    """Return how many samples of a rank come before some positions of the epoch.

    Parameters
    ----------
    counts : ndarray of shape (size,)
    rank : int
    ends : ndarray of int

    Returns
    -------
    n_before : ndarray of int, of the shape of `ends`
    """
    if len(counts) == 1:
        return ends
    return np.searchsorted(turns(counts, rank), ends)
