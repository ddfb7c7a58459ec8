"""Random order of samples that respects how rows are stored."""

import numpy as np

from somf.data.source import Source
from somf.randomness import generator
from somf.typing import Ints

BUFFER_BYTES = 2**28
"""Size of the buffer in which chunks are shuffled."""

LEAST_BUFFERED = 4
"""Number of chunks that the buffer holds at least, even if they are larger than `BUFFER_BYTES`."""

LARGEST_CHUNK = 2**26
"""Bytes of rows that are read together at most; a larger chunk is read in pieces."""


def epoch_order(
    ids: Ints,
    seed: int,
    epoch: int,
    chunk_starts: Ints | None = None,
    n_buffered: int = 1,
    stream: tuple[int, ...] = (),
) -> Ints:
    """Return samples in the random order in which an epoch visits them.

    Without chunks all orders are equally likely. With chunks, the chunks are shuffled and pass one
    after the other through a buffer that holds `n_buffered` of them; a row leaves at a random time
    while its chunk is in the buffer. So each chunk has to be read only once.

    Where all orders are equally likely, all epochs have the same one: a sample comes again after
    all others have come. The surrogate is an average over the latest samples, and in another order
    it would have some of them twice and others not at all. Where the buffer does not hold all
    chunks, samples that are similar may be neighbours, and every epoch has other neighbours.

    Parameters
    ----------
    ids : ndarray of shape (n,)
    seed, epoch : int
    chunk_starts : ndarray of int, optional
        The first row of every chunk.
    n_buffered : int
    stream : tuple of int
        Where else the random numbers are to come from: other samples have other ones.

    Returns
    -------
    order : ndarray of shape (n,)
    """
    n_chunks = 0 if chunk_starts is None else len(chunk_starts)
    random = generator(seed, "order", epoch if n_chunks > n_buffered else 0, *stream)
    if chunk_starts is None:
        return random.permutation(ids)
    # With W = n_buffered and m chunks, the j-th chunk is in the buffer from time j − W + 1 to
    # j + 1. These times are clipped to the epoch, which lasts from 0 to m − W + 1, so that W chunks
    # are in the buffer from the beginning to the end.
    turn = random.permutation(n_chunks)[chunks_of(ids, chunk_starts)]
    enters = np.maximum(turn - n_buffered + 1, 0)
    leaves = np.minimum(turn + 1, max(n_chunks - n_buffered + 1, 1))
    return ids[np.argsort(enters + (leaves - enters) * random.random(len(ids)))]


def buffered_chunks(source: Source) -> int:
    """Return how many chunks of a source are shuffled together."""
    if source.chunk_starts is None:
        return 1
    ends = np.append(source.chunk_starts[1:], source.shape[0])
    largest = int((ends - source.chunk_starts).max())
    chunk_bytes = largest * source.entries_per_row * source.dtype.itemsize
    return max(LEAST_BUFFERED, int(BUFFER_BYTES / chunk_bytes))


def chunks_within(chunk_starts: Ints, rows: slice) -> Ints:
    """Return the first rows of the chunks that have some of a run of rows."""
    first = np.searchsorted(chunk_starts, rows.start, side="right") - 1
    return chunk_starts[first : np.searchsorted(chunk_starts, rows.stop)]


def runs(chunk_starts: Ints, n: int, longest: int) -> Ints:
    """Return where runs of rows start that are similar in length, so that one buffer suits all.

    Parameters
    ----------
    chunk_starts : ndarray of int
    n : int
        Number of rows.
    longest : int
        Rows of a run, at most. A run is as many whole chunks as fit, or a part of one chunk that
        does not fit.

    Returns
    -------
    starts : ndarray of int
    """
    edges = np.append(chunk_starts, n)
    if (np.diff(edges)[:-1] == longest).all() and edges[-1] - edges[-2] <= longest:
        return chunk_starts
    starts, here = [], 0
    while here < n:
        starts.append(here)
        end = int(edges[np.searchsorted(edges, here + longest, side="right") - 1])
        here = end if end > here else here + longest
    return np.array(starts)


def chunks_of(ids: Ints, chunk_starts: Ints) -> Ints:
    """Return the number of the chunk of every row."""
    return np.searchsorted(chunk_starts, ids, side="right") - 1
