"""The one iterator over minibatches: of `fit`, of `partial_fit`, and of the search for λ."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from somf.algorithm.state import State
from somf.data import Loader
from somf.kernels import Kernels
from somf.training.samples import Samples
from somf.typing import Array, Ints, Matrix


class Minibatch(NamedTuple):
    """Some samples, and which they are.

    Attributes
    ----------
    ids : ndarray of shape (m,)
        Those of this rank, as rows of the source.
    X : array or csc_array of shape (m, p)
        On the device of the loader, features in its order.
    size : int
        How many there are on all ranks, b.
    """

    ids: Ints
    X: Matrix
    size: int


class Rest(NamedTuple):
    """What is left of an epoch that ranks have begun in another number.

    Attributes
    ----------
    samples : Samples
        Those that were not visited.
    begin : int
        How many were visited.
    """

    samples: Samples
    begin: int


def epochs(
    loader: Loader,
    samples: Samples,
    seed: int,
    batch_size: Callable[[], int],
    n_epochs: int,
    n_samples_seen: int = 0,
    rest: Rest | None = None,
) -> Generator[Minibatch]:
    """Yield the minibatches of some epochs, each in its random order.

    The order depends on nothing but the seed, the epoch, the storage of the source and the number
    of ranks, so an interrupted fit resumes at any position.

    Parameters
    ----------
    loader : Loader
    samples : Samples
        The samples of an epoch.
    seed, n_epochs : int
    batch_size : callable
        Returns the samples of a minibatch of all ranks; called when an epoch begins.
    n_samples_seen : int
        How many samples to skip, counted from the beginning of the first epoch.
    rest : Rest, optional
        The end of the present epoch, where it is not that of `samples`.
    """
    epoch, position = divmod(n_samples_seen, samples.n)
    visited, begin = samples, 0
    if rest is not None and position > 0:
        visited, begin = rest
    while epoch < n_epochs:
        order = visited.order(loader, seed, epoch)
        rest_of_epoch = dealt(loader, visited, order, position - begin, visited.n, batch_size())
        with closing(rest_of_epoch) as minibatches:
            yield from minibatches
        epoch, position, visited, begin = epoch + 1, 0, samples, 0


def dealt(
    loader: Loader, samples: Samples, order: Ints, begin: int, end: int, batch_size: int
) -> Generator[Minibatch]:
    """Yield the minibatches of a part of an epoch.

    Parameters
    ----------
    loader : Loader
    samples : Samples
    order : ndarray of int
        Those of this rank, in the order of the epoch.
    begin, end : int
        Positions among the samples of all ranks.
    batch_size : int
    """
    ends = [*range(begin, end, batch_size), end]
    cuts = samples.before(ends).tolist()
    return _pass(loader, [order[a:b] for a, b in pairwise(cuts)], np.diff(ends).tolist())


def one_pass(loader: Loader, order: Ints, batch_size: int) -> Generator[Minibatch]:
    """Yield samples in a given order, `batch_size` at a time; the next ones are read ahead."""
    batches = np.split(order, range(batch_size, len(order), batch_size))
    return _pass(loader, batches, [len(ids) for ids in batches])


def _pass(loader: Loader, batches: list[Ints], sizes: list[int]) -> Generator[Minibatch]:
    """Yield minibatches; nothing is read for those that are on other ranks alone."""
    own = [ids for ids in batches if len(ids)]
    nothing: AbstractContextManager[Iterator[Matrix]] = nullcontext(iter(()))
    with loader.stream(own) if own else nothing as matrices:
        for ids, size in zip(batches, sizes, strict=True):
            # No name: its memory is free once it is used.
            yield Minibatch(ids, next(matrices) if len(ids) else loader.nothing(), size)


def weights_of(
    ids: Ints, sample_weight: Array | None, state: State, kernels: Kernels
) -> Array | None:
    """Return the weights of some samples on the device; None if all count the same."""
    if sample_weight is None:
        return None
    weights: Any = kernels.to_device(sample_weight[ids].astype(state.dtype))
    return weights  # type: ignore[no-any-return] # an array of the device
