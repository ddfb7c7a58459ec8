"""Work on rows that ranks do while they wait for messages.

A step changes all rows of B, but the update of the atoms needs those of the mask only. So these
come first, and the others one piece after the other, whenever a rank would be idle. The result does
not depend on when a piece is done.
"""

from collections import deque
from collections.abc import Callable

from somf.typing import Slices

PIECE_ROWS = 16384
"""Rows of a piece: one or two milliseconds of work, since sleeping threads take some tenths of one
to wake up."""


class RowWork:
    """A function that is to be called for all rows, a piece at a time.

    Parameters
    ----------
    work : callable
        Takes rows.
    first : tuple of slices
        The rows that are needed first.
    n_rows : int
        All rows are 0 … n_rows − 1.
    """

    def __init__(self, work: Callable[[Slices], None], first: Slices, n_rows: int) -> None:
        self._work = work
        self._first, self._others = _pieces(first), _pieces(_other_rows(first, n_rows))

    def advance(self) -> bool:
        """Do a piece; return whether there was one left."""
        left = self._first or self._others
        if not left:
            return False
        self._work((left.popleft(),))
        return True

    def finish_first(self) -> None:
        """Do all that is left of the first rows."""
        while self._first:
            self.advance()

    def finish(self) -> None:
        """Do all that is left."""
        while self.advance():
            pass


def _pieces(rows: Slices) -> deque[slice]:
    return deque(
        slice(start, min(start + PIECE_ROWS, s.stop))
        for s in rows
        for start in range(s.start, s.stop, PIECE_ROWS)
    )


def _other_rows(rows: Slices, n_rows: int) -> Slices:
    """Return all rows but some, which are in order."""
    starts = [0, *(s.stop for s in rows)]
    stops = [*(s.start for s in rows), n_rows]
    return tuple(slice(a, b) for a, b in zip(starts, stops, strict=True) if a < b)


NO_WORK = RowWork(lambda _: None, (), 0)
"""That of a rank that has nothing to do while it waits."""
