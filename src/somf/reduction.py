"""When a reduction that takes care of itself is lowered.

What subsampling saves is known; what it costs is measured now and then. At a *look* the samples of
a minibatch are coded from all features, and from those of the mask alone. If the latter codes have
an objective that is larger by more than is tolerable, the reduction is halved, and so on.

What is tolerable gets less with time. At first atoms are far from where they will be, and many
poor codes move them faster than few good ones; later the errors of codes are what keeps atoms away
from a stationary point.
"""

STRONGEST = 12.0
"""The reduction with which a fit begins."""

TOLERANCE, TOLERANT_SAMPLES, DECAY = 0.01, 1000, 0.5
"""By how much the objective may be larger, relatively; it is less after so many samples."""


def is_look(n_iter: int) -> bool:
    """Return whether it is time for a look: at 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    shift = max(0, n_iter.bit_length() - 2)
    return n_iter >> shift << shift == n_iter


def tolerance(n_samples_seen: int) -> float:
    """Return how much larger the objective of codes from a part of the features may be."""
    return float(TOLERANCE * max(1.0, n_samples_seen / TOLERANT_SAMPLES) ** -DECAY)
