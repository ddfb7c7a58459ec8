"""The phases of a fit to finite data: from an average over a stream to passes over all samples.

An average that forgets is noisy, and one that does not is out of date. Where the codes of all
samples fit into memory, a fit can have neither fault in the end (see `somf.algorithm.passes`).
"""

from enum import IntEnum

PASS_TOL = 0.01
"""Relative duality gap of the codes of a pass, as a share of `code_tol`: the objectives of two
passes are compared, and must not differ by an error of the codes."""


class Phase(IntEnum):
    """What the surrogate of ``learning_rate="auto"`` is made of.

    Attributes
    ----------
    ONLINE
        A weighted average over the stream of samples.
    PASS
        The sum over the samples of this epoch so far, while atoms stay as they are.
    INCREMENTAL
        The sum over all samples, each with its latest code. Only checkpoints of earlier versions
        have it; a fit goes on from there as from an average.
    BETWEEN
        The sum over all samples of the last pass, from which atoms have been found; or an average,
        before the first pass. The next minibatch begins a pass.
    """

    ONLINE = 0
    PASS = 1
    INCREMENTAL = 2
    BETWEEN = 3
