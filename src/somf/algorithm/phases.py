"""The phases of a fit to finite data: from an average over a stream to a sum over all samples.

An average that forgets is noisy, and one that does not is out of date. Where the codes of all
samples fit into memory, a fit can have neither fault in the end. For one epoch atoms stay as they
are, and the codes of all samples on them are found. From then on the surrogate is the incremental
one: every sample counts once, with its latest code.
"""

from enum import IntEnum


class Phase(IntEnum):
    """What the surrogate of ``learning_rate="auto"`` is made of.

    Attributes
    ----------
    ONLINE
        A weighted average over the stream of samples.
    GATHERING
        The sum over the samples of this epoch, while atoms stay as they are.
    INCREMENTAL
        The sum over all samples.
    """

    ONLINE = 0
    GATHERING = 1
    INCREMENTAL = 2
