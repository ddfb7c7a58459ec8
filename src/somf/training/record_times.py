"""When a fit records its progress."""

FIRST_RECORD = 6
"""The first record of a fit is due after the 2⁻⁶th part of an epoch."""


class RecordTimes:
    """The intervals between the records of a fit, in samples.

    An interval is `every` samples. The objective falls most at the beginning: early records are
    after 1/64, 1/32, … 1/2 of the first interval.

    Parameters
    ----------
    every : int
    has_early : bool
        Whether there are early records.
    """

    def __init__(self, every: int, has_early: bool) -> None:
        self.every, self.has_early = every, has_early
        self._latest = (
            -1,
            0,
        )  # a record, and the one after it

    def next_after(self, n_seen: int) -> int:
        """Return after how many samples the record is due that follows one after `n_seen`."""
        if self._latest[0] != n_seen:
            self._latest = n_seen, self._end_of_interval(n_seen)
        return self._latest[1]

    def _end_of_interval(self, n_seen: int) -> int:
        if self.has_early and n_seen < self.every:
            early = (-(-self.every // 2**i) for i in range(FIRST_RECORD, 0, -1))
            return next((end for end in early if end > n_seen), self.every)
        return self.every * (n_seen // self.every + 1)
