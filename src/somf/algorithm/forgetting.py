"""How fast the past fades: the weight of a minibatch in the average that is the surrogate."""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np

from somf.algorithm.state import FIRST_GROWTH, State

CHUNK = 2**12
"""Samples whose weights are computed at once."""

EARLIER_RATE = 0.78
"""v of ``learning_rate="auto"`` where it is not known how much is remembered: in files of earlier
versions, and where the learning rate was a number before."""


class Forgetting(Protocol):
    """A rule for the weight w in B ← (1−w) B + w/b Σ xαᵀ."""

    def weight(self, n_samples_seen: int, batch_size: int) -> float:
        """Return w of a minibatch.

        Parameters
        ----------
        n_samples_seen : int
            Samples before it.
        batch_size : int
            Its samples on all ranks, b.
        """
        ...

    def advance(self, n_samples_seen: int, batch_size: int) -> None:
        """Note that this minibatch has been learned from."""
        ...

    def expect_epochs(
        self, n_samples: int, noisy_from: float = math.inf, quiet_from: float = math.inf
    ) -> None:
        """Take into account that samples come again.

        Parameters
        ----------
        n_samples : int
            After so many others.
        noisy_from, quiet_from : float
            Samples after which noise is wanted, and after which it is to be averaged out.
        """
        ...


class PowerLaw:
    """The paper's: sample number s has the weight s^−v.

    Parameters
    ----------
    learning_rate : float
        v.
    """

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    def weight(self, n_samples_seen: int, batch_size: int) -> float:
        """Return w = 1 − Π (1 − s^−v) over the samples of a minibatch.

        This is the weight of the batch as a whole if its samples had come one by one, so that
        results depend as little as possible on how a stream is cut.
        """
        if n_samples_seen == 0:
            return 1.0
        return -math.expm1(self._log_kept(n_samples_seen, n_samples_seen + batch_size))

    def advance(self, n_samples_seen: int, batch_size: int) -> None:
        """Do nothing: the number of samples says it all."""

    def expect_epochs(
        self, n_samples: int, noisy_from: float = math.inf, quiet_from: float = math.inf
    ) -> None:
        """Do nothing: the weights of the paper do not depend on it."""

    def _log_kept(self, start: int, stop: int) -> float:
        """Return Σ log(1 − weight) over the samples from number `start` + 1 to `stop`."""
        total = 0.0
        while start < stop:
            chunk, offset = divmod(start, CHUNK)
            sums = _log_sums(chunk, self.learning_rate)
            last = min(offset + stop - start, CHUNK)
            total += sums[last] - sums[offset]
            start += last - offset
        return total


@lru_cache(maxsize=4)
def _log_sums(chunk: int, learning_rate: float) -> list[float]:
    """Return the sums of log(1 − weight) over 0, 1, … samples of a chunk; the first sample is none.

    A chunk serves many minibatches, and makes the weight of each a difference of two numbers.
    """
    s = np.arange(chunk * CHUNK + 1.0, (chunk + 1) * CHUNK + 1.0)
    logs = np.log1p(-(s[s > 1] ** -learning_rate))
    sums: list[float] = [0.0] * (CHUNK + 1 - len(logs)) + np.cumsum(logs).tolist()
    return sums


LEAST_EXPONENT = 0.75
"""N is at least the number of samples seen to this power, the least of the paper's v."""

MOST_EXPONENT = 0.9
"""N is at most the number of samples seen to this power."""

NOISY_PER_ATOM = 32.0
"""Samples per atom that are remembered where noise is wanted and codes have no penalty: noise then
raises the objective by a share of k/2N."""

LEAST_PER_ATOM = 8.0
"""The same where nearly all of the objective is the penalty on codes."""

NOISY_MINIBATCHES = 2
"""Minibatches that are remembered where noise is wanted, at least."""


class Adaptive:
    """An average over about N samples, where N grows as the data asks for it.

    The weight of a sample is 1/N, and `somf.algorithm.drift` decides how N grows.

    Noise has a use if passes over all samples follow, which are slow along flat valleys of the
    objective. An average over few samples makes atoms move fast along these valleys, and out of
    poor minima. So for some time before the passes N is small. Then it grows by one with every
    sample, up to its limit: all samples since then count the same, which averages the noise out.

    Parameters
    ----------
    state : State
        Has N, the power of the number of samples like which it grows, and atoms.

    Attributes
    ----------
    most : float
        What N does not exceed; infinite for a stream.
    noisy_from, quiet_from : float
        Samples after which noise is wanted, and after which it is averaged out; infinite without
        noise.
    """

    def __init__(self, state: State) -> None:
        self.state, self.most = state, math.inf
        self.noisy_from = self.quiet_from = math.inf

    def expect_epochs(
        self, n_samples: int, noisy_from: float = math.inf, quiet_from: float = math.inf
    ) -> None:
        """Take into account that samples come again; see `Forgetting`."""
        self.most = float(n_samples)
        self.noisy_from, self.quiet_from = noisy_from, quiet_from

    def weight(self, n_samples_seen: int, batch_size: int) -> float:
        """Return w = 1 − (1 − 1/N)^b, with N in the middle of the minibatch."""
        if n_samples_seen == 0:
            return 1.0
        N = self._remembered(n_samples_seen)
        N = math.sqrt(N * self._grown(N, n_samples_seen, batch_size))
        return -math.expm1(batch_size * math.log1p(-1.0 / N)) if N > 1 else 1.0

    def advance(self, n_samples_seen: int, batch_size: int) -> None:
        """Let N grow by a minibatch."""
        if n_samples_seen == 0:
            N = float(batch_size) ** FIRST_GROWTH
        else:
            N = self._grown(self._remembered(n_samples_seen), n_samples_seen, batch_size)
        self.state.n_remembered = min(N, self.most)

    def begin_noise(self, residual_share: float, known_share: float, batch_size: int) -> None:
        """Remember few samples from now on, and no more than until now.

        Parameters
        ----------
        residual_share : float
            The share of the residuals in the objective; noise hardly changes the rest of it, the
            penalty on codes.
        known_share : float
            The share of the entries that are known, more than zero. If it is a tenth, ten times as
            many samples tell as much of a feature.
        batch_size : int
            Samples of as many minibatches as move all rows of the atoms.
        """
        per_atom = max(NOISY_PER_ATOM * residual_share, LEAST_PER_ATOM) / min(known_share, 1.0)
        N = max(per_atom * len(self.state.C), float(NOISY_MINIBATCHES * batch_size))
        self.state.n_remembered = min(N, self.most, self.state.n_remembered)

    def forget_most(self) -> None:
        """Remember as little as may be."""
        least: float = float(self.state.n_samples_seen) ** LEAST_EXPONENT
        self.state.n_remembered = min(self.state.n_remembered, least)

    def _remembered(self, n_samples_seen: int) -> float:
        return self.state.n_remembered or float(n_samples_seen) ** EARLIER_RATE

    def _grown(self, N: float, n_samples_seen: int, batch_size: int) -> float:
        if n_samples_seen >= self.quiet_from:
            return min(N + batch_size, self.most)
        if n_samples_seen >= self.noisy_from:
            return N  # that of `begin_noise`
        seen = float(n_samples_seen + batch_size)
        change = self.state.growth * math.log(seen / n_samples_seen)
        least: float = seen**LEAST_EXPONENT
        most: float = min(seen**MOST_EXPONENT, self.most)
        # A file may ask for more growth than there can be.
        return min(max(N * math.exp(min(change, 100.0)), least), most)
