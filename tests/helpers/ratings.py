"""Ratings with a known structure: offsets of people and things, a few factors, and noise."""

import numpy as np
import scipy.sparse as sp


def planted_ratings(
    n_people: int, n_things: int, n_factors: int, *, share: float, seed: int = 0
) -> tuple[sp.csr_array, sp.coo_array]:
    """Return ratings from 1 to 5 to learn from, and a tenth of all ratings that are held out.

    Parameters
    ----------
    n_people, n_things, n_factors : int
    share : float
        Of all pairs, how many are rated; things are the less popular the larger their number.
    seed : int
    """
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, n_things + 1) ** -0.5
    chance = share * popularity / popularity.mean()
    row, column = np.nonzero(rng.random((n_people, n_things)) < chance)
    people, things = (rng.standard_normal((n, n_factors)) for n in (n_people, n_things))
    mean = (
        3.5 + 0.4 * rng.standard_normal(n_people)[row] + 0.5 * rng.standard_normal(n_things)[column]
    )
    rating = mean + 0.5 * (people[row] * things[column]).sum(axis=1)
    rating = np.clip(np.round(rating + 0.3 * rng.standard_normal(len(row))), 1, 5)
    is_held_out = rng.random(len(row)) < 0.1
    shape = (n_people, n_things)
    known, held_out = (
        sp.coo_array((rating[which], (row[which], column[which])), shape=shape)
        for which in (~is_held_out, is_held_out)
    )
    return known.tocsr(), held_out
