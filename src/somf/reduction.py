"""When a reduction that takes care of itself is lowered.

What subsampling saves is known; what it costs is measured now and then. At a *look* the samples of
a minibatch are coded from all features, and from those of the mask alone. By how much more the
latter codes cost is about how far from the best the fit would come to a halt.

At the start that tells whether there is anything to gain at all: features of images repeat each
other, and codes from a twelfth of them cost some tenths of a per cent more; elsewhere it is several
per cent, and all features are looked at from then on. Later the reduction is halved whenever codes
cost more than what is tolerable, which gets less with time, so that nothing keeps atoms away from a
stationary point in the end.
"""

STRONGEST = 12.0
"""The reduction with which a fit begins."""

HOPE = 0.01
"""By how much more codes may cost, relatively, if subsampling is to be tried at all."""

SETTLED = 24
"""Iterations after which every part of the atoms has been updated twice at the strongest reduction.
Until then parts of an atom do not fit together, and codes from any one of them are poor."""

UNSETTLED_HOPE = 0.05
"""By how much more they may cost after the first iteration: what a large penalty passes easily, and
a tiny one does not, in which case atoms would be torn apart for good."""

TOLERANCE, TOLERANT_SAMPLES, DECAY = 0.0025, 1000, 0.5
"""By how much more they may cost from then on; it is less after so many samples."""


def is_look(n_iter: int) -> bool:
    """Return whether it is time for a look: at iterations 0, 1, 24, 32, 48, 64, 96 and so on."""
    shift = max(0, n_iter.bit_length() - 2)
    return n_iter <= 1 or (n_iter >= SETTLED and n_iter >> shift << shift == n_iter)


def tolerance(n_iter: int, n_samples_seen: int) -> float:
    """Return by how much more codes from a part of the features may cost."""
    if n_iter < SETTLED:
        return HOPE if n_iter == 0 else UNSETTLED_HOPE
    return float(TOLERANCE * max(1.0, n_samples_seen / TOLERANT_SAMPLES) ** -DECAY)
