"""When a reduction that takes care of itself is lowered.

What subsampling saves is known; what it costs is measured now and then. At a *look* the samples of
a minibatch are coded from all features, and from those of a mask alone. By how much more the
latter codes cost tells how far from the best the fit would come to a halt.

At the start that decides whether features are subsampled at all. It is worth while where features
repeat each other, as the channels of a scene do, and codes from a few of them are nearly as good.
Later the reduction is halved whenever codes cost more than what is tolerable, which gets less with
time, so that nothing keeps atoms away from a stationary point in the end.
"""

STRONGEST = 12.0
"""The reduction with which a fit begins, if it subsamples features."""

TOLERANCE, TOLERANT_SAMPLES, DECAY = 0.0025, 1000, 0.5
"""By how much more codes may cost, relatively; it is less after so many samples. The objective
comes to a halt at two or three times that above the best."""

SETTLED = 24
"""Iterations after which every part of the atoms has been updated twice at the strongest reduction.
Until then parts of an atom do not fit together, and codes from any one of them are poor."""

MASKS_PER_LOOK = 2
"""Masks over which a look takes the mean."""


def is_look(n_iter: int) -> bool:
    """Return whether it is time for a look: at iterations 0, 24, 48, 96, 192 and so on."""
    cycles, rest = divmod(n_iter, SETTLED)
    return rest == 0 and cycles & (cycles - 1) == 0


def tolerance(n_samples_seen: int) -> float:
    """Return by how much more codes from a part of the features may cost."""
    return float(TOLERANCE * max(1.0, n_samples_seen / TOLERANT_SAMPLES) ** -DECAY)
