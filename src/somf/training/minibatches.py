"""The one iterator over minibatches: of `fit`, of `partial_fit`, and of the search for λ."""

from collections.abc import Generator
from contextlib import closing
from typing import NamedTuple

import numpy as np

from somf.data import Loader
from somf.typing import Ints, Matrix


class Minibatch(NamedTuple):
    """Some samples, and which they are.

    Attributes
    ----------
    ids : ndarray of shape (b,)
        Their rows in the source.
    X : array or csc_array of shape (b, p)
        On the device of the loader, features in its order.
    """

    ids: Ints
    X: Matrix


def epochs(
    loader: Loader, ids: Ints, seed: int, batch_size: int, n_epochs: int, n_samples_seen: int = 0
) -> Generator[Minibatch]:
    """Yield the minibatches of some epochs, each in a random order of its own.

    The order depends on nothing but the seed, the epoch and the storage of the source, so an
    interrupted fit goes on at any position.

    Parameters
    ----------
    loader : Loader
    ids : ndarray of shape (n,)
        The samples of an epoch.
    seed, batch_size, n_epochs : int
    n_samples_seen : int
        How many samples to skip, counted from the beginning of the first epoch.
    """
    epoch, position = divmod(n_samples_seen, len(ids))
    while epoch < n_epochs:
        order = loader.order(ids, seed, epoch)[position:]
        with closing(one_pass(loader, order, batch_size)) as minibatches:
            yield from minibatches
        epoch, position = epoch + 1, 0


def one_pass(loader: Loader, order: Ints, batch_size: int) -> Generator[Minibatch]:
    """Yield samples in a given order, `batch_size` at a time; the next ones are read ahead."""
    batches = np.split(order, range(batch_size, len(order), batch_size))
    with loader.stream(batches) as matrices:
        for ids in batches:
            yield Minibatch(ids, next(matrices))  # no name: its memory is free once it is used
