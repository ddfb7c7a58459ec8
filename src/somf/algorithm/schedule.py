"""``reduction="auto"``: how many features an iteration looks at, and how many it updates.

An iteration may code samples from a part of the features and update that part of the atoms, code
them from all features and update a part, or do both with all features. These are the rungs of a
ladder, from the cheapest to the most exact. A fit begins on the cheapest rung that is good enough,
climbs when codes or atoms stop improving, and goes down again where better atoms make codes from a
part of the features good enough after all.

How much time a rung saves is known. The update of the dictionary takes longer than the codes where
a minibatch has no more samples than there are atoms, and only there do the lower rungs pay: with
larger minibatches, whose iterations are few, parts of the atoms wait too long for their turn. What
codes from a part of the features cost is measured: a *probe* codes the samples of a minibatch
twice, from all features and from those of a mask alone. The relative difference of the two
objectives tells how far above the best objective the fit would stall. It is small where features
are redundant, as the channels of a scene are. The difference that is tolerated shrinks with the
number of samples seen, so that in the end nothing keeps the atoms away from a stationary point.
"""

from typing import NamedTuple


class Rung(NamedTuple):
    """A way to do an iteration.

    Attributes
    ----------
    code_estimator : str
        ``"masked"`` codes samples from the features of the mask, ``"exact"`` from all of them.
    reduction : float
        One feature in so many is in the mask, and is updated.
    """

    code_estimator: str
    reduction: float


LADDER = (Rung("masked", 4.0), Rung("exact", 4.0), Rung("exact", 1.0))
"""From the cheapest to the most exact. A stronger reduction than four saves little more time: to
read a minibatch takes as long with all of them."""

STRONGEST = LADDER[0].reduction
"""The reduction with which a fit begins, if codes from a part of the features are good enough."""

PARTIAL = 1
"""The rung on which codes are exact and a part of the atoms is updated."""

TOP = len(LADDER) - 1
"""The rung on which an iteration looks at everything."""

LARGE_UPDATE = 2**26
"""p k², for which the update of the dictionary is worth cutting into parts."""

TOLERANCE = 0.0025
"""Relative difference of the objectives that is tolerated at first."""

TOLERANT_SAMPLES = 1000
"""Samples after which the tolerance begins to shrink."""

DECAY = 0.5
"""The tolerance shrinks with the number of samples to the power of minus this."""

SETTLED = 24
"""Iterations after which every part of the atoms has been updated a few times. Until then parts of
an atom do not fit together, and codes from any one of them are poor."""

HYSTERESIS = 0.5
"""A fit goes down the ladder if the difference is below this share of what is tolerated."""

HOPELESS = 4.0
"""With a difference of so many times what is tolerated, a fit looks for no lower rung any more."""

MASKS_PER_PROBE = 2
"""Masks over which a probe takes the mean."""


def is_probe(n_iter: int) -> bool:
    """Return whether an iteration begins with a probe: iterations 0, 24, 48, 96, 192 and so on."""
    cycles, rest = divmod(n_iter, SETTLED)
    return rest == 0 and cycles & (cycles - 1) == 0


def tolerance(n_samples_seen: int) -> float:
    """Return the relative difference of the objectives that is tolerated."""
    return float(TOLERANCE * max(1.0, n_samples_seen / TOLERANT_SAMPLES) ** -DECAY)


def can_pay(n_components: int, batch_size: int) -> bool:
    """Return whether the lower rungs can pay."""
    return batch_size <= n_components


def next_rung(rung: int, n_features: int, n_components: int, batch_size: int) -> int:
    """Return the rung above another one; exact codes with a partial update need many features."""
    is_large = n_features * n_components**2 >= LARGE_UPDATE
    is_partial = rung + 1 == PARTIAL and is_large and can_pay(n_components, batch_size)
    return PARTIAL if is_partial else TOP
