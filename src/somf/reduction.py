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

TOLERANCE, TOLERANT_SAMPLES, DECAY = 0.0025, 1000, 0.5
"""By how much the objective may be larger, relatively; it is less after so many samples."""

SETTLED = 24
"""Iterations after which every part of the atoms has been updated twice at the strongest reduction.
Until then parts of an atom do not fit together, and codes from any one of them are poor."""


def is_look(n_iter: int) -> bool:
    """Return whether it is time for a look: at iterations 0, 24, 32, 48, 64, 96 and so on."""
    shift = max(0, n_iter.bit_length() - 2)
    return n_iter == 0 or (n_iter >= SETTLED and n_iter >> shift << shift == n_iter)


def tolerance(n_samples_seen: int) -> float:
    """Return how much larger the objective of codes from a part of the features may be."""
    return float(TOLERANCE * max(1.0, n_samples_seen / TOLERANT_SAMPLES) ** -DECAY)
