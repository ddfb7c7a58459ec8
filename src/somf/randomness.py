"""Random numbers as a pure function of (seed, purpose, position): no generator state to save."""

import numpy as np


def generator(seed: int, purpose: str, *position: int) -> np.random.Generator:
    """Return a fresh generator.

    Parameters
    ----------
    seed : int
        The seed of the fit.
    purpose : str
        What the numbers are for; streams of different purposes are independent.
    *position : int
        Which draw of that purpose this is, such as an epoch or an iteration.

    Returns
    -------
    generator : numpy.random.Generator
    """
    return np.random.default_rng([seed, *purpose.encode(), *position])
