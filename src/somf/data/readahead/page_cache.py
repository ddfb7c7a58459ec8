"""Minibatches that the system reads ahead into its page cache."""

from collections.abc import Iterator, Sequence
from functools import partial

from somf.data.source import Fetched, Source
from somf.typing import Ints, Rows


def read_through_page_cache(
    source: Source, batches: Sequence[Ints], n_ahead: int
) -> Iterator[Fetched]:
    """Yield minibatches whose rows the system was asked to read `n_ahead` minibatches before.

    The request itself takes time. So a thread that gathers a part of a minibatch requests as much
    of a later one: all threads share that work, and none is held up by another.

    Parameters
    ----------
    source : Source
        One that `is_read_by_system`.
    batches : sequence of ndarray of int
        The samples of every minibatch.
    n_ahead : int
    """
    for ids in batches[:n_ahead]:
        source.prefetch(ids)
    for number, ids in enumerate(batches):
        later = batches[number + n_ahead] if number + n_ahead < len(batches) else ids[:0]
        yield partial(_request_and_fetch, source, source.fetch(ids), later)


def _request_and_fetch(
    source: Source, fetched: Fetched, later: Ints, part: slice
) -> tuple[Rows, Ints]:
    source.prefetch(later[part])
    return fetched(part)
