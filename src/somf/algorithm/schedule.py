"""``reduction="auto"``: when the reduction is lowered.

How much time subsampling saves is known. What it costs is measured: a *probe* codes the samples of
a minibatch twice, from all features and from those of a mask alone. The relative difference of the
two objectives tells how far above the best objective the fit would stall.

The first probe decides whether features are subsampled at all. It pays where features are
redundant, as the channels of a scene are, so that codes from a few of them are nearly as good.
Later probes halve the reduction whenever the difference exceeds a tolerance. The tolerance shrinks
with the number of samples seen, so that in the end nothing keeps the atoms away from a stationary
point.
"""

import math

STRONGEST = 12.0
"""The reduction with which a fit begins, if it subsamples features."""

TOLERANCE = 0.0025
"""Relative difference of the objectives that is tolerated at first. The objective of a fit stalls
at two or three times that above the best."""

TOLERANT_SAMPLES = 1000
"""Samples after which the tolerance begins to shrink."""

DECAY = 0.5
"""The tolerance shrinks with the number of samples to the power of minus this."""

SETTLED = 24
"""Iterations after which every part of the atoms has been updated twice at the strongest reduction.
Until then parts of an atom do not fit together, and codes from any one of them are poor."""

MASKS_PER_PROBE = 2
"""Masks over which a probe takes the mean."""


def is_probe(n_iter: int) -> bool:
    """Return whether an iteration begins with a probe: iterations 0, 24, 48, 96, 192 and so on."""
    cycles, rest = divmod(n_iter, SETTLED)
    return rest == 0 and cycles & (cycles - 1) == 0


def tolerance(n_samples_seen: int) -> float:
    """Return the relative difference of the objectives that is tolerated."""
    return float(TOLERANCE * max(1.0, n_samples_seen / TOLERANT_SAMPLES) ** -DECAY)


def lowered(reduction: float, n_halvings: int) -> float:
    """Return a reduction after some halvings: 1 instead of anything below 2.

    Between 1 and 2 every other mask would be all features.
    """
    if n_halvings == 0:
        return reduction
    halved = math.ldexp(reduction, -n_halvings)
    return halved if halved >= 2.0 else 1.0
