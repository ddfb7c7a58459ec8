"""Random numbers as a function of (seed, purpose, position): a checkpoint saves no generator."""

import numpy as np


def generator(seed: int, purpose: str, *position: int) -> np.random.Generator:
    """Return a new generator, always the same for the same arguments.

    Parameters
    ----------
    seed : int
        The seed of the fit.
    purpose : str
        What the numbers are for. Different purposes have independent streams.
    *position : int
        Where in the stream, such as the number of the epoch or of the iteration.

    Returns
    -------
    generator : numpy.random.Generator
    """
    words = [seed, *purpose.encode(), *position]
    # An array of words seeds the same generator as a list of numbers, in half of the time.
    return np.random.default_rng(np.array(words, np.uint32) if max(words) < 2**32 else words)
