"""Minibatches that the system reads ahead into its page cache."""

from collections.abc import Iterator, Sequence
from functools import partial

from somf.data.source import PieceReader, Source, View
from somf.typing import Ints


def read_through_page_cache(
    source: Source, batches: Sequence[Ints], n_ahead: int
) -> Iterator[PieceReader]:
    """Yield a reader for every minibatch, which was prefetched `n_ahead` minibatches before.

    The calls that prefetch take time, too. So a worker thread that reads a piece of a minibatch
    also prefetches the same piece of a later one: all threads share that work, and no thread waits
    for another.

    Parameters
    ----------
    source : Source
        One that `reads_in_parallel`.
    batches : sequence of ndarray of int
        The samples of every minibatch.
    n_ahead : int

    Yields
    ------
    read : callable
        Given a piece of the minibatch, a slice, it returns `Source.view` of that piece.
    """
    for ids in batches[:n_ahead]:
        source.prefetch(ids)
    for number, ids in enumerate(batches):
        later = batches[number + n_ahead] if number + n_ahead < len(batches) else ids[:0]
        yield partial(_prefetch_and_read, source, ids, later)


def _prefetch_and_read(source: Source, ids: Ints, later: Ints, piece: slice) -> View:
    source.prefetch(later[piece])
    return source.view(ids[piece])
