"""The noise of an image: its standard deviation, and how far it moves a patch."""

import numpy as np
from scipy.special import gammaincinv

from somf.errors import ParameterError
from somf.typing import Array

CONFIDENCE = 0.9
"""The part of patches of pure noise whose norm is below `noise_bound`."""

MEDIAN_OF_NORMAL = 0.6744897501960817
"""The median of |z| for z of the standard normal distribution."""

SAMPLED_ROWS = 4096
"""Rows of an image that its noise is estimated from, at most."""


def noise_level(image: Array) -> float:
    """Return the standard deviation of the noise of an image, estimated from its finest details.

    The median size of x₁₁ − x₁₂ − x₂₁ + x₂₂ over all 2 × 2 pixels is that of white noise, wherever
    the image is smooth (Donoho and Johnstone, 1994). Fine texture makes the estimate too large.

    Parameters
    ----------
    image : ndarray of shape (height, width) or (height, width, channels)
        Of a volume, its last two axes of space have to be given.

    Returns
    -------
    sigma : float
        In the units of the pixels: the median over channels.

    Examples
    --------
    >>> import numpy as np
    >>> from somf.data import noise_level
    >>> noise = np.random.default_rng(0).standard_normal((100, 100))
    >>> 24 < noise_level(100 + 25 * noise) < 26
    True
    """
    if image.ndim not in (2, 3) or min(image.shape[:2]) < 2:
        rule = "have shape (height, width) or (height, width, channels), of 2 × 2 pixels at least"
        raise ParameterError("image", rule, image, got=str(image.shape))
    top = max(0, (len(image) - SAMPLED_ROWS) // 2)
    x = np.asarray(image[top : top + SAMPLED_ROWS], dtype=np.float64)
    details = np.abs(x[:-1, :-1] - x[:-1, 1:] - x[1:, :-1] + x[1:, 1:]) / 2
    of_channels = np.nanmedian(details, axis=(0, 1)) / MEDIAN_OF_NORMAL
    return float(np.median(of_channels))


def noise_bound(sigma: float, n_features: int) -> float:
    """Return the norm that nine of ten patches of pure noise do not exceed.

    A patch is coded well enough when what is left of it is not larger: this is the `max_error` of
    `transform` for removing noise.

    Parameters
    ----------
    sigma : float
        The standard deviation of the noise.
    n_features : int
        Values of a patch.

    Examples
    --------
    >>> from somf.data import noise_bound
    >>> round(noise_bound(25, 64) / (25 * 8), 2)
    1.11
    """
    if not (np.isfinite(sigma) and sigma >= 0):
        raise ParameterError("sigma", "be a number of at least 0", sigma)
    # ‖noise‖² / σ² has a χ² distribution with as many degrees of freedom as there are values.
    return float(sigma * np.sqrt(2 * gammaincinv(n_features / 2, CONFIDENCE)))
