"""A look at some samples after a fit: how well they are explained, how dense codes are."""

import math
from dataclasses import dataclass

import numpy as np

from somf.data import Loader, Source
from somf.distributed import Communicator
from somf.inference.coding import CodedChunk, Coder, LearnedDictionary
from somf.inference.variance import Variance
from somf.kernels.host import to_host
from somf.typing import Ints

SAMPLES = 300
"""Samples that are looked at, at most."""

ENTRIES = 2**23
"""Entries of these samples, at most."""

CODE_TOL = 1e-3
"""Relative duality gap of their codes."""


@dataclass(frozen=True)
class Inspection:
    """What some samples tell about a dictionary; those of all ranks.

    Attributes
    ----------
    n_samples : int
        Samples that are not zero.
    n_empty : int
        How many of them have an empty code.
    density : float
        The fraction of the entries of their codes that is not zero.
    mean_norm : float
        The root of the mean of ‖x‖².
    explained_variance : float
        One less Σ‖x − Dα‖² / Σ‖x − x̄‖², with the mean x̄ of the samples of the same rank.
    mean_sq_error : float
        The mean of ‖x − Dα‖².
    """

    n_samples: int
    n_empty: int
    density: float
    mean_norm: float
    explained_variance: float
    mean_sq_error: float


def some_samples(source: Source, ids: Ints, seed: int) -> Ints:
    """Return a few of the given samples, by random, that are cheap to read together."""
    most = max(1, min(SAMPLES, int(ENTRIES / source.entries_per_row)))
    # The first samples of an epoch: few chunks have to be read for them.
    return np.sort(Loader(source, np.dtype(np.float64)).order(ids, seed, 0)[:most])


def inspect_samples(
    learned: LearnedDictionary, source: Source, ids: Ints, communicator: Communicator
) -> Inspection:
    """Look at some samples of this rank, and of all others.

    Parameters
    ----------
    learned : LearnedDictionary
        With the penalty of the codes that the user gets.
    source : Source
    ids : ndarray of int
    communicator : Communicator
    """
    with learned.coder(CODE_TOL) as coder:
        found = _totals(coder, learned.loader(source), ids)
    n, n_zero, n_coded, n_used, sq_norm, sq_error, total = communicator.total(*found)
    n_shown = max(n - n_zero, 1)
    return Inspection(
        n_samples=int(n - n_zero),
        n_empty=int(n - n_zero - n_coded),
        density=n_used / (n_shown * len(learned.components)),
        mean_norm=math.sqrt(sq_norm / n_shown),
        explained_variance=1 - sq_error / total if total > 0 else math.nan,
        mean_sq_error=sq_error / max(n, 1),
    )


def _totals(coder: Coder, loader: Loader, ids: Ints) -> tuple[float, ...]:
    """Return the numbers of samples, of those that are zero, of those with a code; and sums."""
    variance = Variance(coder)
    n_zero = n_coded = n_used = 0
    for X in loader.chunks(ids, coder.D.shape[1]):
        code, objective = coder.code(X)
        variance.add(CodedChunk(X, code, objective))
        used = (to_host(code) != 0).sum(axis=1)
        is_zero = (objective == 0) & (used == 0)
        n_zero += int(is_zero.sum())
        n_coded += int((used > 0).sum())
        n_used += int(used.sum())
    is_known = variance.weights > 0
    of_means = float((variance.sums[is_known] ** 2 / variance.weights[is_known]).sum())
    total = variance.sq_norm - of_means
    return len(ids), n_zero, n_coded, n_used, variance.sq_norm, variance.sq_error, total
